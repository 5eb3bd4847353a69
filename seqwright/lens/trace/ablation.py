"""Decode one text without each head in turn (Michel et al. 2019, 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seqwright.lens.heads.gates import sites, without_heads
from seqwright.lens.trace.steps import DecodedPath, rounded
from seqwright.models import Model
from seqwright.search import Hypothesis

HEADS = 100  # decodes at most
TOKENS = 2000  # in all these decodes together


def reason_to_skip(model: Model, path: DecodedPath) -> str | None:
    """Why one decode per head would take too long or is impossible; None if it can be done."""
    heads = sum(len(site.heads) for site in sites(model))
    if not heads:
        return "the model has no attention heads that could be switched off"
    if heads > HEADS:
        return f"one decode for each of {heads} heads would take too long; the limit is {HEADS} heads"
    longest = max(len(path.source), len(path.tokens))
    if heads * longest > TOKENS:
        return (
            f"decoding {longest} tokens for each of {heads} heads would take too long; "
            f"the limit is {TOKENS // heads} tokens"
        )
    return None


def without_each_head(
    model: Model,
    path: DecodedPath,
    *,
    decode: Callable[[], Hypothesis],
    score: Callable[[], float],
    text: Callable[[Sequence[int]], str],
) -> list[dict[str, Any]]:
    """The best output without each head, and the log-probability of the original output without it.

    decode and score are called once per head, while its gate is closed.
    """
    rows = []
    for head in (head for site in sites(model) for head in site.heads):
        with without_heads(model, [head]):
            found, log_prob = decode(), score()
        again = DecodedPath.of(path.source[:-1], found.tokens, ended=found.finish_reason == "end")
        rows.append(
            {
                **head._asdict(),
                "text": text(found.tokens),
                "log_prob": rounded(found.log_prob),
                "score": rounded(found.score),
                "output_log_prob": rounded(log_prob),
                "changed": again != path,
            }
        )
    return rows

"""What a model says about one text without one of its heads (Michel et al. 2019, 3.2), head by head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seqwright.lens.heads.gates import closed, sites
from seqwright.lens.trace.steps import Said, rounded
from seqwright.models import Model
from seqwright.search import Hypothesis

HEADS = 100  # decodes that are worth waiting for
TOKENS = 2000  # of all these decodes together


def too_much(model: Model, said: Said) -> str | None:
    """Why not to decode once for every head, in a sentence; None: do."""
    heads = sum(len(site.heads) for site in sites(model))
    if not heads:
        return "the model has no attention head that could be switched off"
    if heads > HEADS:
        return f"one decode for each of {heads} heads would take long; up to {HEADS} are tried"
    if heads * (longest := max(len(said.source), len(said.tokens))) > TOKENS:
        return (
            f"{longest} tokens for each of {heads} heads would take long; up to {TOKENS // heads} are tried"
        )
    return None


def without_each_head(
    model: Model,
    said: Said,
    *,
    decode: Callable[[], Hypothesis],
    score: Callable[[], float],
    text: Callable[[Sequence[int]], str],
) -> list[dict[str, Any]]:
    """The best output without each head, and what the original output is worth then.

    decode and score are asked again for each head: the best output, and log p of what was said.
    """
    rows = []
    for kind, layer, number in (head for site in sites(model) for head in site.heads):
        with closed(model, [(kind, layer, number)]):
            found, worth = decode(), score()
        again = Said.of(said.source[:-1], found.tokens, ended=found.finish_reason == "end")
        rows.append(
            {
                "kind": kind,
                "layer": layer,
                "head": number,
                "text": text(found.tokens),
                "log_prob": rounded(found.log_prob),
                "score": rounded(found.score),
                "output_log_prob": rounded(worth),
                "changed": again != said,
            }
        )
    return rows

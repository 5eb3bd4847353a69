"""Decode one text without each head in turn (Michel et al. 2019, 3.2)."""

from __future__ import annotations

from typing import Any

import torch

from seqwright.lens.heads.gates import sites, without_heads
from seqwright.lens.trace.contract import Searcher, text_task
from seqwright.lens.trace.readout import NEXT, Readout
from seqwright.lens.trace.steps import DecodedPath, Path, log_probs, rounded
from seqwright.models import Model
from seqwright.search import BeamOptions, Hypothesis

HEADS = 100  # decodes at most
TOKENS = 2000  # in all these decodes together
AT_ONCE = 20_000  # in as many passes without a search


def ablation_limit(model: Model, path: Path) -> str | None:
    """Why one decode per head would take too long or is impossible; None if it can be done."""
    heads = sum(len(site.heads) for site in sites(model))
    if isinstance(path, Readout) and path.decoded:
        return "the output would have to be searched for again without each head"
    if not heads:
        return "the model has no attention heads that could be switched off"
    if heads > HEADS:
        return f"one decode for each of {heads} heads would take too long; the limit is {HEADS} heads"
    most, work = (TOKENS, "decoding") if isinstance(path, DecodedPath) else (AT_ONCE, "reading")
    longest = max(path.lengths.values())
    if heads * longest > most:
        long = f"{work} {longest} tokens for each of {heads} heads would take too long"
        return f"{long}; the limit is {most // heads} tokens"
    return None


def predicted_without_heads(model: Model, readout: Readout) -> list[dict[str, Any]]:
    """The predictions without each head, and the log-probability of the original ones without it.

    Of a given text, only the token after it is predicted.
    """
    chosen = torch.tensor(readout.tokens)[:, None]
    counted = torch.tensor([piece.get("special") != NEXT for piece in readout.output["pieces"]])
    free = slice(-1, None) if readout.given else slice(None)
    usual = log_probs(model, readout).argmax(-1)[free]
    rows = []
    for head in (head for site in sites(model) for head in site.heads):
        with without_heads(model, [head]):
            scores = log_probs(model, readout)
        best, kept = scores[free].max(-1), rounded(float(scores.gather(1, chosen)[counted].sum()))
        predicted = " ".join(map(readout.symbol, best.indices.tolist())), rounded(float(best.values.sum()))
        text, log_prob = (readout.text, kept) if readout.given else predicted
        rows.append(
            {
                **head._asdict(),
                "text": text,
                "log_prob": log_prob,
                "score": None,
                "output_log_prob": kept,
                "changed": not torch.equal(best.indices, usual),
            }
        )
    return rows


def without_each_head(predictor: Searcher, path: DecodedPath, options: BeamOptions) -> list[dict[str, Any]]:
    """The best output without each head, and the log-probability of the original output without it."""
    model, task = predictor.model, text_task(predictor.task)
    row, chosen = path.source[:-1], torch.tensor(path.tokens)[:, None]
    rows = []
    for head in (head for site in sites(model) for head in site.heads):
        with without_heads(model, [head]):
            best: Hypothesis = predictor.search_tokens([row], [[]], options)[0][0]
            log_prob = float(log_probs(model, path).gather(1, chosen).sum())
        rows.append(
            {
                **head._asdict(),
                "text": task.text(best.tokens),
                "log_prob": rounded(best.log_prob),
                "score": rounded(best.score),
                "output_log_prob": rounded(log_prob),
                "changed": path.instead(best) != path,
            }
        )
    return rows

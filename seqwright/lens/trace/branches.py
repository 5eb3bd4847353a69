"""Branches: greedy search continued after the most probable alternatives of each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from seqwright.data.batch import BEGIN, END, PAD
from seqwright.data.tokenizer import Piece
from seqwright.lens.trace.contract import Searcher, TextTask, text_task
from seqwright.lens.trace.pieces import locate
from seqwright.lens.trace.steps import DecodedPath, rounded
from seqwright.models import Model
from seqwright.search import BeamOptions, Hypothesis

STEPS = 64  # at most so many steps of an output have branches
ALTERNATIVES = 3  # per step
TOKENS = 32_768  # in all rows of the search together
WORK = 1e11  # multiplications: seconds on a laptop


class Alternative(NamedTuple):
    """Another token at a step, with its log-probability there."""

    step: int
    token: int
    log_prob: float


def affordable_steps(model: Model, path: DecodedPath) -> int:
    """Number of steps whose branches take seconds: each adds a few rows of about the length of the path."""
    tokens = ALTERNATIVES * (len(path.source) + len(path.tokens))
    weights = sum(parameter.numel() for parameter in model.parameters())
    return min(STEPS, len(path.tokens), TOKENS // tokens, int(WORK / (tokens * weights)))


def branches(
    predictor: Searcher, path: DecodedPath, steps: Sequence[Mapping[str, Any]], options: BeamOptions
) -> list[dict[str, Any]]:
    """The branches of the first steps, ordered by step and probability. One search decodes all of them.

    options: those of the search that found the output. A branch is at most about twice as long as the output.
    """
    alternatives = []
    for t, step in enumerate(steps):
        excluded = {step["id"], PAD, BEGIN, *options.banned}
        allowed = [(token, p) for token, p in step["top"] if token not in excluded and p is not None]
        alternatives += [Alternative(t, *each) for each in allowed[:ALTERNATIVES]]
    continued = [one for one in alternatives if one.token != END]
    most = min(options.max_length, 2 * len(path.tokens) + 8)
    greedy = replace(options, size=1, n_best=1, max_length=most, min_length=min(options.min_length, most))
    prefixes = [[*path.tokens[: one.step], one.token] for one in continued]
    rows = [path.source[:-1]] * len(prefixes)
    found = predictor.search_tokens(rows, prefixes, greedy) if prefixes else []
    outputs = {one: best for one, (best, *_) in zip(continued, found, strict=True)}
    for one in alternatives:
        if one.token == END:  # a search cannot continue after the end token
            scores = [*(step["log_prob"] for step in steps[: one.step]), one.log_prob]
            total = math.fsum(scores)
            score = total / options.penalty(len(scores))
            outputs[one] = Hypothesis(path.tokens[: one.step], scores, score, total, "end")
    return [_entry(text_task(predictor.task), one, outputs[one]) for one in alternatives]


def _entry(task: TextTask, one: Alternative, found: Hypothesis) -> dict[str, Any]:
    text = task.text(found.tokens)
    piece = [*locate(task.target, found.tokens), Piece("", len(text), len(text))][one.step]  # the last: end
    return {
        "step": one.step,
        "id": one.token,
        "text": text,
        "start": piece.start,
        "end": piece.end,
        "log_prob": rounded(found.log_prob),
        "score": rounded(found.score),
        "finish_reason": found.finish_reason,
    }

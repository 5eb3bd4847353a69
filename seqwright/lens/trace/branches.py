"""What would have been said after another piece: the strongest alternatives of each step in the place of what
was said there, and how greedy search goes on from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqwright.data.batch import BEGIN, END, PAD
from seqwright.lens.trace.pieces import locate
from seqwright.lens.trace.steps import Said, rounded
from seqwright.models import Model
from seqwright.search import BeamOptions, Hypothesis
from seqwright.tasks.text_to_text import TextToText

STEPS = 64  # of an output, the first ones
ALTERNATIVES = 3  # of a step
TOKENS = 32_768  # of all rows of the search together
WORK = 1e11  # products that are worth waiting for: seconds on a laptop

Search = Callable[[Sequence[Sequence[int]], BeamOptions], Sequence[Hypothesis]]
"""The best output after each prefix."""


@dataclass(frozen=True)
class Turn:
    """Another piece at a step, with its log-probability there."""

    step: int
    token: int
    log_prob: float


def reach(model: Model, said: Said) -> int:
    """For how many steps that is quick enough: each has a few rows, with about as many tokens as are read and
    were said.
    """
    tokens = ALTERNATIVES * (len(said.source) + len(said.tokens))
    weights = sum(parameter.numel() for parameter in model.parameters())
    return min(STEPS, len(said.tokens), TOKENS // tokens, int(WORK / (tokens * weights)))


def branches(
    task: TextToText,
    said: Said,
    steps: Sequence[Mapping[str, Any]],
    options: BeamOptions,
    *,
    search: Search,
) -> list[dict[str, Any]]:
    """Those of the given steps, the first ones, in their order and then by probability; one search finds all.

    options: those that the output was searched with. A branch becomes at most about twice as long as it.
    """
    turns = [turn for t, step in enumerate(steps) for turn in _turns(t, step, options)]
    going = [turn for turn in turns if turn.token != END]
    most = min(options.max_length, 2 * len(said.tokens) + 8)
    greedy = replace(options, size=1, n_best=1, max_length=most, min_length=min(options.min_length, most))
    outputs = search([[*said.tokens[: turn.step], turn.token] for turn in going], greedy) if going else []
    found = dict(zip(going, outputs, strict=True))
    return [
        _described(task, turn, found[turn] if turn in found else _ended(turn, said, steps, options))
        for turn in turns
    ]


def _turns(t: int, step: Mapping[str, Any], options: BeamOptions) -> list[Turn]:
    never = {step["id"], PAD, BEGIN, *options.banned}
    others = (Turn(t, token, score) for token, score in step["top"] if token not in never)
    return [turn for turn in others if turn.log_prob is not None][:ALTERNATIVES]


def _ended(turn: Turn, said: Said, steps: Sequence[Mapping[str, Any]], options: BeamOptions) -> Hypothesis:
    """The output that is over at a step, which no search can be told to find: an end is no prefix."""
    scores = [*(step["log_prob"] for step in steps[: turn.step]), turn.log_prob]
    total = math.fsum(scores)
    return Hypothesis(said.tokens[: turn.step], scores, total / options.penalty(len(scores)), total, "end")


def _described(task: TextToText, turn: Turn, found: Hypothesis) -> dict[str, Any]:
    text = task.text(found.tokens)
    place = (len(text), len(text))
    if turn.token != END:
        piece = locate(task.target, found.tokens)[turn.step]
        place = (piece.start, piece.end)
    return {
        "step": turn.step,
        "id": turn.token,
        "text": text,
        "start": place[0],
        "end": place[1],
        "log_prob": rounded(found.log_prob),
        "score": rounded(found.score),
        "finish_reason": found.finish_reason,
    }

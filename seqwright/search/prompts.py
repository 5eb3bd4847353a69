"""Prompts: the tokens that outputs must begin with, read in one call instead of one by one."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from seqwright.search.filters import IMPOSSIBLE
from seqwright.search.options import SearchOptions, Start
from seqwright.search.stepping import S, Step, log_probabilities, not_numbers


class Prompt(NamedTuple):
    """The first tokens of each row (R, T), and their log-probabilities by row."""

    tokens: Tensor
    scores: list[list[float]]

    @property
    def length(self) -> int:
        return self.tokens.shape[1]


def read_prompts(step: Step[S], state: S, start: Start, options: SearchOptions) -> tuple[Prompt, S]:
    """Read the prefixes as far as all rows have one, except for the last token: the search steps from it.

    All rows stay equally long, and longer prefixes are forced token by token. The result is the same as with
    forcing alone. Nothing is read if the model has no `start.prefill`, or if it would save no call.
    """
    shortest = min(map(len, start.prefixes), default=0)
    count = min(shortest, *(limit - 1 for limit in options.limits(start))) if shortest else 0
    if start.prefill is None or count < 3:
        return Prompt(torch.empty((start.rows, 0), dtype=torch.int64, device=start.device), []), state
    logits, state = step(torch.full((start.rows, 1), start.first, device=start.device), state)
    options.check_vocabulary(start, logits.shape[1])
    prefixes = [list(prefix[:count]) for prefix in start.prefixes]
    tokens = torch.tensor(prefixes, dtype=torch.int64, device=start.device)  # (R, T)
    first = log_probabilities(logits).gather(1, tokens[:, :1])
    others, state = start.prefill(tokens, state)
    scores = torch.cat([first, others], 1).tolist()
    for row, of_row in enumerate(scores):
        for length, score in enumerate(of_row, 1):
            if math.isnan(score):
                raise not_numbers(length, row)
    return Prompt(tokens, [[max(score, IMPOSSIBLE) for score in of_row] for of_row in scores]), state

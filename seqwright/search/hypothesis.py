"""The result of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["end", "length"]


@dataclass(frozen=True)
class Hypothesis:
    """One output. `tokens` has neither first nor end; `token_scores` has the log-probability of the end, too.

    `log_prob` is the sum of `token_scores`; hypotheses are ranked by `score`. `finish_reason` is "end" for a
    complete output and "length" for one that was cut at its maximum length.
    """

    tokens: list[int]
    token_scores: list[float]
    score: float
    log_prob: float
    finish_reason: FinishReason

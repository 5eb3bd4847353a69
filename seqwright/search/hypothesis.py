"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["end", "length"]


@dataclass(frozen=True)
class Hypothesis:
    """One output. `tokens` has neither first nor end; `token_scores` has the log-probability of the end, too.

    `log_prob` is the sum of `token_scores`, and `score` is what the hypothesis is ranked by. `finish_reason`
    is "end" for a whole output and "length" for one that was cut at its maximum length.
    """

    tokens: list[int]
    token_scores: list[float]
    score: float
    log_prob: float
    finish_reason: FinishReason

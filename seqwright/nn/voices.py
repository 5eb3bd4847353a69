"""Several models that speak with one voice: their memories side by side, and the mean of what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members, row by row the same hypotheses."""

    members: tuple[Any, ...]

    def select(self, rows: Sequence[int]) -> EnsembleState:
        return EnsembleState(tuple(member.select(rows) for member in self.members))


def mixture(voices: Tensor) -> Tensor:
    """log of the mean of p_m, from log p_m (M, …, V): one member that is sure is enough."""
    return voices.logsumexp(0) - math.log(len(voices))

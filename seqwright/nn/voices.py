"""Several models that speak with one voice: their memories side by side, and the mean of what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members, row by row the same hypotheses."""

    members: tuple[Any, ...]

    def select(self, rows: Sequence[int]) -> EnsembleState:
        return EnsembleState(tuple(member.select(rows) for member in self.members))


def mixture(voices: Sequence[Tensor]) -> Tensor:
    """log of the mean of p_m, from each log p_m (…, V): one member that is sure is enough."""
    return reduce(torch.logaddexp, voices) - math.log(len(voices))

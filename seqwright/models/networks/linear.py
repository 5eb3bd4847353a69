"""Linear maps from the past to the future (Zeng et al. 2023)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from seqwright.config.registry import Whole
from seqwright.data.batch import Past
from seqwright.models import Network


class Linear(Network):
    """The past itself is the vector, which the head maps to the future: NLinear, with normalise = last.

    trend: steps of a moving average that splits the past into a trend and a rest, each with a map of its own
    (DLinear); 0: none.
    """

    def __init__(self, *, lookback: int, horizon: int, trend: Whole = 0):
        super().__init__()
        self.trend, self.each = trend, horizon
        self.size = 2 * lookback if trend else lookback

    def forward(self, past: Tensor, source: Past) -> Tensor:
        if not self.trend:
            return past[:, None]
        before = self.trend // 2
        padded = F.pad(past[:, None], (before, self.trend - 1 - before), mode="replicate")
        trend = F.avg_pool1d(padded, self.trend, stride=1)[:, 0]
        return torch.cat([trend, past - trend], dim=1)[:, None]

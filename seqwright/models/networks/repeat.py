"""Forecasts that repeat the past: the floor that every other one has to beat."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqwright.data.batch import Past
from seqwright.models import Network


class Repeat(Network):
    """The last value, or with `seasonal` the last season, again and again."""

    size = 0

    def __init__(self, *, lookback: int, horizon: int, season: int = 1, seasonal: bool = False):
        super().__init__()
        self.each, self.season = horizon, min(season if seasonal else 1, lookback)
        self.unused = nn.Parameter(torch.zeros(1))  # stays 0: a training needs something to train

    def forward(self, past: Tensor, source: Past) -> Tensor:
        steps = torch.arange(self.each, device=past.device) % self.season
        return (past[:, -self.season :][:, steps] + self.unused)[:, None]

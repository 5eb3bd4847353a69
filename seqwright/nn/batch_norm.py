"""Normalisation of feature maps. Batch statistics are kept in a way that does not depend on processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MapNorm = Literal["batch", "group"]
GROUPS = 8


class BatchNorm(nn.Module):
    """(x − mean) / √(variance + ε) · weight + bias for each channel (Ioffe & Szegedy 2015). x (B, C, H, W).

    In training the statistics are those of the micro-batch. The running ones, which are used otherwise, are
    updated by the first micro-batch of a step only: worker processes have buffers of their own, and so the
    result is the same for every number of processes. They are buffers and are saved with the weights.
    """

    tracks: ClassVar[bool] = True
    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, size: int, *, momentum: float = 0.1, epsilon: float = 1e-5):
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        running = self.running_mean, self.running_variance
        own = self.training and x.numel() > x.shape[1]  # one value has no variance
        mean, variance = running if self.tracks or not own else (None, None)
        return F.batch_norm(x, mean, variance, self.weight, self.bias, own, self.momentum, self.epsilon)


@contextmanager
def tracking_statistics(on: bool) -> Iterator[None]:
    """Inside the block running statistics are updated, or not."""
    before, BatchNorm.tracks = BatchNorm.tracks, on
    try:
        yield
    finally:
        BatchNorm.tracks = before


def map_norm(kind: MapNorm, size: int) -> nn.Module:
    """Return a normalisation of `size` channels; group: over about 8 groups of them (Wu & He 2018)."""
    return BatchNorm(size) if kind == "batch" else nn.GroupNorm(gcd(size, GROUPS), size)

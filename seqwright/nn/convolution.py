"""Convolutions over the neighbours of a token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.nn.masks import Places


class Neighbours(nn.Module):
    """x_t + relu(W [x_{t−r}; …; x_{t+r}] + b): each token with its r neighbours on each side.

    Mohamed, Okhonko & Zettlemoyer 2019 (Transformers with convolutional context for ASR) use convolutions
    below the encoder instead of positions. Padding and places beyond both ends are 0. causal: only the r
    neighbours before it.
    """

    def __init__(self, size: int, reach: int, *, causal: bool = False):
        super().__init__()
        self.reach, self.after = reach, 0 if causal else reach
        self.around = nn.Linear((reach + 1 + self.after) * size, size)

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """(G, T, D) -> (G, T, D)."""
        real = x if places.seen is None else x * places.seen[..., None].to(x.dtype)
        return x + F.relu(self.around(windows(real, self.reach, self.after)))


def windows(x: Tensor, before: int, after: int) -> Tensor:
    """Each vector between its neighbours, [x_{t−before}; …; x_{t+after}]: (G, T, D) -> (G, T, n D)."""
    count, padded = x.shape[1], F.pad(x, (0, 0, before, after))
    return torch.cat([padded[:, start : start + count] for start in range(before + after + 1)], dim=-1)

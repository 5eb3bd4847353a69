"""What stands around a token: a convolution over neighbours."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.nn.masks import Places


class Neighbours(nn.Module):
    """x_t + relu(W [x_{t−r}; …; x_{t+r}] + b): each token with its r neighbours on each side.

    A stack of attentions has to find out which letters stand side by side; here it is told. Mohamed, Okhonko
    & Zettlemoyer 2019 (Transformers with convolutional context for ASR) have convolutions under the encoder
    in the place of positions. What is not seen, padding and what lies beyond both ends, is 0. The windows
    lie side by side, so that the weights are one plain matrix.
    """

    def __init__(self, size: int, reach: int):
        super().__init__()
        self.reach = reach
        self.around = nn.Linear((2 * reach + 1) * size, size)

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """(G, T, D) -> (G, T, D)."""
        count, reach = x.shape[1], self.reach
        real = x if places.seen is None else x * places.seen[..., None].to(x.dtype)
        padded = F.pad(real, (0, 0, reach, reach))
        windows = torch.cat([padded[:, start : start + count] for start in range(2 * reach + 1)], dim=-1)
        return x + F.relu(self.around(windows))

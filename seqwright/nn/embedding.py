"""Embeddings: ids become vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Embedding(nn.Module):
    """A vector for each id, drawn with deviation size^−½ and scaled by √size (Vaswani et al. 2017, 3.4).

    deviation: of the scaled elements at the start.
    """

    def __init__(self, vocabulary: int, size: int, *, deviation: float = 1.0):
        super().__init__()
        self.vocabulary, self.size, self.scale = vocabulary, size, math.sqrt(size)
        self.weight = nn.Parameter(torch.empty(vocabulary, size))
        nn.init.normal_(self.weight, std=deviation * size**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, size)."""
        return torch.embedding(self.weight, ids).mul_(self.scale)

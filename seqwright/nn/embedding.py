"""Embeddings: ids become vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Embedding(nn.Module):
    """A vector for each id, drawn with deviation size^−½ and, with `scale`, multiplied by √size (Vaswani et
    al. 2017, 3.4).
    """

    def __init__(self, vocabulary: int, size: int, *, scale: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, size))
        self.scale = math.sqrt(size) if scale else 1.0
        nn.init.normal_(self.weight, std=size**-0.5 if scale else 1.0)

    @property
    def vocabulary(self) -> int:
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        return self.weight.shape[1]

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, size)."""
        vectors = torch.embedding(self.weight, ids)
        return vectors if self.scale == 1.0 else vectors.mul_(self.scale)

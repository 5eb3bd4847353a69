"""Vectors of words from their characters or other pieces."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqwright.nn.convolution import Neighbours
from seqwright.nn.embedding import Embedding
from seqwright.nn.masks import Places


class Spelling(nn.Module):
    """W max_t n(e)_t + b over the pieces of a word, where n joins each piece to its neighbours (dos Santos &
    Zadrozny 2014, 2.1.2). Words without pieces have the vector b.

    The pieces of all words lie end to end, `reach` zeros apart, so that no word is padded.
    """

    def __init__(self, pieces: int, size: int, *, inner: int = 64, reach: int = 1):
        super().__init__()
        self.embedding = Embedding(pieces, inner)
        self.neighbours = Neighbours(inner, reach)
        self.linear = nn.Linear(inner, size)

    def forward(self, pieces: Tensor, counts: Tensor) -> Tensor:
        """pieces (P,) of all words, counts (N,) of each -> (N, size)."""
        words = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)  # (P,)
        places = torch.arange(len(pieces), device=pieces.device) + self.neighbours.reach * words
        spread = pieces.new_zeros(1, len(pieces) + self.neighbours.reach * len(counts))
        real = torch.zeros_like(spread, dtype=torch.bool)
        spread[0, places], real[0, places] = pieces, True
        joined = self.neighbours(self.embedding(spread), Places.padded(real))[0, places]  # (P, inner)
        most = joined.new_zeros(len(counts), joined.shape[1])
        most = most.scatter_reduce(0, words[:, None].expand_as(joined), joined, "amax", include_self=False)
        return self.linear(most)

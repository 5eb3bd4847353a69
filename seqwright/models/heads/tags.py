"""The head of taggers: a class for each position."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.models import Head, sample_ids
from seqwright.nn.dropout import Dropout
from seqwright.nn.loss import Loss
from seqwright.nn.masks import Places

IGNORE = -100  # the expected tag of padding and of positions that are not judged, as in torch


class TagScores(Head):
    """Scores of the tags at each position, W h + b."""

    def __init__(self, *, input_size: int, classes: Count, dropout: float = 0.1):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(input_size, classes)

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        """(B, S, D) -> (B, S, classes)."""
        return self.linear(self.dropout(hidden))

    def loss(
        self, hidden: Tensor, expected: Tensor, places: Places | None = None, *, smoothing: float = 0.0
    ) -> Loss:
        """Cross-entropy summed over positions. expected (B, S): the numbers of the tags, or `IGNORE`."""
        real = expected != IGNORE
        scores = self(hidden[real], None)  # (n, classes)
        total = F.cross_entropy(scores, expected[real], label_smoothing=smoothing, reduction="sum")
        return Loss(total, len(scores))

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tensor:
        return sample_ids(lengths, seeds, 0, self.linear.out_features, padding=IGNORE)

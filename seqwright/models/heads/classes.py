"""The head of classifiers: one class for a whole input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.config.validation import Share
from seqwright.models import Head, sample_ids
from seqwright.nn.attention import Spec
from seqwright.nn.dropout import Dropout
from seqwright.nn.loss import Loss
from seqwright.nn.masks import Places
from seqwright.nn.pooling import POOLINGS


class ClassScores(Head):
    """Scores of the classes, W pool(h) + b.

    pooling: how the vectors of an input become one. balance: weighs the loss of a class with
    count^−balance, for classes of very different size: 0 not at all, 1 as if all were equally frequent. The
    mean weight of the training examples is 1. class_counts: the training examples of each class.
    """

    class_weights: Tensor | None

    def __init__(
        self,
        *,
        input_size: int,
        classes: Count,
        pooling: Spec = "mean",
        dropout: float = 0.1,
        balance: Share = 0.0,
        class_counts: Sequence[int] = (),
    ):
        super().__init__()
        self.pooling = POOLINGS.build(pooling, size=input_size)
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(input_size, classes)
        weights = None
        if balance and class_counts:
            counts = torch.tensor(class_counts, dtype=torch.get_default_dtype()).clamp(min=1)
            weights = counts**-balance
            weights *= counts.sum() / (counts * weights).sum()
        self.register_buffer("class_weights", weights, persistent=False)

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        """(B, S, D) -> (B, classes)."""
        return self.linear(self.dropout(self.pooling(hidden, places)))

    def loss(
        self, hidden: Tensor, expected: Tensor, places: Places | None = None, *, smoothing: float = 0.0
    ) -> Loss:
        """Cross-entropy summed over rows. expected (B,): the numbers of the classes."""
        scores, weights = self(hidden, places), self.class_weights
        total = F.cross_entropy(scores, expected, weights, label_smoothing=smoothing, reduction="sum")
        return Loss(total, len(expected))

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tensor:
        return sample_ids([1] * len(seeds), seeds, 0, self.linear.out_features, padding=0)[:, 0]

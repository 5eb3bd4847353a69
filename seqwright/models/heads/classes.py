"""The head of classifiers: one class for a whole input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.errors import ConfigError
from seqwright.models import Head, sample_ids
from seqwright.nn.attention import Spec
from seqwright.nn.dropout import Dropout
from seqwright.nn.loss import Loss
from seqwright.nn.masks import Places
from seqwright.nn.pooling import POOLINGS


class ClassScores(Head):
    """Scores of the classes, W pool(h) + b.

    pooling: how the vectors of an input become one. weights: of each class in the loss, for classes of very
    different size; the mean over the training examples should be 1.
    """

    class_weights: Tensor | None

    def __init__(
        self,
        *,
        input_size: int,
        classes: Count,
        pooling: Spec = "mean",
        dropout: float = 0.1,
        weights: Sequence[float] | None = None,
    ):
        super().__init__()
        if weights is not None and len(weights) != classes:
            raise ConfigError(f"weights has {len(weights)} numbers for {classes} classes; give one for each")
        self.pooling = POOLINGS.build(pooling, size=input_size)
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(input_size, classes)
        given = None if weights is None else torch.tensor(weights, dtype=torch.get_default_dtype())
        self.register_buffer("class_weights", given, persistent=False)

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

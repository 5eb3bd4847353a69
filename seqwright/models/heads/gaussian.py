"""The head of models that predict numbers with their variance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated

import torch.nn.functional as F
from annotated_types import Gt, Lt
from torch import Tensor, nn, stack

from seqwright.config.registry import Count
from seqwright.models import Head
from seqwright.models.heads.values import sample_numbers
from seqwright.nn.attention import Spec
from seqwright.nn.dropout import Dropout
from seqwright.nn.loss import Loss
from seqwright.nn.masks import Places
from seqwright.nn.pooling import POOLINGS

LEAST = 1e-3  # of a deviation: an outcome that is predicted exactly must not have an infinite density


class Gaussian(Head):
    """Numbers with a normal distribution, N(μ, σ²): μ and softplus⁻¹(σ) are W pool(h) + b, trained with the
    negative log-likelihood ½ (y − μ)² / σ² + log σ (Nix & Weigend 1994; as in DeepAR, Salinas et al. 2020).

    pooling: how the vectors of an input become one. level: the probability inside the interval that is
    predicted next to the mean.
    """

    def __init__(
        self,
        *,
        input_size: int,
        values: Count,
        pooling: Spec = "mean",
        level: Annotated[float, Gt(0), Lt(1)] = 0.8,
        dropout: float = 0.1,
    ):
        super().__init__()
        self.quantiles = (0.5 - level / 2, 0.5 + level / 2)
        self.reach = NormalDist().inv_cdf(self.quantiles[1])  # deviations from the mean to an end
        self.pooling = POOLINGS.build(pooling, size=input_size)
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(input_size, 2 * values)

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        """(B, S, D) -> (B, values, 3): the mean, and both ends of the interval."""
        found = self.linear(self.dropout(self.pooling(hidden, places))).unflatten(-1, (-1, 2))
        mean, half = found[..., 0], self.reach * (F.softplus(found[..., 1]) + LEAST)
        return stack([mean, mean - half, mean + half], -1)

    def loss(
        self, hidden: Tensor, expected: Tensor, places: Places | None = None, *, smoothing: float = 0.0
    ) -> Loss:
        return self.error(self(hidden, places), expected)

    def error(self, found: Tensor, expected: Tensor) -> Loss:
        """The negative log-likelihood is trained, and the squared error reported, so that losses with and
        without a variance compare. found (…, 3), expected (…), NaN where a number is missing.
        """
        real = ~expected.isnan()
        square = (expected.nan_to_num() - found[..., 0]).square()
        deviation = (found[..., 2] - found[..., 1]) / (2 * self.reach)
        likelihood = square / (2 * deviation.square()) + deviation.log()
        total = (square * real).sum()
        return Loss(total, int(real.sum()), (likelihood * real).sum() - total)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tensor:
        return sample_numbers(self.linear.out_features // 2, seeds).to(self.linear.weight.dtype)

"""The head of models that predict numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.errors import ConfigError
from seqwright.models import Head, sample_ids
from seqwright.nn.attention import Spec
from seqwright.nn.dropout import Dropout
from seqwright.nn.loss import Loss
from seqwright.nn.masks import Places
from seqwright.nn.pooling import POOLINGS


class Values(Head):
    """Numbers, W pool(h) + b: their means, trained with the squared error, and their quantiles, trained with
    the pinball loss max(q e, (q − 1) e) of the error e (Koenker & Bassett 1978).

    pooling: how the vectors of an input become one. quantiles: which ones, each between 0 and 1; none: only
    the means.
    """

    levels: Tensor

    def __init__(
        self,
        *,
        input_size: int,
        values: Count,
        pooling: Spec = "mean",
        quantiles: Sequence[float] = (),
        dropout: float = 0.1,
    ):
        super().__init__()
        if bad := [q for q in quantiles if not 0 < q < 1]:
            raise ConfigError(f"quantiles has {bad[0]}; a quantile lies between 0 and 1")
        self.quantiles = tuple(quantiles)
        self.pooling = POOLINGS.build(pooling, size=input_size)
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(input_size, values * (1 + len(self.quantiles)))
        levels = torch.tensor(self.quantiles, dtype=torch.get_default_dtype())
        self.register_buffer("levels", levels, persistent=False)

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        """(B, S, D) -> (B, values), or (B, values, 1 + quantiles) with the mean first."""
        found = self.linear(self.dropout(self.pooling(hidden, places)))
        return found.unflatten(-1, (-1, 1 + len(self.quantiles))) if self.quantiles else found

    def loss(
        self, hidden: Tensor, expected: Tensor, places: Places | None = None, *, smoothing: float = 0.0
    ) -> Loss:
        return self.error(self(hidden, places), expected)

    def error(self, found: Tensor, expected: Tensor) -> Loss:
        """Summed over the numbers. expected (B, values), NaN where a number is missing."""
        return value_loss(found if self.quantiles else found[..., None], expected, self.levels)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tensor:
        count = self.linear.out_features // (1 + len(self.quantiles))
        return sample_numbers(count, seeds).to(self.linear.weight.dtype)


def sample_numbers(count: int, seeds: Sequence[int]) -> Tensor:
    """Return random numbers from 0 to 1 to expect, (B, count); row i is decided by seeds[i] alone."""
    return sample_ids([count] * len(seeds), seeds, 0, 100, padding=0) / 100


def value_loss(found: Tensor, expected: Tensor, levels: Tensor) -> Loss:
    """The squared error of means; the pinball loss of quantiles is trained with it, and not reported, so that
    losses with and without quantiles compare. found (…, 1 + quantiles), expected (…), NaN where missing.
    """
    real = ~expected.isnan()
    error = (expected.nan_to_num()[..., None] - found) * real[..., None]  # a missing number has none
    above = error[..., 1:]
    pinball = torch.maximum(levels * above, (levels - 1) * above).sum() if len(levels) else None
    return Loss(error[..., 0].square().sum(), int(real.sum()), pinball)

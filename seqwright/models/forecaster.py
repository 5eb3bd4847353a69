"""Forecasts of series: normalisation, a network, a head, and back to the units of the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor

from seqwright.data.batch import Past
from seqwright.models import HEADS, NETWORKS, Model
from seqwright.models.heads.values import value_loss
from seqwright.nn.attention import Spec
from seqwright.nn.loss import Loss

LEAST = 1e-5  # added to the variance of a window


class Forecaster(Model):
    """The numbers that follow each series of a `Past`, every channel on its own.

    normalise: what the past is measured against, and what the forecast is given back. window: the mean and
    the deviation of the past (reversible instance normalisation, Kim et al. 2022); last: its last value, as
    in NLinear (Zeng et al. 2023); none.
    base: least_squares adds the linear forecast that fits the training part best, which stays fixed. The
    network starts at zero and learns only what the linear forecast misses.
    """

    base: Tensor | None

    def __init__(
        self,
        *,
        facts: Mapping[str, Any],
        network: Spec = "patches",
        head: Spec = "values",
        normalise: Literal["window", "last", "none"] = "window",
        base: Literal["none", "least_squares"] = "none",
    ):
        super().__init__()
        self.horizon, self.lookback, self.normalise = facts["horizon"], facts["lookback"], normalise
        self.network = NETWORKS.build(network, **facts)
        size, each = self.network.size, self.network.each
        self.head = HEADS.build(head, input_size=size, values=each) if size else None
        self.register_buffer("base", None)
        if base == "least_squares":
            self.base = torch.zeros(self.lookback, self.horizon)
            if (weights := facts.get("least_squares")) is not None:
                self.base.copy_(torch.from_numpy(weights))
            if self.head is not None:
                for weight in self.head.linear.parameters():
                    torch.nn.init.zeros_(weight)

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles that are predicted next to the mean."""
        return self.head.quantiles if self.head is not None else ()

    def forward(self, batch: Any) -> Tensor:
        return self.predictions(batch.source)

    def predictions(self, source: Past) -> Tensor:
        """Return means and quantiles, (B, horizon, 1 + quantiles), in the units of the past. The quantiles of
        a normal distribution shift and scale like those of any other.
        """
        shift, scale = self._frame(source.values)
        past = (source.values - shift) / scale
        found: Tensor = self.network(past, source)  # (B, vectors, size)
        if self.head is not None:
            found = self.head(found.flatten(0, 1)[:, None]).view(len(found), -1, 1 + len(self.quantiles))
        else:
            found = found.flatten(1)[..., None]
        found = found[:, : self.horizon]
        if self.base is not None:
            last = past[:, -1:]
            found = found + ((past - last) @ self.base + last)[..., None]
        return found * scale[..., None] + shift[..., None]

    def _frame(self, past: Tensor) -> tuple[Tensor, Tensor]:
        """Return the shift and the scale of each row, (B, 1) each."""
        if self.normalise == "window":
            variance, mean = torch.var_mean(past, dim=1, correction=0, keepdim=True)
            return mean, (variance + LEAST).sqrt()
        shift = past[:, -1:] if self.normalise == "last" else torch.zeros_like(past[:, :1])
        return shift, torch.ones_like(shift)

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        found = self.predictions(batch.source)
        if self.head is None:
            return value_loss(found, batch.expected, found.new_empty(0))
        return self.head.error(found if self.quantiles else found[..., 0], batch.expected)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> SimpleNamespace:
        """Return a random batch for tests; row i is decided by seeds[i] alone."""
        steps, rows = self.lookback + self.horizon, []
        for seed in seeds:
            rows.append(torch.randn(steps, generator=torch.Generator().manual_seed(seed)))
        values = torch.stack(rows).to(next(self.parameters()).dtype)
        source = Past(values[:, : self.lookback], self.horizon)
        return SimpleNamespace(source=source, expected=values[:, self.lookback :])

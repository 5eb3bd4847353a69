"""The moving average of the weights: what is validated, kept and shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from seqwright.models import Model


class Average:
    """An exponential moving average over the last 1 / (1 − decay) steps or so.

    The decay of step t is min(decay, (1 + t) / (10 + t)), so that the first steps are forgotten soon.
    """

    def __init__(self, model: Model, decay: float):
        self.decay = decay
        self.model, self.own = model, model.weights()
        self.weights = {name: weight.clone() for name, weight in self.own.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self.own.values()), 1 - decay)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, value in tensors.items():
            self.weights[name].copy_(value)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averaged weights inside the block, and its own again after it."""
        own = {name: weight.clone() for name, weight in self.own.items()}
        try:
            self.model.take_weights(self.weights)
            yield
        finally:
            self.model.take_weights(own)

"""The moving average of the weights, which is validated and exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from seqwright.models import Model


class Average:
    """An exponential moving average over about the last 1 / (1 − decay) steps.

    The decay at step t is min(decay, (1 + t) / (10 + t)), so the first steps fade quickly.
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
        """Inside the block the model has the averaged weights."""
        own = {name: weight.clone() for name, weight in self.own.items()}
        try:
            self.model.take_weights(self.weights)
            yield
        finally:
            self.model.take_weights(own)

"""Feed-forwards: the part of a block that works on each token by itself. One class each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count, Registry
from seqwright.nn.dropout import Dropout
from seqwright.nn.inference_weights import Function, bound, drops

FEED_FORWARDS = Registry("feed_forward", "seqwright.nn.feedforward", "seqwright.nn.feedforward:FeedForward")

Activation = Literal["relu", "squared_relu", "gelu", "silu"]


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, Primer, 3.2)."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "squared_relu": squared_relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Base: (…, size) -> (…, size). `bound` returns the function (see `seqwright.nn.inference_weights`)."""

    def bound(self) -> Function:
        raise NotImplementedError

    def zero_output(self) -> None:
        """Start with an output of zero."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.bound()(x)


class _TwoLayers(FeedForward):
    """A map to `parts` vectors of `hidden` dimensions, and one back."""

    parts = 1

    def __init__(
        self, *, size: int, hidden: Count, activation: Activation, dropout: float = 0.0, bias: bool = True
    ):
        super().__init__()
        self.rise = nn.Linear(size, self.parts * hidden, bias=bias)
        self.fall = nn.Linear(hidden, size, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for layer in (self.rise, self.fall):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def zero_output(self) -> None:
        nn.init.zeros_(self.fall.weight)


class Plain(_TwoLayers):
    """W₂ f(W₁ x + b₁) + b₂ (Vaswani et al. 2017, eq. 2)."""

    passes_to = _TwoLayers

    def __init__(self, *, activation: Activation = "relu", **layers: Any):
        super().__init__(activation=activation, **layers)

    def bound(self) -> Function:
        rise, fall = bound(self.rise), bound(self.fall)
        # a fresh tensor that no hook has seen may be overwritten
        in_place = self.activation is F.relu and rise is not self.rise
        activation = torch.relu_ if in_place else self.activation
        if drops(self.dropout):
            return lambda x: fall(self.dropout(activation(rise(x))))
        return lambda x: fall(activation(rise(x)))


class Gated(_TwoLayers):
    """W₂ (f(W₁ x) ∘ W₃ x) (Shazeer 2020: SwiGLU with silu, GEGLU with gelu)."""

    passes_to = _TwoLayers
    parts = 2  # the gate, then the gated values

    def __init__(self, *, activation: Activation = "silu", **layers: Any):
        super().__init__(activation=activation, **layers)

    def bound(self) -> Function:
        rise, fall = bound(self.rise), bound(self.fall)

        def compute(x: Tensor) -> Tensor:
            gate, value = rise(x).chunk(2, dim=-1)
            return fall(self.dropout(self.activation(gate) * value))

        return compute

"""Feed-forwards: the part of a block that works on each token by itself. One class each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, autograd, nn

from seqwright.config.registry import Count, Registry
from seqwright.config.validation import Positive
from seqwright.errors import ConfigError
from seqwright.nn.dropout import Dropout
from seqwright.nn.inference_weights import Function, bound, drops
from seqwright.nn.loss import add_to_objective

FEED_FORWARDS = Registry("feed_forward", "seqwright.nn.feedforward", "seqwright.nn.feedforward:FeedForward")

Activation = Literal["relu", "squared_relu", "gelu", "silu"]


class _SquaredReLU(autograd.Function):
    """Keeps max(x, 0) only, and multiplies once in the gradient; what torch derives takes twice as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        positive = x.clamp_min(0)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return (grads[0] * positive).mul_(2)


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, Primer, 3.2)."""
    return _SquaredReLU.apply(x) if x.requires_grad else x.relu().square_()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "squared_relu": squared_relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Base: (…, size) -> (…, size). `bound` returns the function (see `seqwright.nn.inference_weights`).

    counts_tokens: whether its function takes, as a second argument, which tokens are real (…); None: all.
    """

    counts_tokens = False

    def bound(self) -> Callable[..., Tensor]:
        raise NotImplementedError

    def zero_output(self) -> None:
        """Start with an output of zero."""
        raise NotImplementedError

    def forward(self, x: Tensor, *real: Tensor | None) -> Tensor:
        return self.bound()(x, *real)


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


class Experts(FeedForward):
    """Σ_i g_i E_i(x) over the `top` experts with the highest p = softmax(W x) (Shazeer et al. 2017, 2.1).

    g = p of a single expert (Fedus et al. 2021, eq. 2), or p divided by the sum over those of `top` (Lepikhin
    et al. 2020, 2.2). capacity: in training an expert takes at most that many times its equal share of the
    tokens, and skips the others; None: all. Outside of training no token depends on another. Padding goes to
    no expert, and its output is zero. balance: weight of n Σ_i f_i P_i, which is least if all are used alike;
    f_i is the share of tokens whose best expert is i, P_i the mean of p_i (Fedus et al. 2021, eq. 4).
    """

    counts_tokens = True
    recorder: Callable[[Tensor], object] | None = None  # receives the number of tokens of each expert

    def __init__(
        self,
        *,
        size: int,
        hidden: Count,
        experts: Count = 4,
        top: Count = 2,
        capacity: Positive | None = None,
        balance: float = 0.01,
        activation: Activation = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        if top > experts:
            raise ConfigError(f"top is {top}, but there are {experts} experts; use at most {experts}")
        self.top, self.capacity, self.balance = top, capacity, balance
        self.router = nn.Linear(size, experts, bias=False)
        options: dict[str, Any] = {"activation": activation, "dropout": dropout, "bias": bias}
        self.experts = nn.ModuleList(Plain(size=size, hidden=hidden, **options) for _ in range(experts))

    def zero_output(self) -> None:
        for expert in self.experts:
            expert.zero_output()  # type: ignore[operator]

    def bound(self) -> Callable[..., Tensor]:
        route, experts = bound(self.router), [bound(expert) for expert in self.experts]

        def compute(x: Tensor, real: Tensor | None = None) -> Tensor:
            if real is None:
                return self._mixed(x.reshape(-1, x.shape[-1]), route, experts).view_as(x)
            tokens = self._mixed(x[real], route, experts)
            return torch.zeros_like(x).index_put((real,), tokens)

        return compute

    def _mixed(self, x: Tensor, route: Function, experts: Sequence[Function]) -> Tensor:
        """x (N, D) -> (N, D)."""
        probabilities = route(x).softmax(-1)  # (N, experts)
        gates, chosen = probabilities.topk(self.top, -1)  # (N, top)
        if self.top > 1:
            gates = gates / gates.sum(-1, keepdim=True)
        if self.training:
            self._balance(probabilities, chosen[:, 0])
        # the choices of each expert are a run; within it tokens keep their order
        order = chosen.flatten().argsort(stable=True)
        counts = chosen.flatten().bincount(minlength=len(experts))
        if self.recorder is not None:
            self.recorder(counts)
        most = len(order) if self.capacity is None or not self.training else self._most(len(order))
        found = torch.zeros_like(x)
        for expert, choices in zip(experts, order.split(counts.tolist()), strict=True):
            if taken := len(choices := choices[:most]):
                tokens = choices // self.top
                own = expert(x.index_select(0, tokens)) * gates.flatten()[choices].view(taken, 1)
                found = found.index_add(0, tokens, own)
        return found

    def _most(self, choices: int) -> int:
        assert self.capacity is not None
        return math.ceil(self.capacity * choices / len(self.experts))

    def _balance(self, probabilities: Tensor, best: Tensor) -> None:
        """Add the balance to the objective, times the number of tokens: objectives are sums over tokens."""
        if not len(best):
            return
        used = best.bincount(minlength=len(self.experts)).to(probabilities.dtype) / len(best)
        term = len(self.experts) * (used * probabilities.mean(0)).sum()
        add_to_objective(self.balance * len(best) * term)


def used_parameters(model: nn.Module) -> int:
    """Return the number of parameters that a token passes through: of the experts only those it goes to."""
    count = sum(parameter.numel() for parameter in model.parameters())
    for part in model.modules():
        if isinstance(part, Experts):
            each = sum(parameter.numel() for parameter in part.experts[0].parameters())
            count -= (len(part.experts) - part.top) * each
    return count


@contextmanager
def recorded_usage(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Count the tokens that each expert of each mixture receives inside the block, by the mixture's name."""
    counts: dict[str, Tensor] = {}
    mixtures = {name: part for name, part in model.named_modules() if isinstance(part, Experts)}
    for name, part in mixtures.items():
        counts[name] = torch.zeros(len(part.experts), dtype=torch.long)
        part.recorder = counts[name].add_
    try:
        yield counts
    finally:
        for part in mixtures.values():
            part.recorder = None

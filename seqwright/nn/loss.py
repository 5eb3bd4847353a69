"""Losses: a sum with its count, and the cross-entropy over a vocabulary.

The cross-entropy is computed for a few hundred rows at a time, together with its gradients: the matrix of
rows × vocabulary, the largest of a small model, never exists as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import Function

Slopes = tuple[Tensor, Tensor, Tensor | None] | None  # the gradients of rows, weight and bias
ROWS = 512  # rows whose scores exist at one time; 512 × 8000 floats are 16 MB


@dataclass(frozen=True)
class Loss:
    """A sum over `count` things (tokens, rows, numbers), divided once by the code that needs a mean."""

    total: Tensor
    count: int
    # a sum that is trained with the total and never reported: the balance loss of a mixture of experts
    extra: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        return self.total / max(self.count, 1)

    @property
    def objective(self) -> Tensor:
        """The sum to differentiate."""
        return self.total if self.extra is None else self.total + self.extra


_terms: ContextVar[list[Tensor] | None] = ContextVar("terms of the objective", default=None)


@contextmanager
def collected_terms() -> Iterator[list[Tensor]]:
    """Collect what the parts of a model add to the objective of a training inside the block."""
    terms: list[Tensor] = []
    before = _terms.set(terms)
    try:
        yield terms
    finally:
        _terms.reset(before)


def add_to_objective(term: Tensor) -> None:
    """Add a term, a sum over tokens, to the objective of the training; outside of one nothing happens."""
    if (terms := _terms.get()) is not None:
        terms.append(term)


def cross_entropy(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    cap: float | None = None,
) -> Tensor:
    """Σ over rows of −Σ_v t_v log softmax(z)_v, t = (1 − ε) · one-hot + ε / V (Szegedy et al. 2016).

    z = W h + b, or cap · tanh of it / cap. rows (N, D), weight (V, D), targets (N,). Equal to
    F.cross_entropy(…, reduction="sum").
    """
    with torch.autocast(rows.device.type, enabled=False):  # a loss is summed in the precision of the weights
        given = (rows.to(weight.dtype), weight, bias, targets, smoothing, cap)
        return _CrossEntropy.apply(*given) if torch.is_grad_enabled() else _cross_entropy(*given, None)


class _CrossEntropy(Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        cap: float | None,
    ) -> Tensor:
        to_bias = None if bias is None else torch.zeros_like(bias)
        ctx.slopes = (torch.empty_like(rows), torch.zeros_like(weight), to_bias)
        return _cross_entropy(rows, weight, bias, targets, smoothing, cap, ctx.slopes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the slopes carry no graph and would count as constants
            raise NotImplementedError("the loss has no second derivative; use F.cross_entropy on the scores")
        return (*(None if slope is None else slope * grads[0] for slope in ctx.slopes), None, None, None)


def capped(scores: Tensor, cap: float) -> Tensor:
    """cap · tanh(z / cap): no score exceeds the cap (Gemma 2, Rivière et al. 2024, 2.1)."""
    return torch.tanh(scores / cap) * cap


def _cross_entropy(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    cap: float | None,
    slopes: Slopes,
) -> Tensor:
    """The loss. `slopes` get the gradients of rows, weight and bias; that of the scores is softmax − t, times
    1 − (z / cap)² with a cap.
    """
    share = smoothing / len(weight)
    total = torch.zeros((), dtype=rows.dtype, device=rows.device)
    for start in range(0, len(rows), ROWS):
        h, y = rows[start : start + ROWS], targets[start : start + ROWS, None]
        scores = F.linear(h, weight, bias)
        if cap is not None:
            scores = capped(scores, cap)
        log_probs = scores.log_softmax(-1)  # (n, V)
        total -= (1 - smoothing) * log_probs.gather(1, y).sum()
        if smoothing:
            total -= share * log_probs.sum()
        if slopes is None:
            continue
        to_rows, to_weight, to_bias = slopes
        slope = log_probs.exp_()
        slope.scatter_add_(1, y, slope.new_full(y.shape, smoothing - 1))
        if cap is not None:
            slope = (slope - share) * (1 - (scores / cap).square())
        torch.mm(slope, weight, out=to_rows[start : start + ROWS])
        to_weight.addmm_(slope.t(), h)
        if to_bias is not None:
            to_bias += slope.sum(0)
    if slopes is not None and smoothing and cap is None:  # the −ε/V of every symbol, taken out of the loop
        to_rows, to_weight, to_bias = slopes
        to_rows -= share * weight.sum(0)
        to_weight -= share * rows.sum(0)
        if to_bias is not None:
            to_bias -= share * len(rows)
    return total

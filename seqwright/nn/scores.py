"""Scores: how well a query fits a key. One class each; the name of a class in snake_case is its key.

A multiplicative score is a factor times a dot product with a query that `prepare` may have changed, so that
the fused kernels can compute it; any other score defines `forward`. All map q (B, H, Q, E) and k (B, H, K, E)
to (B, H, Q, K).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seqwright.config.registry import Registry
from seqwright.errors import ConfigError

SCORES = Registry("score", "seqwright.nn.scores", "seqwright.nn.scores:Score")


class Score(nn.Module):
    """Base: factor · prepare(q)·k."""

    multiplicative = True
    factor = 1.0

    def prepare(self, q: Tensor) -> Tensor:
        return q

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (self.prepare(q) * self.factor) @ k.transpose(-1, -2)


class Dot(Score):
    """q·k (Luong et al. 2015, "dot")."""

    def __init__(self, *, query_size: int, key_size: int):
        super().__init__()
        _same_size("dot", query_size, key_size)


class ScaledDot(Score):
    """q·k / (√E · temperature) (Vaswani et al. 2017, eq. 1)."""

    def __init__(self, *, query_size: int, key_size: int, temperature: float = 1.0):
        super().__init__()
        _same_size("scaled_dot", query_size, key_size)
        if not temperature > 0:
            raise ConfigError(f"temperature of scaled_dot is {temperature}; it must be above 0")
        self.factor = 1.0 / (math.sqrt(key_size) * temperature)


class Bilinear(Score):
    """qᵀ W k (Luong et al. 2015, "general"). The sizes of query and key may differ."""

    def __init__(self, *, heads: int, query_size: int, key_size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, query_size, key_size))
        nn.init.uniform_(self.weight, -1 / math.sqrt(query_size), 1 / math.sqrt(query_size))

    def prepare(self, q: Tensor) -> Tensor:
        return q @ self.weight


class Additive(Score):
    """v·tanh(q + k) (Bahdanau et al. 2015, A.1.2; projected also Luong et al. 2015, "concat")."""

    multiplicative = False

    def __init__(self, *, heads: int, query_size: int, key_size: int):
        super().__init__()
        _same_size("additive", query_size, key_size)
        self.weight = nn.Parameter(torch.empty(heads, key_size))
        nn.init.uniform_(self.weight, -1 / math.sqrt(key_size), 1 / math.sqrt(key_size))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        sums = torch.tanh(q[:, :, :, None, :] + k[:, :, None, :, :])  # (B, H, Q, K, E)
        return (sums @ self.weight[:, None, :, None]).squeeze(-1)


def _same_size(name: str, query_size: int, key_size: int) -> None:
    if query_size != key_size:
        sizes = f"score {name} needs one size, but a query has {query_size} and a key {key_size}"
        raise ConfigError(f'{sizes}; project both (projections = "qk") or use score bilinear')

"""Scores: how well a query fits a key. One class each; the name of a class in snake_case is its key.

A multiplicative score is a factor times the dot product of a prepared query and a prepared key, so that the
fused kernels can compute it; any other score defines `forward`. Keys are prepared once, when they are made;
preparing them again changes nothing. All map q (B, H, Q, E) and k (B, H, K, E) to (B, H, Q, K).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Registry
from seqwright.errors import ConfigError

EPSILON = 1e-12  # the least length that a vector is divided by
SCORES = Registry("score", "seqwright.nn.scores", "seqwright.nn.scores:Score")


class Score(nn.Module):
    """Base: factor · prepare(q)·prepare_keys(k)."""

    multiplicative = True
    factor = 1.0

    def prepare(self, q: Tensor) -> Tensor:
        return q

    def prepare_keys(self, k: Tensor) -> Tensor:
        return k

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (self.prepare(q) * self.factor) @ self.prepare_keys(k).transpose(-1, -2)


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


class Cosine(Score):
    """s · q·k / (|q| |k|): query–key normalisation (Henry et al. 2020, eq. 4). s is learned, starts at √E and
    bounds the scores.
    """

    def __init__(self, *, query_size: int, key_size: int):
        super().__init__()
        _same_size("cosine", query_size, key_size)
        self.scale = nn.Parameter(torch.tensor(math.sqrt(key_size)))

    def prepare(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1, eps=EPSILON) * self.scale

    def prepare_keys(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1, eps=EPSILON)


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

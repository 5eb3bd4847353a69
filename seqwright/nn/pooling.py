"""Pooling: the vectors of an input become one. One class each."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from seqwright.config.registry import Registry
from seqwright.nn.attention import Look
from seqwright.nn.kv_cache import Keys
from seqwright.nn.masks import Places

POOLINGS = Registry("pooling", "seqwright.nn.pooling", "seqwright.nn.pooling:Pooling")


class Pooling(nn.Module):
    """Base: (B, S, D) -> (B, D). Padding has no influence, and an input that is all padding gives zeros.

    summary: completes "the head reads …".
    """

    summary: ClassVar[str]

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        raise NotImplementedError


class Mean(Pooling):
    """The mean of all vectors."""

    summary = "the mean of all tokens: each has the same weight"

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        return masked_mean(hidden, places)


class Max(Pooling):
    """The largest value of each dimension: the max-over-time pooling of Collobert et al. 2011, 3.3.2."""

    summary = "the largest value of each dimension, which can come from any token"

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        if places is None or places.seen is None:
            return hidden.amax(1)
        hidden = hidden.masked_fill(~places.seen[..., None], -torch.inf)
        return hidden.amax(1).masked_fill(~places.seen.any(1, keepdim=True), 0.0)


class First(Pooling):
    """The vector of the first place."""

    summary = "the first token alone"

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        first = hidden[:, 0]
        return first if places is None or places.seen is None else first * places.seen[:, :1].to(first.dtype)


class Attention(Pooling):
    """Σ_s softmax(v · tanh(W h_s))_s h_s: the learned query of Yang et al. 2016, 2.2."""

    summary = "a mean of all tokens, weighted by attention"
    recorder: Callable[[Look], None] | None = None

    def __init__(self, *, size: int):
        super().__init__()
        self.map = nn.Linear(size, size)
        self.query = nn.Parameter(torch.empty(size))
        nn.init.normal_(self.query, std=size**-0.5)

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        keys = torch.tanh(self.map(hidden))
        scores = keys @ self.query  # (B, S)
        seen = None if places is None else places.seen
        if seen is not None:
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        weights = weights if seen is None else weights * seen.to(weights.dtype)
        if self.recorder is not None:
            query = self.query.expand(len(hidden), 1, 1, -1)
            seen_keys = Keys.of(keys[:, None], hidden[:, None], places or Places.run(0, hidden.shape[1]))
            self.recorder(Look(query, seen_keys, scores[:, None, None], weights[:, None, None], 1))
        return (weights[:, None] @ hidden).squeeze(1)


def masked_mean(hidden: Tensor, places: Places | None) -> Tensor:
    """The mean over real places, (G, K, D) -> (G, D)."""
    if places is None or places.seen is None:
        return hidden.mean(1)
    real = places.seen[..., None].to(hidden.dtype)
    return (hidden * real).sum(1) / real.sum(1).clamp(min=1)

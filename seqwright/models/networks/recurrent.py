"""A recurrent encoder-decoder over a series, with and without attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.data.batch import Past
from seqwright.models import Network
from seqwright.nn.attention import Attention
from seqwright.nn.masks import AttentionContext, Places
from seqwright.nn.recurrent import Cell
from seqwright.nn.recurrent import Recurrent as Layers


class Recurrent(Network):
    """The encoder reads the past in patches; the decoder continues from its last state with a learned vector
    for each future patch, and attends to the states of the encoder (Luong et al. 2015, general score).

    patch: steps that are read, and predicted, at once; single steps make long chains, which are slow and
    forget. attention: false for the plain encoder-decoder of Sutskever et al. 2014.
    """

    def __init__(
        self,
        *,
        lookback: int,
        horizon: int,
        features: int = 0,
        patch: Count = 24,
        size: Count = 64,
        layers: Count = 1,
        cell: Cell = "lstm",
        attention: bool = True,
        dropout: float = 0.1,
    ):
        super().__init__()
        self.lookback, self.size, self.each = lookback, size, min(patch, lookback)
        self.future = -(-horizon // self.each)
        options: dict[str, Any] = {"size": size, "layers": layers, "cell": cell, "dropout": dropout}
        self.embedding = nn.Linear(self.each * (1 + features), size)
        self.queries = nn.Parameter(torch.randn(self.future, size) * size**-0.5)
        self.of_future = nn.Linear(self.each * features, size) if features else None
        self.encoder, self.decoder = Layers(size, **options), Layers(size, **options)
        self.attention = Attention(size, score="dot", projections="qv") if attention else None
        self.join = nn.Linear(2 * size, size) if attention else None

    def forward(self, past: Tensor, source: Past) -> Tensor:
        steps = past[..., None] if source.features is None else self._with_features(past, source.features)
        memory, state = self.encoder(self.embedding(self._cut(steps)).tanh())
        queries = self.queries.expand(len(past), -1, -1)
        if self.of_future is not None and source.features is not None:
            after = source.features[:, self.lookback :]
            missing = self.future * self.each - after.shape[1]
            queries = queries + self.of_future(self._cut(F.pad(after, (0, 0, 0, missing))))
        hidden, _ = self.decoder(queries, state)
        if self.attention is None or self.join is None:
            return hidden
        places = Places.run(0, memory.shape[1], device=past.device)
        keys = self.attention.keys(memory, places)
        context = AttentionContext(Places.run(memory.shape[1], self.future, device=past.device))
        return self.join(torch.cat([hidden, self.attention(hidden, context, keys)], -1)).tanh()

    def _with_features(self, past: Tensor, features: Tensor) -> Tensor:
        return torch.cat([past[..., None], features[:, : self.lookback]], -1)

    def _cut(self, steps: Tensor) -> Tensor:
        """(B, T, F) -> (B, patches, patch · F); the steps before the first whole patch are not read."""
        whole = steps[:, steps.shape[1] % self.each :]
        return whole.unflatten(1, (-1, self.each)).flatten(2)

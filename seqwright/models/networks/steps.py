"""The plain encoder-decoder Transformer over the steps of a series."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqwright.data.batch import Past
from seqwright.models import Network
from seqwright.nn.blocks import Stack
from seqwright.nn.masks import Places


class Steps(Network):
    """Every step is a token (Vaswani et al. 2017). The decoder predicts all future steps at once, from their
    positions and features alone, as in Informer (Zhou et al. 2021). The options are those of its stacks.
    """

    passes_to = Stack
    each = 1

    def __init__(self, *, lookback: int, horizon: int, features: int = 0, **stack: Any):
        super().__init__()
        self.encoder = Stack(**stack)
        self.size = self.encoder.size
        self.decoder = Stack(memory_size=self.size, **stack)
        self.lookback, self.horizon = lookback, horizon
        self.embedding = nn.Linear(1 + features, self.encoder.embedding_size)

    def forward(self, past: Tensor, source: Past) -> Tensor:
        rows = len(past)
        values = torch.cat([past, past.new_zeros(rows, self.horizon)], 1)[..., None]
        steps = values if source.features is None else torch.cat([values, source.features], -1)
        tokens = self.embedding(steps)
        places = Places.run(0, self.lookback, device=past.device)
        hidden, _ = self.encoder(tokens[:, : self.lookback], places)
        memory = self.decoder.memory(hidden, places)
        later = Places.run(self.lookback, self.horizon, device=past.device)
        found, _ = self.decoder(tokens[:, self.lookback :], later, None, memory)
        return found

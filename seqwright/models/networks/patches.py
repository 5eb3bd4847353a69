"""A Transformer over patches of a series (PatchTST, Nie et al. 2023)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.data.batch import Past
from seqwright.models import Network
from seqwright.nn.blocks import Stack
from seqwright.nn.masks import Places


class Patches(Network):
    """Overlapping patches of the past as tokens; the vectors of all patches together predict the future.

    The last value is repeated so that the last patch ends with it. Features that are known in advance are
    part of each patch, and those of the future are one more token. The other options are those of the stack.
    patch: steps of a patch. stride: steps from the beginning of a patch to that of the next one.
    identify: each series and channel has a vector of its own.
    """

    passes_to = Stack

    def __init__(
        self,
        *,
        lookback: int,
        horizon: int,
        features: int = 0,
        series: int = 1,
        identify: bool = False,
        patch: Count = 16,
        stride: Count = 8,
        **stack: Any,
    ):
        super().__init__()
        self.patch, self.stride = min(patch, lookback), min(stride, lookback)
        self.count = (lookback + self.stride - self.patch) // self.stride + 1
        self.stack = Stack(**stack)
        width = self.stack.embedding_size
        self.embedding = nn.Linear(self.patch, width)
        self.of_past = nn.Linear(self.patch * features, width) if features else None
        self.of_future = nn.Linear(horizon * features, width) if features else None
        self.of_id = nn.Embedding(series, width) if identify else None
        self.lookback, self.each = lookback, horizon
        self.size = (self.count + bool(features)) * self.stack.size

    def forward(self, past: Tensor, source: Past) -> Tensor:
        tokens = self.embedding(self._cut(past[..., None]).flatten(2))  # (B, patches, width)
        if self.of_past is not None and self.of_future is not None and source.features is not None:
            before, after = source.features[:, : self.lookback], source.features[:, self.lookback :]
            tokens = tokens + self.of_past(self._cut(before).flatten(2))
            tokens = torch.cat([tokens, self.of_future(after.flatten(1))[:, None]], dim=1)
        if self.of_id is not None and source.ids is not None:
            tokens = tokens + self.of_id(source.ids)[:, None]
        places = Places.run(0, tokens.shape[1], device=tokens.device)
        hidden, _ = self.stack(tokens, places)
        return hidden.flatten(1)[:, None]

    def _cut(self, steps: Tensor) -> Tensor:
        """(B, lookback, F) -> (B, patches, patch, F), the last step repeated at the end."""
        padded = F.pad(steps.transpose(1, 2), (0, self.stride), mode="replicate")
        return padded.unfold(-1, self.patch, self.stride).permute(0, 2, 3, 1)

"""The Transformer decoder (Vaswani et al. 2017, 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqwright.models import Decoder, Encoded
from seqwright.nn.blocks import BoundStack, Stack
from seqwright.nn.embedding import Embedding
from seqwright.nn.kv_cache import Keys, Past, select_keys
from seqwright.nn.masks import Places, regroup, take


@dataclass(frozen=True, eq=False)
class TransformerState:
    """The keys of each block's past and of the memory, for `groups` groups of `width` rows."""

    groups: int
    stack: BoundStack  # the stack that the keys belong to
    memory: tuple[Keys, ...] | None  # None without an encoder
    past: Past | None = None
    length: int | Tensor = 0  # tokens so far, (rows,) where padding made the rows differ
    width: int = 1

    def select(self, rows: Sequence[int]) -> TransformerState:
        shares = self.stack.shares_keys
        groups, width = regroup(rows, self.width, self.groups) if shares else (list(rows), 1)
        memory: Any = self.memory and select_keys(self.memory, groups, rows, width)
        past = self.past and select_keys(self.past, groups, rows, width)
        return TransformerState(len(rows) // width, self.stack, memory, past, take(self.length, rows), width)


class Transformer(Decoder):
    """A causal stack that attends to the memory, if there is one. The options are those of the stack."""

    passes_to = Stack

    def __init__(self, *, vocabulary: int, memory_size: int | None, **stack: Any):
        super().__init__()
        self.stack = Stack(memory_size=memory_size, causal=True, **stack)
        self.size = self.stack.size
        self.embedding = Embedding(vocabulary, self.stack.embedding_size)

    def start(self, encoded: Encoded | None, rows: int = 0) -> TransformerState:
        stack = self.stack.bound()
        if encoded is None:
            return TransformerState(rows, stack, None)
        return TransformerState(len(encoded.hidden), stack, stack.memory(encoded.hidden, encoded.places))

    def forward(
        self, tokens: Tensor, state: TransformerState, real: Tensor | None = None
    ) -> tuple[Tensor, TransformerState]:
        (rows, count), groups, length = tokens.shape, state.groups, state.length
        if real is None and isinstance(length, int):
            places = Places.run(length, count, width=state.width, device=tokens.device)
            length = length + count
        else:
            real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
            before = torch.as_tensor(length, device=tokens.device).expand(rows)
            pos = Places.padded(real, before).pos
            places, length = Places(pos.view(groups, -1), real.view(groups, -1)), before + real.sum(-1)
        # the rows of a group become one row of queries
        embedded = self.embedding(tokens.view(groups, state.width * count))
        hidden, past = state.stack(embedded, places, state.past, state.memory, state.width)
        after = TransformerState(groups, state.stack, state.memory, past, length, state.width)
        return hidden.view(rows, count, -1), after

"""The Transformer decoder (Vaswani et al. 2017, 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqwright.models import Decoder, Encoded, join_lengths, same_width
from seqwright.nn.blocks import BoundStack, Stack
from seqwright.nn.embedding import Embedding
from seqwright.nn.kv_cache import Keys, Past, join_keys, select_keys
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

    def join(self, others: Sequence[TransformerState]) -> TransformerState:
        states = same_width([self, *others])
        groups, width = [state.groups for state in states], states[0].width
        memory = join_keys([state.memory for state in states], groups, width)
        past = join_keys([state.past for state in states], groups, width, by_place=self.stack.keys_by_place)
        length = join_lengths([(state.length, state.groups * width) for state in states])
        return TransformerState(sum(groups), self.stack, memory, past, length, width)

    def spread(self) -> TransformerState:
        """Each row in a group of its own."""
        rows = range(self.groups * self.width)
        groups = [row // self.width for row in rows]
        memory: Any = self.memory and select_keys(self.memory, groups, rows, 1)
        past = self.past and select_keys(self.past, groups, rows, 1)
        return TransformerState(len(rows), self.stack, memory, past, self.length)


class Transformer(Decoder):
    """A causal stack that attends to the memory, if there is one. The options are those of the stack."""

    passes_to = Stack

    def __init__(self, *, vocabulary: int, memory_size: int | None, **stack: Any):
        super().__init__()
        self.stack = Stack(memory_size=memory_size, causal=True, **stack)
        self.size, self.counts_tokens = self.stack.size, self.stack.counts_tokens
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
        if isinstance(length, int):
            places = Places.run(length, count, width=state.width, device=tokens.device)
        else:
            pos = length[:, None] + torch.arange(count, device=tokens.device)
            places = Places(pos.view(groups, -1))
        if real is None:
            length = length + count
        else:
            places, length = places.with_seen(real.view(groups, -1)), length + real.sum(-1)
        # the rows of a group become one row of queries
        embedded = self.embedding(tokens.view(groups, state.width * count))
        hidden, past = state.stack(embedded, places, state.past, state.memory, state.width)
        after = TransformerState(groups, state.stack, state.memory, past, length, state.width)
        return hidden.view(rows, count, -1), after

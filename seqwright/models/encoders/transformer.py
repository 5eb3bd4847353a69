"""The Transformer encoder (Vaswani et al. 2017, 3.1)."""

from __future__ import annotations

from typing import Any

from seqwright.config.registry import Whole
from seqwright.data.batch import Tokens
from seqwright.models import Encoded, Encoder
from seqwright.nn.blocks import Stack
from seqwright.nn.convolution import Neighbours
from seqwright.nn.embedding import Embedding
from seqwright.nn.masks import Places


class Transformer(Encoder):
    """Embedded tokens through a stack of blocks. The other options are those of the stack.

    neighbours: tokens on each side that a convolution below the stack joins to each token; 0: none.
    """

    passes_to = Stack

    def __init__(self, *, vocabulary: int, neighbours: Whole = 0, **stack: Any):
        super().__init__()
        self.stack = Stack(**stack)
        self.size = self.stack.size
        self.embedding = Embedding(vocabulary, self.stack.embedding_size)
        self.neighbours = Neighbours(self.embedding.size, neighbours) if neighbours else None

    def forward(self, source: Tokens) -> Encoded:
        places, embedded = source_places(source), self.embedding(source.ids)
        if self.neighbours is not None:
            embedded = self.neighbours(embedded, places)
        hidden, _ = self.stack(embedded, places)
        return Encoded(hidden, places)


def source_places(source: Tokens) -> Places:
    """The positions 0, 1, …; padding is hidden."""
    count = source.ids.shape[1]
    return Places.run(0, count, device=source.ids.device).with_seen(source.real)

"""The Transformer encoder (Vaswani et al. 2017, 3.1)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from seqwright.config.registry import Whole
from seqwright.models import Encoded, SequenceEncoder, sequence_places
from seqwright.nn.blocks import Stack
from seqwright.nn.convolution import Neighbours
from seqwright.nn.embedding import Embedding
from seqwright.nn.spelling import Spelling


class Transformer(SequenceEncoder):
    """Embedded tokens through a stack of blocks. The other options are those of the stack.

    neighbours: tokens on each side that a convolution below the stack joins to each token; 0: none.
    causal: a token sees only those before it. pieces: the vocabulary in which words are spelled.
    """

    passes_to = Stack

    def __init__(
        self,
        *,
        vocabulary: int | None,
        neighbours: Whole = 0,
        causal: bool = False,
        pieces: int | None = None,
        **stack: Any,
    ):
        super().__init__()
        self.stack = Stack(causal=causal, **stack)
        self.size, self.input_size = self.stack.size, self.stack.embedding_size
        self.embedding = None if vocabulary is None else Embedding(vocabulary, self.input_size)
        self.spelling = Spelling(pieces, self.input_size) if pieces else None
        self.neighbours = Neighbours(self.input_size, neighbours, causal=causal) if neighbours else None

    def encode(self, vectors: Tensor, lengths: Tensor | None) -> Encoded:
        places = sequence_places(vectors, lengths)
        if self.neighbours is not None:
            vectors = self.neighbours(vectors, places)
        hidden, _ = self.stack(vectors, places)
        return Encoded(hidden, places)

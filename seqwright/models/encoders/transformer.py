"""The Transformer encoder (Vaswani et al. 2017, 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from seqwright.config.registry import Whole
from seqwright.data.batch import Tokens, Trees
from seqwright.models import Encoded, SequenceEncoder, sequence_places
from seqwright.nn.blocks import Stack
from seqwright.nn.convolution import Neighbours
from seqwright.nn.embedding import Embedding
from seqwright.nn.masks import Places
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

    def forward(self, source: Tokens) -> Encoded:
        vectors = self.embed(source)
        return self._encoded(vectors, sequence_places(vectors, source.lengths).with_trees(source.trees))

    def encode(self, vectors: Tensor, lengths: Tensor | None) -> Encoded:
        return self._encoded(vectors, sequence_places(vectors, lengths))

    def _encoded(self, vectors: Tensor, places: Places) -> Encoded:
        if self.neighbours is not None:
            vectors = self.neighbours(vectors, places)
        hidden, _ = self.stack(vectors, places)
        return Encoded(hidden, places)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tokens:
        """Two rows of three have a tree, where positions read trees: a head is any word before its own."""
        rows = super().sample(lengths, seeds)
        if not self.stack.reads_trees:
            return rows
        drawn = [np.random.default_rng(seed) for seed in seeds]
        nodes = [np.arange(1, length + 1) for length in lengths]
        heads = [
            draw.integers(0, row) if seed % 3 else row[:0]
            for draw, row, seed in zip(drawn, nodes, seeds, strict=True)
        ]
        return Tokens(rows.ids, rows.lengths, trees=Trees.of(nodes, heads, rows.ids.shape[1]))

"""The recurrent encoder (Sutskever et al. 2014; bidirectional as in Bahdanau et al. 2015, 3.2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqwright.config.registry import Count
from seqwright.errors import ConfigError
from seqwright.models import Encoded, SequenceEncoder, sequence_places
from seqwright.nn.dropout import Dropout
from seqwright.nn.embedding import Embedding
from seqwright.nn.recurrent import Cell, Recurrent
from seqwright.nn.spelling import Spelling


class Rnn(SequenceEncoder):
    """Embedded tokens through recurrent layers.

    size: of the output vectors; each direction of a bidirectional encoder has half of it.
    reverse: reads the source backwards (Sutskever et al. 2014, 3.3).
    pieces: the vocabulary in which words are spelled.
    """

    def __init__(
        self,
        *,
        vocabulary: int | None,
        size: Count = 512,
        embedding_size: Count | None = None,
        layers: Count = 1,
        cell: Cell = "lstm",
        bidirectional: bool = True,
        reverse: bool = False,
        dropout: float = 0.1,
        pieces: int | None = None,
    ):
        super().__init__()
        self.size, self.input_size, self.reverse = size, embedding_size or size, reverse
        if bidirectional and size % 2:
            rule = f"size of the rnn encoder is {size}; two directions need an even one"
            raise ConfigError(f"{rule}: use {size + 1}, or bidirectional = false")
        self.embedding = None if vocabulary is None else Embedding(vocabulary, self.input_size)
        self.spelling = Spelling(pieces, self.input_size) if pieces else None
        options: dict[str, Any] = {"layers": layers, "cell": cell, "bidirectional": bidirectional}
        each = size // 2 if bidirectional else size
        self.recurrent = Recurrent(self.input_size, size=each, dropout=dropout, **options)
        self.dropout = Dropout(dropout)

    def encode(self, vectors: Tensor, lengths: Tensor | None) -> Encoded:
        places = sequence_places(vectors, lengths)
        vectors = flipped(vectors, lengths) if self.reverse else vectors
        hidden, final = self.recurrent(self.dropout(vectors), lengths=lengths)
        if self.reverse:  # back to the order of the input
            hidden = flipped(hidden, lengths)
        # (layers · directions, B, n) -> (layers, B, size): the directions concatenated
        split = (-1, self.recurrent.directions)
        states = tuple(part.unflatten(0, split).transpose(1, 2).flatten(2) for part in final)
        return Encoded(self.dropout(hidden), places, states)


def flipped(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse the real part of each row; padding stays. x (B, T) or (B, T, D)."""
    if lengths is None:
        return x.flip(1)
    order = torch.arange(x.shape[1], device=x.device)[None]
    order = torch.where(order < lengths[:, None], lengths[:, None] - 1 - order, order)
    return x.gather(1, order if x.dim() == 2 else order[..., None].expand_as(x))

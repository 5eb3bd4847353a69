"""The convolutional encoder of texts (Kim 2014, Convolutional Neural Networks for Sentence
Classification).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Len
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.models import Encoded, SequenceEncoder, sequence_places
from seqwright.nn.convolution import windows
from seqwright.nn.dropout import Dropout
from seqwright.nn.embedding import Embedding

DEVIATION = 0.1  # of embeddings at the start: tokens that are rare in training remain quiet


class Ngrams(SequenceEncoder):
    """relu(W_n [x_{t−⌊(n−1)/2⌋}; …; x_{t+⌊n/2⌋}] + b_n) of each width n, concatenated: detectors of n-grams.

    size: detectors of all widths together. embedding_size: of the tokens x. token_dropout: the probability
    that the whole vector of a token is zero in training (Iyyer et al. 2015, 3.1). Padding is zero.
    """

    def __init__(
        self,
        *,
        vocabulary: int | None,
        size: Count = 384,
        embedding_size: Count = 128,
        widths: Annotated[Sequence[Count], Len(1)] = (1, 2, 3),
        dropout: float = 0.2,
        token_dropout: float = 0.0,
    ):
        super().__init__()
        self.size, self.input_size, self.widths = size, embedding_size, tuple(widths)
        quiet = {"deviation": DEVIATION}
        self.embedding = None if vocabulary is None else Embedding(vocabulary, embedding_size, **quiet)
        ends = [size * number // len(widths) for number in range(len(widths) + 1)]
        shares = zip(self.widths, pairwise(ends), strict=True)
        self.detectors = nn.ModuleList(
            nn.Linear(n * embedding_size, end - start) for n, (start, end) in shares
        )
        self.dropout, self.token_dropout = Dropout(dropout), Dropout(token_dropout)

    def encode(self, vectors: Tensor, lengths: Tensor | None) -> Encoded:
        places = sequence_places(vectors, lengths)
        kept = torch.ones_like(vectors[..., :1])
        kept = kept if places.seen is None else kept * places.seen[..., None]
        x = self.dropout(vectors) * self.token_dropout(kept)  # (B, S, D)
        found = (
            F.relu(detector(windows(x, (n - 1) // 2, n // 2)))
            for n, detector in zip(self.widths, self.detectors, strict=True)
        )
        return Encoded(torch.cat(list(found), dim=-1), places)

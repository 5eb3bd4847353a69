"""The hierarchical encoder: words → sentences → document (Yang et al. 2016); or turns → conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seqwright.config.registry import Count, parse
from seqwright.data.batch import Segments, Tokens
from seqwright.data.tokenizer import FIRST
from seqwright.errors import ConfigError
from seqwright.models import ENCODERS, Encoded, Encoder, SequenceEncoder, Words, sample_ids, sequence_places
from seqwright.nn.attention import Spec
from seqwright.nn.embedding import Embedding
from seqwright.nn.pooling import POOLINGS


class Hierarchical(Encoder):
    """A lower level encodes the words of each sentence, a pooling makes one vector of them, and an upper
    level encodes these vectors: h = upper(pool(lower(words of sentence s)), s = 1 …).

    The sentences of all rows are one batch of the lower level, so that no computation is spent on missing
    sentences. In a source without boundaries each token is a sentence.

    lower: the encoder of the words of a sentence. upper: the encoder of the vectors of the sentences.
    pooling: how the words of a sentence become one vector.
    size: of both levels, unless the description of a level sets it.
    layers: of each level, unless its description sets them.
    dropout: of both levels, unless the description of a level sets it.
    """

    reads = Segments

    def __init__(
        self,
        *,
        vocabulary: int,
        size: Count = 512,
        layers: Count = 1,
        dropout: float = 0.1,
        lower: Spec = "rnn",
        upper: Spec = "rnn",
        pooling: Spec = "attention",
    ):
        super().__init__()
        common = {"size": size, "layers": layers, "dropout": dropout}
        self.lower = _level("lower", lower, **common)
        self.embedding = Embedding(vocabulary, self.lower.input_size)
        self.pooling = POOLINGS.build(pooling, size=self.lower.size)
        between: nn.Module = nn.Identity()
        self.upper = None
        if upper != "none":
            self.upper = _level("upper", upper, embedding_size=self.lower.size, **common)
            if self.upper.input_size != self.lower.size:
                between = nn.Linear(self.lower.size, self.upper.input_size)
        self.between = between
        self.size = self.lower.size if self.upper is None else self.upper.size

    def forward(self, source: Segments | Tokens) -> Encoded:
        source = Segments.of_tokens(source) if isinstance(source, Tokens) else source
        words, (rows, numbers) = source.words, source.index
        lower = self.lower.encode(self.embedding(words.ids), words.lengths)  # (N, T, D)
        pooled = self.between(self.pooling(lower.hidden, lower.places))  # (N, D)
        shape = len(source.counts), source.longest, pooled.shape[-1]
        sentences = pooled.new_zeros(shape).index_put((rows, numbers), pooled)  # (B, S, D)
        full = len(rows) == shape[0] * shape[1]
        counts = None if full else source.counts
        below = Words(lower.hidden, lower.places, rows, numbers)
        if self.upper is None:
            final = None if lower.final is None else _of_last(lower.final, source.counts)
            return Encoded(sentences, sequence_places(sentences, counts), final, below)
        upper = self.upper.encode(sentences, counts)
        return Encoded(upper.hidden, upper.places, upper.final, below)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Segments:
        """Row i has lengths[i] sentences of 1 to 4 words."""
        sizes, inner = [], []
        for length, seed in zip(lengths, seeds, strict=True):
            generator = torch.Generator().manual_seed(seed)
            sizes += torch.randint(1, 5, (length,), generator=generator).tolist()
            inner += torch.randint(1 << 30, (length,), generator=generator).tolist()
        ids = sample_ids(sizes, inner, FIRST, self.embedding.vocabulary, padding=FIRST)
        return Segments(Tokens(ids, torch.tensor(sizes)), torch.tensor(lengths))


def _of_last(states: tuple[Tensor, ...], counts: Tensor) -> tuple[Tensor, ...]:
    """The states of the last sentence of each row, (layers, N, size) -> (layers, B, size); zeros without."""
    last, some = (counts.cumsum(0) - 1).clamp(min=0), (counts > 0)[:, None]
    return tuple(part[:, last] * some for part in states)


def _level(name: str, spec: Spec, **options: Any) -> SequenceEncoder:
    kind, _ = parse(name, spec)
    if not issubclass(ENCODERS.get(kind), SequenceEncoder):
        raise ConfigError(f"{name} is {kind!r}, which does not encode sequences; use rnn or transformer")
    return ENCODERS.build(spec, vocabulary=None, **options)

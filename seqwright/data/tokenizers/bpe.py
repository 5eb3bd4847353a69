"""Byte-pair encoding (Sennrich et al. 2016)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Any

from annotated_types import Ge, Le
from tokenizers import models, trainers

from seqwright.config.registry import Count
from seqwright.data.tokenizer import MOST, UNK, Vocabulary
from seqwright.data.tokenizers.segmentation.spaces import spaced
from seqwright.data.tokenizers.segmentation.subwords import (
    UNKNOWN,
    PieceLength,
    SubwordTokenizer,
    library_for,
)
from seqwright.errors import ModelError


class Bpe(SubwordTokenizer):
    """Merges the most frequent neighbours until there are `max_size` ids.

    `encode_sampled` skips each possible merge with the probability `dropout` (Provilkov et al. 2020).
    """

    def __init__(
        self,
        vocabulary: Vocabulary | None = None,
        *,
        max_size: Annotated[int, Le(MOST)] = 8000,
        min_count: Count = 2,
        max_piece: PieceLength = 16,
        dropout: Annotated[float, Ge(0), Le(1)] = 0.1,
        byte_fallback: bool = False,
    ):
        self.min_count, self.dropout = min_count, dropout
        super().__init__(vocabulary, max_size, max_piece, byte_fallback)
        self._ranks = {pair: rank for rank, pair in enumerate(self.vocabulary.merges)}

    def _model(self) -> models.BPE:
        vocabulary = {UNKNOWN: UNK, **self._text_ids()}
        for left, right in self.vocabulary.merges:
            if not (left in vocabulary and right in vocabulary and left + right in vocabulary):
                merge = f"merge of {left[:40]!r} and {right[:40]!r}"
                raise ModelError(f"{merge} has no entries; train the tokenizer again")
        return models.BPE(vocabulary, list(self.vocabulary.merges), unk_token=UNKNOWN)

    def _learn(self, texts: Iterator[str]) -> Vocabulary:
        library = library_for(models.BPE(unk_token=UNKNOWN))
        limits: dict[str, Any] = {
            "min_frequency": self.min_count,
            "max_token_length": self.max_piece,
            "special_tokens": [],
        }
        trainer = trainers.BpeTrainer(vocab_size=self._room, show_progress=False, **limits)
        library.train_from_iterator(map(spaced, texts), trainer)
        model = json.loads(library.to_str())["model"]
        entries = sorted(model["vocab"], key=model["vocab"].__getitem__)
        return Vocabulary(tuple(entries), tuple((left, right) for left, right in model["merges"]))

    def _sample(self, part: str, draw: Callable[[], float]) -> list[str]:
        """Apply the first learned merge that is not dropped, repeatedly (Provilkov et al., algorithm 1)."""
        pieces, find, dropout = list(part), self._ranks.get, self.dropout
        while len(pieces) > 1:
            ranks = [
                (rank, k)
                for k, pair in enumerate(pairwise(pieces))
                if (rank := find(pair)) is not None and draw() >= dropout
            ]
            if not ranks:
                break
            _, k = min(ranks)
            pieces[k : k + 2] = [pieces[k] + pieces[k + 1]]
        return pieces

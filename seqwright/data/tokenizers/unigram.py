"""Unigram language model over pieces (Kudo 2018)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Annotated

from annotated_types import Ge, Le, Lt
from tokenizers import models

from seqwright.data.tokenizer import MOST, UNK, Vocabulary
from seqwright.data.tokenizers.segmentation.likelihood import learn_unigram
from seqwright.data.tokenizers.segmentation.spaces import parts_of, spaced
from seqwright.data.tokenizers.segmentation.subwords import UNKNOWN, PieceLength, SubwordTokenizer
from seqwright.data.tokenizers.segmentation.tables import count_parts
from seqwright.errors import ModelError

UNKNOWN_PENALTY = 10.0  # an unknown character scores so much below the lowest score, as in the library
KEPT_WAYS = 50_000

Ways = list[tuple[list[str], list[float]]]


class Unigram(SubwordTokenizer):
    """The most likely segmentation, P(pieces) = Π p(piece).

    `encode_sampled` draws in proportion to P^alpha; a small alpha gives more variety (Kudo 2018, eq. 8).
    """

    def __init__(
        self,
        vocabulary: Vocabulary | None = None,
        *,
        max_size: Annotated[int, Le(MOST)] = 8000,
        max_piece: PieceLength = 16,
        alpha: Annotated[float, Ge(0), Lt(math.inf)] = 0.3,
        byte_fallback: bool = False,
    ):
        self.alpha = alpha
        entries, scores = (vocabulary.entries, vocabulary.scores) if vocabulary else ((), ())
        if len(scores) != len(entries) or not all(map(math.isfinite, scores)):
            raise ModelError("a unigram tokenizer needs a finite score for each entry; train it again")
        super().__init__(vocabulary, max_size, max_piece, byte_fallback)
        self._scores = {piece: scores[number - self._first] for piece, number in self._text_ids().items()}
        self._lowest = min(self._scores.values(), default=0.0) - UNKNOWN_PENALTY
        self._ways: dict[str, Ways] = {}

    def _model(self) -> models.Unigram:
        # The library numbers pieces by their index; ids without text get a spelling that no text has.
        pieces = [(f"{UNKNOWN}{number}", 0.0) for number in range(self.size)]
        for piece, number in self._text_ids().items():
            pieces[number] = (piece, self.vocabulary.scores[number - self._first])
        return models.Unigram(pieces, UNK, False)

    def _learn(self, texts: Iterator[str]) -> Vocabulary:
        words = count_parts(parts_of(spaced(text)) for text in texts)
        if not words:
            return Vocabulary()
        pieces, scores = zip(*learn_unigram(words, self._room, self.max_piece), strict=True)
        return Vocabulary(pieces, scores=scores)

    def _sample(self, part: str, draw: Callable[[], float]) -> list[str]:
        """Draw exactly from all segmentations: backward from the end, by the forward sums."""
        ways = self._ways.get(part)
        if ways is None:
            ways = self._forward(part)
            if len(self._ways) < KEPT_WAYS:
                self._ways[part] = ways
        pieces: list[str] = []
        end = len(part)
        while end:
            choices, sums = ways[end - 1]
            pieces.append(choices[min(bisect_right(sums, draw() * sums[-1]), len(choices) - 1)])
            end -= len(pieces[-1])
        return pieces[::-1]

    def _forward(self, part: str) -> Ways:
        """Return, for each end, the pieces that end there and the running sums of their probabilities."""
        ways: Ways = []
        totals = [0.0]  # log of the sum over all segmentations up to a position
        for end in range(1, len(part) + 1):
            choices, logs = list[str](), list[float]()
            for start in range(max(0, end - self.max_piece), end):
                piece = part[start:end]
                score = self._scores.get(piece, self._lowest if len(piece) == 1 else None)
                if score is not None:
                    choices.append(piece)
                    logs.append(totals[start] + self.alpha * score)
            top = max(logs)
            sums = list(accumulate(math.exp(value - top) for value in logs))
            totals.append(top + math.log(sums[-1]))
            ways.append((choices, sums))
        return ways

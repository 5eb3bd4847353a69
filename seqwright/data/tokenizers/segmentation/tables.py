"""Tokenizers that split a text and look up each part: characters, symbols, words."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from annotated_types import Gt, Le

from seqwright.config.registry import Count
from seqwright.data.tokenizer import FIRST, MOST, UNK, Tokenizer, Vocabulary, ranked


class TableTokenizer(Tokenizer):
    """Keeps the parts that occur at least `min_count` times; the most frequent, up to `max_size` ids."""

    def __init__(
        self,
        vocabulary: Vocabulary | None = None,
        *,
        max_size: Annotated[int, Gt(FIRST), Le(MOST)] | None = None,
        min_count: Count = 1,
    ):
        super().__init__(vocabulary)
        self.max_size, self.min_count = max_size, min_count

    @abstractmethod
    def _cut(self, text: str) -> list[str]:
        """Return the parts of a text."""

    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        find, cut = self._ids.get, self._cut
        return [[find(part, UNK) for part in cut(text)] for text in texts]

    def _units(self, text: str) -> Iterable[str]:
        return self._cut(text)

    def _learn(self, texts: Iterator[str]) -> Vocabulary:
        counts = ranked(count_parts(map(self._cut, texts)))
        parts = [part for part, count in counts if count >= self.min_count]
        return Vocabulary(tuple(parts[: (self.max_size or MOST) - FIRST]))


def count_parts(texts: Iterable[Iterable[str]], most: int = 2_000_000) -> Counter[str]:
    """Count the parts in bounded memory: of more than `most` distinct parts, the rarest are dropped."""
    counts: Counter[str] = Counter()
    floor = 1
    for parts in texts:
        counts.update(parts)
        while len(counts) > most:
            counts = Counter({part: count for part, count in counts.items() if count > floor})
            floor += len(counts) > most // 2
    return counts

"""Tokenizers that cut a text and look each part up: characters, symbols, words."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from seqwright.data.tokenizer import FIRST, UNK, Tokenizer, Vocabulary, at_least, ranked

# Above this many distinct parts the rarest are forgotten while counting, so that memory stays bounded.
COUNTED = 2_000_000


class TableTokenizer(Tokenizer):
    """Keeps the most frequent parts: those that come `min_count` times, as many as fill `max_size` ids."""

    def __init__(
        self, vocabulary: Vocabulary | None = None, *, max_size: int | None = None, min_count: int = 1
    ):
        if max_size is not None:
            at_least("max_size", max_size, FIRST + 1)
        at_least("min_count", min_count, 1)
        super().__init__(vocabulary)
        self.max_size, self.min_count = max_size, min_count

    @abstractmethod
    def _cut(self, text: str) -> list[str]:
        """The parts of a text."""

    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        find, cut = self._ids.get, self._cut
        return [[find(part, UNK) for part in cut(text)] for text in texts]

    def _units(self, text: str) -> Iterable[str]:
        return self._cut(text)

    def _learn(self, texts: Iterator[str]) -> Vocabulary:
        parts = [
            part for part, count in ranked(count_parts(map(self._cut, texts))) if count >= self.min_count
        ]
        return Vocabulary(tuple(parts if self.max_size is None else parts[: self.max_size - FIRST]))


def count_parts(texts: Iterable[Iterable[str]], most: int = COUNTED) -> Counter[str]:
    """How often each part comes, in bounded memory: the rarest are forgotten when there are too many."""
    counts: Counter[str] = Counter()
    floor = 1
    for parts in texts:
        counts.update(parts)
        while len(counts) > most:
            counts = Counter({part: count for part, count in counts.items() if count > floor})
            floor += len(counts) > most // 2
    return counts

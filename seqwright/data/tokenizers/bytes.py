"""One id for each byte of UTF-8: nothing is unknown, and nothing is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from seqwright.data.tokenizer import FIRST, Tokenizer, Vocabulary, utf8


class Bytes(Tokenizer):
    """All texts round-trip; sequences are long (Xue et al. 2022, ByT5)."""

    byte_fallback = True

    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        return [[FIRST + byte for byte in utf8(text)] for text in texts]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [(k, k + 1) for k, character in enumerate(text) for _ in utf8(character)]

    def _learn(self, texts: Iterator[str]) -> Vocabulary:
        for _ in texts:  # collects the markers
            pass
        return Vocabulary()

    def _units(self, text: str) -> Iterable[str]:
        return ()

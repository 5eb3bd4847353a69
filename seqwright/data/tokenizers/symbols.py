"""One id for each symbol between spaces: phonemes, morphemes, tokenized text."""

from __future__ import annotations

import re

from seqwright.data.tokenizers.segmentation.tables import TableTokenizer

_SYMBOLS = re.compile(r"\S+")


class Symbols(TableTokenizer):
    """Decoding puts one space between symbols; other spaces are lost."""

    def _cut(self, text: str) -> list[str]:
        return text.split()

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _SYMBOLS.finditer(text)]

    def _join(self, pieces: list[str]) -> str:
        return " ".join(pieces)

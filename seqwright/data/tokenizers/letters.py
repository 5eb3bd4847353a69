"""One id for each canonical part of a character: 한 is ᄒ, ᅡ and ᆫ, é is e and its accent."""

from __future__ import annotations

import unicodedata

from seqwright.data.segmentation.tables import TableTokenizer


class Letters(TableTokenizer):
    """A script that writes syllables has thousands of characters, most of them rare, but few letters.

    Text comes back composed (Unicode's form NFC).
    """

    def _cut(self, text: str) -> list[str]:
        return list(unicodedata.normalize("NFD", text))

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [
            (k, k + 1) for k, character in enumerate(text) for _ in unicodedata.normalize("NFD", character)
        ]

    def _join(self, pieces: list[str]) -> str:
        return unicodedata.normalize("NFC", "".join(pieces))

"""One id for each canonical part of a character: 한 is ᄒ, ᅡ and ᆫ, é is e and its accent."""

from __future__ import annotations

import unicodedata
from itertools import accumulate

from seqwright.data.tokenizers.segmentation.tables import TableTokenizer


class Letters(TableTokenizer):
    """The characters of NFD: thousands of syllables have few letters. Decoded text is composed (NFC)."""

    def _cut(self, text: str) -> list[str]:
        return list(unicodedata.normalize("NFD", text))

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans in the order of NFD, which sorts the marks of a letter by their classes."""
        parts = [(k, part) for k, each in enumerate(text) for part in unicodedata.normalize("NFD", each)]
        classes = [unicodedata.combining(part) for _, part in parts]
        letters = accumulate(not each for each in classes)  # a mark gets the number of the letter before it
        places = sorted(zip(letters, classes, (k for k, _ in parts), strict=True))
        return [(k, k + 1) for _, _, k in places]

    def _join(self, pieces: list[str]) -> str:
        return unicodedata.normalize("NFC", "".join(pieces))

"""One id for each word and each run of punctuation."""

from __future__ import annotations

from itertools import accumulate, pairwise

from seqwright.data.tokenizer import UNKNOWN_TEXT
from seqwright.data.tokenizers.segmentation.spaces import shifted, spaced, unspaced, words_of
from seqwright.data.tokenizers.segmentation.tables import TableTokenizer


class Words(TableTokenizer):
    """A word includes the space before it, so decoding is exact: `Yes` `,` ` it` ` is` `.`"""

    spaced = True

    def _cut(self, text: str) -> list[str]:
        return words_of(spaced(text))

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return shifted(list(pairwise(accumulate(map(len, self._cut(text)), initial=0))))

    def _join(self, pieces: list[str]) -> str:
        return unspaced([" " + piece if piece == UNKNOWN_TEXT else piece for piece in pieces])

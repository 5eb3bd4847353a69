"""One id for each user-perceived character."""

from __future__ import annotations

from itertools import accumulate, pairwise

import regex

from seqwright.data.tokenizers.segmentation.tables import TableTokenizer

_CLUSTERS = regex.compile(r"\X")


class Characters(TableTokenizer):
    """Grapheme clusters (Unicode Annex 29): a letter with its accents, in any normalisation form."""

    def _cut(self, text: str) -> list[str]:
        # the only longer cluster in ASCII is "\r\n"
        return list(text) if text.isascii() and "\r" not in text else _CLUSTERS.findall(text)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return list(pairwise(accumulate(map(len, self._cut(text)), initial=0)))

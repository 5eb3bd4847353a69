"""Word error rate of items that are words."""

from __future__ import annotations

from collections.abc import Sequence

from seqwright.evaluation.metrics.bases import Share


class WordErrorRate(Share[str]):
    """Items that equal none of their references, over items: WER where an item is a word.

    This is the word error rate of pronunciation (Yao and Zweig 2015). In speech recognition, where an item is
    a sentence, the name means `WordEditRate`.
    """

    better = "lower"
    meaning = "of the items are not exactly right"

    def counts(self, output: str, references: Sequence[str]) -> bool:
        return output not in references

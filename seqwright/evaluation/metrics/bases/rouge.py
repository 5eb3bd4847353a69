"""The base of ROUGE."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import regex

from seqwright.evaluation.metrics import Metric, reference_count

_WORD = regex.compile(r"[^\W_]+")


class Rouge(Metric[str]):
    """The mean over items of an F-score of what output and reference share (Lin 2004).

    Words are runs of letters and digits in lower case, without stemming: on English the words of the package
    rouge-score. The reference with the highest F-score counts.
    """

    better = "higher"
    unit = ""

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        rows = []
        for output, given in zip(outputs, references, strict=True):
            words = _words(output)
            rows.append((max(self._f_score(words, _words(text)) for text in given), 1.0))
        return np.array(rows)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / totals[1])

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return f"refs:{reference_count(references)}|words:lower,alphanumeric|stemmer:no"

    def _f_score(self, output: Sequence[str], reference: Sequence[str]) -> float:
        shared, found, known = self.overlap(output, reference)
        return 2 * shared / (found + known) if shared else 0.0

    @abstractmethod
    def overlap(self, output: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        """Return the number of shared units, of those of the output, and of those of the reference."""


class RougeGrams(Rouge):
    """ROUGE-N: shared n-grams of `size` words (Lin 2004, section 2), as F-score."""

    size: ClassVar[int]

    @property
    def name(self) -> str:
        return f"rouge_{self.size}"

    def overlap(self, output: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        found, known = (self._grams(words) for words in (output, reference))
        return (found & known).total(), found.total(), known.total()

    def _grams(self, words: Sequence[str]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(words[i : i + self.size]) for i in range(len(words) - self.size + 1))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())

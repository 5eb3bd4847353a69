"""F1 of the words of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from seqwright.evaluation.metrics import Metric
from seqwright.evaluation.metrics.bases.captions import caption_words


class WordF1(Metric[str]):
    """2 · shared words / (words of the output + words of the reference) with the best reference, averaged
    over items; the order of words does not count, nor do capitals and punctuation.
    """

    better = "higher"
    label, meaning = "word F1", "of the words agree with the closest reference"

    @property
    def name(self) -> str:
        return "word_f1"

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        items = zip(outputs, references, strict=True)
        return np.array([(max(_f1(output, text) for text in given), 1.0) for output, given in items])

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / totals[1])


def _f1(output: str, reference: str) -> float:
    found, known = Counter(caption_words(output)), Counter(caption_words(reference))
    total = found.total() + known.total()
    return 2 * (found & known).total() / total if total else 1.0

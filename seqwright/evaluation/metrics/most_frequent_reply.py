"""The share of the most frequent output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqwright.evaluation.metrics import Metric


class MostFrequentReply(Metric[str]):
    """The share of the output that occurs most often; a model whose outputs are all the same has 100."""

    better = "lower"
    meaning = "of the outputs are the same, the most frequent one"

    def seen(self, prediction: Any) -> str:
        return prediction.text

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        (most, _), *_ = Counter(outputs).most_common(1)
        return np.array([(output == most, 1.0) for output in outputs], dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / totals[1])

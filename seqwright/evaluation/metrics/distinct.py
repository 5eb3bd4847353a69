"""Different outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqwright.evaluation.metrics import Metric


class Distinct(Metric[str]):
    """The number of different outputs over that of all outputs: a model that ignores its input repeats one.

    An output counts for the first item that has it, also where items are resampled.
    """

    better = "higher"
    meaning = "of the outputs are different from each other"

    def seen(self, prediction: Any) -> str:
        return prediction.text

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        firsts = {output: number for number, output in reversed(list(enumerate(outputs)))}
        rows = [(firsts[output] == number, 1.0) for number, output in enumerate(outputs)]
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))

"""Expected calibration error: whether probabilities mean what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqwright.evaluation.metrics import Metric

BINS = 15


class ExpectedCalibrationError(Metric[Any]):
    """Σ_b n_b/n |accuracy_b − probability_b| over 15 bins of equal width by the probability of the output
    (Guo et al. 2017, eq. 3).
    """

    better = "lower"
    label = "calibration error"
    meaning = "mean difference between the probability of an output and how often it is right"

    def seen(self, prediction: Any) -> tuple[Any, float]:
        return prediction.value, prediction.probability

    def statistics(self, outputs: Sequence[Any], references: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the gap in the bin of each item, and 1 to count it, (N, 16)."""
        rows = np.zeros((len(outputs), BINS + 1))
        for row, (value, probability), given in zip(rows, outputs, references, strict=True):
            row[min(int(probability * BINS), BINS - 1)] = (value in given) - probability
            row[BINS] = 1.0
        return rows

    def value(self, totals: np.ndarray) -> float:
        return float(100 * np.abs(totals[:BINS]).sum() / totals[BINS])

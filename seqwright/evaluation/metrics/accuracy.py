"""Accuracy of labels, and of tags."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import Any

import numpy as np

from seqwright.evaluation.metrics import Metric


class Accuracy(Metric[Any]):
    """Right labels over all labels: one for each item, or one for each word of a sequence of tags."""

    better = "higher"
    meaning = "of the labels are right"

    def statistics(self, outputs: Sequence[Any], references: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the right labels and all labels of each item, (N, 2)."""
        rows = []
        for output, given in zip(outputs, references, strict=True):
            known = (each if isinstance(each, tuple) else (each,) for each in given)
            own = output if isinstance(output, tuple) else (output,)
            counts = ((sum(map(eq, own, each)), len(each)) for each in known)
            rows.append(max(counts, key=lambda count: count[0] / max(count[1], 1)))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))

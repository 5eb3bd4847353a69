"""F1 of each label, averaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqwright.evaluation.metrics import Metric


class MacroF1(Metric[str]):
    """The mean over labels of 2 tp / (2 tp + fp + fn); rare labels count as much as frequent ones.

    The labels are those of the references. A row has the numbers of the expected label and of the output, −1
    for an output that is not expected anywhere.
    """

    better = "higher"
    label = "macro-F1"
    meaning = "mean F1 of the labels"

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        labels = sorted({label for given in references for label in given})
        numbers = {label: number for number, label in enumerate(labels)}
        rows = []
        for output, given in zip(outputs, references, strict=True):
            expected = output if output in given else given[0]
            rows.append((numbers[expected], numbers.get(output, -1), len(labels)))
        return np.array(rows, dtype=np.int64)

    def total(self, rows: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
        """Return true positives, outputs and references of each label, (3 · labels,)."""
        expected, output, count = rows[:, 0], rows[:, 1], int(rows[0, 2])
        weights = np.ones(len(rows)) if times is None else times
        right, known = expected == output, output >= 0
        return np.concatenate(
            [
                np.bincount(expected[right], weights[right], minlength=count),
                np.bincount(output[known], weights[known], minlength=count),
                np.bincount(expected, weights, minlength=count),
            ]
        )

    def value(self, totals: np.ndarray) -> float:
        right, outputs, references = totals.reshape(3, -1)
        present = outputs + references > 0
        return float(100 * np.mean(2 * right[present] / (outputs + references)[present]))

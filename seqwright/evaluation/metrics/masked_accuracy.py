"""Accuracy of a masked language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqwright.data.masked_results import Guesses
from seqwright.evaluation.metrics import Metric


class MaskedAccuracy(Metric[Guesses]):
    """Hidden tokens that are guessed right, over hidden tokens. A guess at another text is wrong."""

    better = "higher"
    meaning = "of the hidden tokens are guessed right"

    def statistics(self, outputs: Sequence[Guesses], references: Sequence[Sequence[Guesses]]) -> np.ndarray:
        items = zip(outputs, references, strict=True)
        rows = [(output.right * (output.text == given[0].text), output.tokens) for output, given in items]
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))

"""The length of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqwright.evaluation.metrics import Metric


class ReplyLength(Metric[str]):
    """Words of an output, on average; compare it with that of real replies."""

    better = "higher"
    unit = " words"
    meaning = "on average has an output"

    def seen(self, prediction: Any) -> str:
        return prediction.text

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        return np.array([(len(output.split()), 1.0) for output in outputs], dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(totals[0] / totals[1])

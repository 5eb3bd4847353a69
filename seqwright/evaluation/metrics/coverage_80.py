"""The share of outcomes inside the intervals."""

from __future__ import annotations

import numpy as np

from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics.bases import ErrorOfSteps


class Coverage80(ErrorOfSteps):
    """Outcomes inside the intervals that are to hold 80 % of them, over all outcomes."""

    better = "higher"
    target = 80.0
    label = "coverage"
    unit = " %"
    decimals = 1
    meaning = "of the outcomes are inside the 80 % intervals"

    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        low, high = output.interval
        return 100.0 * ((expected.values >= low) & (expected.values <= high))

    @property
    def name(self) -> str:
        return "coverage_80"

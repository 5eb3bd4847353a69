"""The width of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics.bases import ErrorOfSteps


class IntervalWidth(ErrorOfSteps):
    """The width of the 80 % intervals, in units of the deviation in the training part."""

    meaning = "width of the 80 % intervals in deviations of the training part"

    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        low, high = output.interval
        return (high - low) / expected.scale

    def seen(self, prediction: Any) -> Trajectory:
        return prediction.value  # a plain answer has no width

"""The scaled error of forecasts."""

from __future__ import annotations

import numpy as np

from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics.bases import ErrorOfSteps


class Mase(ErrorOfSteps):
    """The absolute error over that of repeating the last season in the training part
    (Hyndman & Koehler 2006).
    """

    label = "MASE"
    meaning = "times the error of repeating the last season in the training part"

    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        return np.abs(output.values - expected.values) / expected.naive

"""The mean absolute error of forecasts."""

from __future__ import annotations

import numpy as np

from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics.bases import ErrorOfSteps


class Mae(ErrorOfSteps):
    """The absolute error, each channel in units of its deviation in the training part."""

    label = "MAE"
    meaning = "absolute error in deviations of the training part"

    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        return np.abs(output.values - expected.values) / expected.scale

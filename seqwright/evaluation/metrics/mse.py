"""The mean squared error of forecasts."""

from __future__ import annotations

import numpy as np

from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics.bases import ErrorOfSteps


class Mse(ErrorOfSteps):
    """The squared error, each channel in units of its deviation in the training part."""

    label = "MSE"
    meaning = "squared error in deviations of the training part"

    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        return ((output.values - expected.values) / expected.scale) ** 2

"""The symmetric relative error of forecasts."""

from __future__ import annotations

import numpy as np

from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics.bases import ErrorOfSteps


class Smape(ErrorOfSteps):
    """200 · |y − f| / (|y| + |f|) (Makridakis 1993); 0 where both are 0."""

    label = "sMAPE"
    unit = " %"
    decimals = 1
    meaning = "of the size of the values, on average"

    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        sizes = np.abs(output.values) + np.abs(expected.values)
        return np.where(sizes == 0, 0.0, 200 * np.abs(output.values - expected.values) / sizes)

"""F1 of entities."""

from __future__ import annotations

import numpy as np

from seqwright.evaluation.metrics.bases.entities import EntityMetric, percentage


class EntityF1(EntityMetric):
    """2 · right / (entities of the output + entities of the reference)."""

    label = "entity F1"
    meaning = "harmonic mean of precision and recall of the entities"

    def value(self, totals: np.ndarray) -> float:
        return percentage(2 * totals[0], totals[1] + totals[2])

"""Recall of entities."""

from __future__ import annotations

import numpy as np

from seqwright.evaluation.metrics.bases.entities import EntityMetric, percentage


class EntityRecall(EntityMetric):
    """Right entities over those of the reference."""

    meaning = "of the entities in the reference are found"

    def value(self, totals: np.ndarray) -> float:
        return percentage(totals[0], totals[2])

"""Precision of entities."""

from __future__ import annotations

import numpy as np

from seqwright.evaluation.metrics.bases.entities import EntityMetric, percentage


class EntityPrecision(EntityMetric):
    """Right entities over those of the output."""

    meaning = "of the entities in the output are right"

    def value(self, totals: np.ndarray) -> float:
        return percentage(totals[0], totals[1])

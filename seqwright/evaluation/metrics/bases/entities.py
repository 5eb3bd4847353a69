"""The base of metrics of entities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqwright.data.tag_scheme import entities
from seqwright.evaluation.metrics import Metric, reference_count

Tags = Sequence[str]


class EntityMetric(Metric[Tags]):
    """Counts of entities over all sentences, as seqeval has them: an entity is right if its type and both its
    ends are. A row has the right entities, those of the output, and those of the reference.
    """

    better = "higher"

    def statistics(self, outputs: Sequence[Tags], references: Sequence[Sequence[Tags]]) -> np.ndarray:
        rows = [self._closest(output, given) for output, given in zip(outputs, references, strict=True)]
        return np.array(rows, dtype=np.float64)

    def _closest(self, output: Tags, references: Sequence[Tags]) -> tuple[int, int, int]:
        """Return the counts against the reference with the highest F1."""
        found = set(entities(output))
        counts = [(len(found & set(known)), len(found), len(known)) for known in map(entities, references)]
        return max(counts, key=lambda count: 2 * count[0] / max(count[1] + count[2], 1))

    def signature(self, references: Sequence[Sequence[Tags]]) -> str:
        return f"refs:{reference_count(references)}|entities:seqeval"


def percentage(right: float, total: float) -> float:
    """Return 100 · right / total, and 0 of nothing."""
    return float(100 * right / total) if total else 0.0

"""Exact match."""

from __future__ import annotations

from collections.abc import Sequence

from seqwright.evaluation.metrics import T
from seqwright.evaluation.metrics.bases import Share


class ExactMatch(Share[T]):
    """Items that equal one of their references, over items."""

    better = "higher"
    meaning = "of the items are exactly right"

    def counts(self, output: T, references: Sequence[T]) -> bool:
        return output in references

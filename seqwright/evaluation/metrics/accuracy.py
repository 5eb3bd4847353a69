"""Accuracy of labels."""

from __future__ import annotations

from seqwright.evaluation.metrics import T
from seqwright.evaluation.metrics.exact_match import ExactMatch


class Accuracy(ExactMatch[T]):
    """Items with the right label, over items."""

    meaning = "of the items have the right label"

"""The right reply among 10 candidates."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import Recall


class RecallAt1Of10(Recall):
    """The right reply is the first of 10 candidates (Lowe et al. 2015)."""

    within, candidates = 1, 10
    meaning = "of the right replies are ranked first of 10"

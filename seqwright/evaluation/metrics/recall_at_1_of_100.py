"""The right reply among 100 candidates."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import Recall


class RecallAt1Of100(Recall):
    """The right reply is the first of 100 candidates (Lowe et al. 2015)."""

    within, candidates = 1, 100
    meaning = "of the right replies are ranked first of 100"

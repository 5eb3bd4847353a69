"""The right reply among 10 candidates."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import Recall


class RecallAt5Of10(Recall):
    """The right reply is among the first 5 of 10 candidates (Lowe et al. 2015)."""

    within, candidates = 5, 10
    meaning = "of the right replies are among the first 5 of 10"

"""Different words in outputs."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import DistinctGrams


class Distinct1(DistinctGrams):
    """Different words over all of them (Li et al. 2016)."""

    size, label = 1, "distinct-1"
    meaning = "of the words in all outputs are different"

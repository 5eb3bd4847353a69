"""Different pairs of words in outputs."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import DistinctGrams


class Distinct2(DistinctGrams):
    """Different pairs of words over all of them (Li et al. 2016)."""

    size, label = 2, "distinct-2"
    meaning = "of the pairs of words in all outputs are different"

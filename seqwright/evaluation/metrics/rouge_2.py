"""ROUGE-2."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases.rouge import RougeGrams


class Rouge2(RougeGrams):
    """ROUGE-2: F-score of pairs of words (Lin 2004)."""

    size, label = 2, "ROUGE-2"
    meaning = "0 to 100: pairs of words shared with the references"

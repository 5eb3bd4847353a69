"""ROUGE-1."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases.rouge import RougeGrams


class Rouge1(RougeGrams):
    """ROUGE-1: F-score of single words (Lin 2004)."""

    size, label = 1, "ROUGE-1"
    meaning = "0 to 100: single words shared with the references"

"""ROUGE-L."""

from __future__ import annotations

from collections.abc import Sequence

from seqwright.evaluation.metrics.bases.rouge import Rouge


class RougeL(Rouge):
    """ROUGE-L: F-score of the longest common subsequence of words (Lin 2004, section 3)."""

    label = "ROUGE-L"
    meaning = "0 to 100: words in the order of the references, gaps allowed"

    def overlap(self, output: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        from rapidfuzz.distance import LCSseq

        return LCSseq.similarity(output, reference), len(output), len(reference)

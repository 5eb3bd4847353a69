"""chrF and chrF++."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import SacreMetric


class Chrf(SacreMetric):
    """chrF: F-score of character n-grams (Popović 2015); `words` = 2 makes it chrF++ (Popović 2017)."""

    better = "higher"
    label, unit, meaning = "chrF", "", "0 to 100: character n-grams shared with the references"

    def __init__(self, *, words: int = 0, lowercase: bool = False):
        from sacrebleu.metrics import CHRF

        super().__init__(CHRF(word_order=words, lowercase=lowercase))

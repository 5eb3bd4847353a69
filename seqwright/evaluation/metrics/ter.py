"""Translation edit rate."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases import SacreMetric


class Ter(SacreMetric):
    """TER: edits and shifts of phrases over reference words (Snover et al. 2006)."""

    better = "lower"
    label, meaning = "TER", "edits per 100 reference words"

    def __init__(self, *, normalized: bool = False, case_sensitive: bool = False):
        from sacrebleu.metrics import TER

        super().__init__(TER(normalized=normalized, case_sensitive=case_sensitive))

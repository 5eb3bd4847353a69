"""BLEU."""

from __future__ import annotations

from typing import Literal

from seqwright.evaluation.metrics.bases import SacreMetric


class Bleu(SacreMetric):
    """BLEU: precision of n-grams of one to four words, times a brevity penalty (Papineni et al. 2002).

    tokenize: how texts are split into words; none for texts that are tokenized with spaces already.
    """

    better = "higher"
    label, unit, meaning = "BLEU", "", "0 to 100: word n-grams shared with the references"

    def __init__(
        self, *, tokenize: Literal["13a", "none", "char", "intl", "zh"] = "13a", lowercase: bool = False
    ):
        from sacrebleu.metrics import BLEU

        super().__init__(BLEU(tokenize=tokenize, lowercase=lowercase, force=True))

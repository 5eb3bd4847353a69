"""BLEU of captions with n-grams of up to 3 words."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases.captions import CaptionBleu


class Bleu3(CaptionBleu):
    """BLEU-3 of captions."""

    order, label = 3, "BLEU-3"
    meaning = "0 to 100: n-grams of up to 3 words shared with the references"

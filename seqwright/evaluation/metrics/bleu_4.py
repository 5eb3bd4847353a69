"""BLEU of captions with n-grams of up to 4 words."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases.captions import CaptionBleu


class Bleu4(CaptionBleu):
    """BLEU-4 of captions."""

    order, label = 4, "BLEU-4"
    meaning = "0 to 100: n-grams of up to 4 words shared with the references"

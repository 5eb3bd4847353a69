"""BLEU of captions with n-grams of up to 2 words."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases.captions import CaptionBleu


class Bleu2(CaptionBleu):
    """BLEU-2 of captions."""

    order, label = 2, "BLEU-2"
    meaning = "0 to 100: n-grams of up to 2 words shared with the references"

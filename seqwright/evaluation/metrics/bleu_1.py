"""BLEU of captions with single words."""

from __future__ import annotations

from seqwright.evaluation.metrics.bases.captions import CaptionBleu


class Bleu1(CaptionBleu):
    """BLEU-1 of captions."""

    order, label = 1, "BLEU-1"
    meaning = "0 to 100: single words shared with the references"

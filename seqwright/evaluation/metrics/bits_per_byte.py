"""Bits per byte of a language model."""

from __future__ import annotations

import math

from seqwright.data.language_results import Surprise
from seqwright.evaluation.metrics.bases import Surprisal


class BitsPerByte(Surprisal):
    """The bits that a byte of text in UTF-8 costs; models with different tokenizers can be compared."""

    meaning = "is what a byte of UTF-8 costs"

    def count(self, output: Surprise) -> int:
        return len(output.text.encode("utf-8", "surrogatepass"))

    def scaled(self, nats: float) -> float:
        return nats / math.log(2)

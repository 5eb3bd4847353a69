"""Bits per character of a language model."""

from __future__ import annotations

import math

from seqwright.data.language_results import Surprise
from seqwright.evaluation.metrics.bases import Surprisal


class BitsPerCharacter(Surprisal):
    """The bits that a character of text costs; models with different tokenizers can be compared."""

    meaning = "is what a character costs"

    def count(self, output: Surprise) -> int:
        return len(output.text)

    def scaled(self, nats: float) -> float:
        return nats / math.log(2)

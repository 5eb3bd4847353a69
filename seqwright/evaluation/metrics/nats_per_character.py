"""Nats per character of a language model."""

from __future__ import annotations

from seqwright.data.language_results import Surprise
from seqwright.evaluation.metrics.bases import Surprisal


class NatsPerCharacter(Surprisal):
    """The nats that a character of text costs; models with different tokenizers can be compared."""

    meaning = "is what a character costs"

    def count(self, output: Surprise) -> int:
        return len(output.text)

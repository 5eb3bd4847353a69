"""The loss of a language model."""

from __future__ import annotations

from seqwright.data.language_results import Surprise
from seqwright.evaluation.metrics.bases import Surprisal


class Loss(Surprisal):
    """The mean negative log-probability of a token, in nats; it depends on the tokenizer."""

    label = "loss"
    unit = " nats"
    meaning = "is the mean surprise of a token"

    def count(self, output: Surprise) -> int:
        return output.tokens

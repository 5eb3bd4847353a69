"""The perplexity of a language model."""

from __future__ import annotations

import math

from seqwright.data.language_results import Surprise
from seqwright.evaluation.metrics.bases import Surprisal


class Perplexity(Surprisal):
    """The exponential of the loss: as uncertain as a uniform choice among that many tokens."""

    meaning = "tokens are as likely as the right one"

    def count(self, output: Surprise) -> int:
        return output.tokens

    def scaled(self, nats: float) -> float:
        return math.exp(min(nats, 700.0))

"""An encoder with a head: classification, tagging, numbers, filling blanks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from seqwright.errors import ConfigError
from seqwright.models import ENCODERS, HEADS, Model
from seqwright.nn.attention import Spec
from seqwright.nn.loss import Loss


class EncoderOnly(Model):
    """p(expected | source): an encoder reads `batch.source`, a head predicts `batch.expected`.

    facts: properties of the data (vocabulary, classes, values …), for the parts that ask for them.
    tie: the weight of the head `tokens` is the encoder's embedding.
    """

    def __init__(
        self,
        *,
        facts: Mapping[str, Any],
        encoder: Spec = "transformer",
        head: Spec = "classes",
        tie: bool = False,
    ):
        super().__init__()
        self.encoder = ENCODERS.build(encoder, **facts)
        tied = {"weight": self.encoder.embedding.weight} if tie else {}
        self.head = HEADS.build(head, **facts, **tied, input_size=self.encoder.size)
        if tie and self.encoder.embedding.weight is not getattr(self.head, "weight", None):
            raise ConfigError("tie is for the head tokens; set tie = false")

    def forward(self, batch: Any) -> Tensor:
        return self.predictions(batch.source)

    def predictions(self, source: Any) -> Tensor:
        """Return the output of the head for inputs without anything expected."""
        encoded = self.encoder(source)
        return self.head(encoded.hidden, encoded.places)

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        encoded = self.encoder(batch.source)
        return self.head.loss(encoded.hidden, batch.expected, encoded.places, smoothing=smoothing)

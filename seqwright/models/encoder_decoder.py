"""Any encoder with any decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from seqwright.data.batch import PAD, Batch
from seqwright.errors import ConfigError
from seqwright.models import DECODERS, ENCODERS, Model
from seqwright.nn.output import Loss, Output

Spec = str | Mapping[str, Any]


class EncoderDecoder(Model):
    """p(target | source), token by token.

    share: source and target have one vocabulary and one embedding. tie: the output layer is the target's
    embedding.
    """

    def __init__(
        self,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        encoder: Spec = "transformer",
        decoder: Spec = "transformer",
        share: bool = False,
        tie: bool = True,
        output_bias: bool = False,
    ):
        super().__init__()
        self.encoder = ENCODERS.build(encoder, vocabulary=source_vocabulary)
        self.decoder = DECODERS.build(decoder, vocabulary=target_vocabulary, memory_size=self.encoder.size)
        if share:
            self._share()
        size = self.decoder.size
        if tie and self.decoder.embedding.size != size:
            raise ConfigError(
                f"tie needs a target embedding of the decoder's output size {size}, "
                f"not {self.decoder.embedding.size}; make them equal or set tie = false"
            )
        weight = self.decoder.embedding.weight if tie else None
        self.output = Output(size, target_vocabulary, weight=weight, bias=output_bias)

    def _share(self) -> None:
        shapes = [(part.embedding.vocabulary, part.embedding.size) for part in (self.encoder, self.decoder)]
        if shapes[0] != shapes[1]:
            one, other = (f"{vocabulary} × {size}" for vocabulary, size in shapes)
            raise ConfigError(
                f"share needs embeddings of one shape, but the source has {one} and the target "
                f"{other}; make them equal or set share = false"
            )
        self.encoder.embedding = self.decoder.embedding

    def hidden(self, batch: Batch) -> Tensor:
        """What the output layer reads (B, T, D). The whole target is decoded from an empty state."""
        hidden, _ = self.decoder(batch.target.ids, self.start(batch.source))
        return hidden

    def forward(self, batch: Batch) -> Tensor:
        return self.output(self.hidden(batch))

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        return self.output.loss(self.hidden(batch), batch.expected, ignore=PAD, smoothing=smoothing)

    def start(self, source: Any) -> Any:
        return self.decoder.start(self.encoder(source))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden[:, -1]), state

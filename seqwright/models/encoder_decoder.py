"""Any encoder with any decoder."""

from __future__ import annotations

from typing import Any

from seqwright.errors import ConfigError
from seqwright.models import DECODERS, ENCODERS, DecoderModel
from seqwright.models.heads.tokens import TokenScores
from seqwright.nn.attention import Spec


class EncoderDecoder(DecoderModel):
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
        self.output = TokenScores.after(self.decoder, tie=tie, bias=output_bias)

    def _share(self) -> None:
        shapes = [(part.embedding.vocabulary, part.embedding.size) for part in (self.encoder, self.decoder)]
        if shapes[0] != shapes[1]:
            one, other = (f"{vocabulary} × {size}" for vocabulary, size in shapes)
            raise ConfigError(
                f"share needs embeddings of one shape, but the source has {one} and the target "
                f"{other}; make them equal or set share = false"
            )
        self.encoder.embedding = self.decoder.embedding

    def start(self, source: Any) -> Any:
        return self.decoder.start(self.encoder(source))

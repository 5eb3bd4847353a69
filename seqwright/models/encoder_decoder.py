"""Any encoder with any decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqwright.config.validation import Positive
from seqwright.data.batch import Tokens
from seqwright.errors import ConfigError
from seqwright.models import DECODERS, ENCODERS, DecoderModel
from seqwright.models.heads.tokens import TokenScores
from seqwright.nn.attention import Spec


class EncoderDecoder(DecoderModel):
    """p(target | source), token by token.

    facts: properties of the data for the encoder, such as the size of images. share: source and target have
    one embedding. tie: the output layer is the target's embedding. logit_cap: no score of a symbol is larger.
    """

    def __init__(
        self,
        *,
        target_vocabulary: int,
        source_vocabulary: int = 0,
        facts: Mapping[str, Any],
        encoder: Spec = "transformer",
        decoder: Spec = "transformer",
        share: bool = False,
        tie: bool = True,
        output_bias: bool = False,
        logit_cap: Positive | None = None,
    ):
        super().__init__()
        self.encoder = ENCODERS.build(encoder, **{**facts, "vocabulary": source_vocabulary})
        self.decoder = DECODERS.build(decoder, vocabulary=target_vocabulary, memory_size=self.encoder.size)
        if share and self.encoder.reads is not Tokens:
            raise ConfigError("share is for two texts, but this encoder reads no text; set share = false")
        if share:
            one, other = ("×".join(map(str, p.embedding.weight.shape)) for p in (self.encoder, self.decoder))
            if one != other:
                needs = f"share needs embeddings of one shape, not {one} (source) and {other} (target)"
                raise ConfigError(f"{needs}; make them equal or set share = false")
            self.encoder.embedding = self.decoder.embedding
        self.output = TokenScores.after(self.decoder, tie=tie, bias=output_bias, cap=logit_cap)

    def start(self, source: Any) -> Any:
        return self.decoder.start(self.encoder(source))

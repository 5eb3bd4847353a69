"""A decoder without an encoder: a language model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqwright.config.validation import Positive
from seqwright.data.batch import Tokens
from seqwright.models import DECODERS, DecoderModel
from seqwright.models.heads.tokens import TokenScores
from seqwright.nn.attention import Spec


class DecoderOnly(DecoderModel):
    """p(target), token by token, or p(target | source) after the source as a prompt (Radford et al. 2018).

    tie: the output layer is the embedding. logit_cap: no score of a symbol is larger.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        decoder: Spec = "transformer",
        tie: bool = True,
        output_bias: bool = False,
        logit_cap: Positive | None = None,
    ):
        super().__init__()
        self.decoder = DECODERS.build(decoder, vocabulary=vocabulary, memory_size=None)
        self.output = TokenScores.after(self.decoder, tie=tie, bias=output_bias, cap=logit_cap)

    def hidden(self, batch: Any) -> Tensor:
        source = len(batch.target.ids) if batch.source is None else batch.source
        return self.decoder(batch.target.ids, self.start(source))[0]

    def start(self, source: int | Tokens) -> Any:
        """Return the state before the first token: for a number of rows, or after reading prompts."""
        if isinstance(source, int):
            return self.decoder.start(None, source)
        ids, count = source.ids, source.ids.shape[1]
        state = self.decoder.start(None, len(ids))
        if source.lengths is None:
            return self.decoder(ids, state)[1]
        order = torch.arange(count, device=ids.device) - (count - source.lengths[:, None])  # padded left
        return self.decoder(ids.gather(1, order % count), state, order >= 0)[1]

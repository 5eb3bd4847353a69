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
        """Return the input of the output layer for the target (B, T, D), which follows the source, if any."""
        target, source = batch.target.ids, batch.source
        rows, count = target.shape
        state = self.decoder.start(None, rows)
        if source is None:
            return self.decoder(target, state)[0]
        # one sequence, padded at its end, is cheaper than two calls: nothing needs a mask
        room = source.ids.shape[1]
        lengths = target.new_full((rows, 1), room) if source.lengths is None else source.lengths[:, None]
        order = torch.arange(room + count, device=target.device).expand(rows, -1)
        after = (order - lengths).clamp(0, count - 1)
        ids = torch.where(
            order < lengths, source.ids.gather(1, order.clamp(max=room - 1)), target.gather(1, after)
        )
        hidden, _ = self.decoder(ids, state)
        places = lengths + torch.arange(count, device=target.device)  # (B, T)
        return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))

    def start(self, source: int | Tokens) -> Any:
        """Return the state before the first token: for a number of rows, or after reading prompts."""
        if isinstance(source, int):
            return self.decoder.start(None, source)
        return self.decoder(source.ids, self.decoder.start(None, len(source.ids)), source.real)[1]

"""A decoder without an encoder: a language model."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from annotated_types import Ge
from torch import Tensor

from seqwright.config.validation import Positive
from seqwright.data.batch import PAD, Tokens
from seqwright.models import DECODERS, DecoderModel
from seqwright.models.heads.tokens import TokenScores
from seqwright.nn.attention import Spec
from seqwright.nn.loss import Loss, add_to_objective


class DecoderOnly(DecoderModel):
    """p(target), token by token, or p(target | source) after the source as a prompt (Radford et al. 2018).

    tie: the output layer is the embedding. logit_cap: no score of a symbol is larger.
    source_loss: the weight of the loss of the source tokens in training (Liu et al. 2018 train on the whole
    sequence, with a weight of 1); reported losses are those of the target alone.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        decoder: Spec = "transformer",
        tie: bool = True,
        output_bias: bool = False,
        logit_cap: Positive | None = None,
        source_loss: Annotated[float, Ge(0)] = 0.0,
    ):
        super().__init__()
        self.source_loss = source_loss
        self.decoder = DECODERS.build(decoder, vocabulary=vocabulary, memory_size=None)
        self.output = TokenScores.after(self.decoder, tie=tie, bias=output_bias, cap=logit_cap)

    def hidden(self, batch: Any) -> Tensor:
        """Return the input of the output layer for the target (B, T, D), which follows the source, if any."""
        if batch.source is None:
            target = batch.target
            return self.decoder(target.ids, self.start(len(target.ids)), self.marked(target))[0]
        read, lengths = joined(batch)
        return _of_target(self._whole(read), lengths, batch)

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        if batch.source is None or not (self.training and self.source_loss):
            return super().loss(batch, smoothing=smoothing)
        read, lengths = joined(batch)
        hidden = self._whole(read)
        places = torch.arange(1, read.ids.shape[1], device=read.ids.device)
        source = read.ids[:, 1:].masked_fill(places >= lengths, PAD)
        of_source = self.output.loss(hidden[:, :-1], source, smoothing=smoothing)
        add_to_objective(self.source_loss * of_source.total)
        return self.output.loss(_of_target(hidden, lengths, batch), batch.expected, smoothing=smoothing)

    def _whole(self, read: Tokens) -> Tensor:
        """Return the vectors of sources with their targets behind them, (B, S + T, D)."""
        return self.decoder(read.ids, self.start(len(read.ids)), self.marked(read))[0]

    def start(self, source: int | Tokens) -> Any:
        """Return the state before the first token: for a number of rows, or after reading prompts."""
        if isinstance(source, int):
            return self.decoder.start(None, source)
        return self.decoder(source.ids, self.decoder.start(None, len(source.ids)), source.real)[1]


def joined(batch: Any) -> tuple[Tokens, Tensor]:
    """Return sources with their targets behind them (B, S + T), and the lengths of the sources (B, 1).

    One sequence, padded at its end, is cheaper than two calls: nothing needs a mask.
    """
    target, source = batch.target.ids, batch.source
    rows, count = target.shape
    room = source.ids.shape[1]
    lengths = target.new_full((rows, 1), room) if source.lengths is None else source.lengths[:, None]
    order = torch.arange(room + count, device=target.device).expand(rows, -1)
    of_source = source.ids.gather(1, order.clamp(max=room - 1))
    of_target = target.gather(1, (order - lengths).clamp(0, count - 1))
    ends = lengths[:, 0] + (count if batch.target.lengths is None else batch.target.lengths)
    return Tokens(torch.where(order < lengths, of_source, of_target), ends), lengths


def _of_target(hidden: Tensor, lengths: Tensor, batch: Any) -> Tensor:
    """Return the vectors of the targets (B, T, D) of sequences that begin with sources of these lengths."""
    count = batch.target.ids.shape[1]
    places = lengths + torch.arange(count, device=hidden.device)  # (B, T)
    return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))

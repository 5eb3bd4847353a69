"""An encoder with a decoder that can copy tokens of the source (See et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.data.batch import PAD, Tokens
from seqwright.errors import ConfigError
from seqwright.models import same_width
from seqwright.models.encoder_decoder import EncoderDecoder
from seqwright.nn.attention import Attention
from seqwright.nn.kv_cache import Keys, join_keys, select_keys
from seqwright.nn.loss import Loss
from seqwright.nn.masks import AttentionContext, Places, regroup, take


@dataclass(frozen=True, eq=False)
class PointerState:
    """The state of the decoder and, for groups of `width` rows, the source: its keys and ids (groups, S)."""

    decoder: Any
    keys: Keys
    ids: Tensor
    width: int = 1

    @property
    def groups(self) -> int:
        return len(self.ids)

    def select(self, rows: Sequence[int]) -> PointerState:
        groups, width = regroup(rows, self.width, self.groups)
        (keys,) = select_keys([self.keys], groups, rows, width)
        assert keys is not None
        return PointerState(self.decoder.select(rows), keys, take(self.ids, groups), width)

    def join(self, others: Sequence[PointerState]) -> PointerState:
        decoder = self.decoder.join([other.decoder for other in others])
        states = same_width([self, *others])
        groups, width = [state.groups for state in states], states[0].width
        joined = join_keys([[state.keys] for state in states], groups, width)
        assert joined is not None  # each state has keys
        longest = max(state.ids.shape[1] for state in states)
        ids = torch.cat([F.pad(state.ids, (longest - state.ids.shape[1], 0), value=PAD) for state in states])
        return PointerState(decoder, joined[0], ids[:, longest - joined[0].count :], width)

    def spread(self) -> PointerState:
        """Each row of the source in a group of its own; the decoder keeps its groups."""
        rows = range(self.groups * self.width)
        groups = [row // self.width for row in rows]
        (keys,) = select_keys([self.keys], groups, rows, 1)
        assert keys is not None
        return PointerState(self.decoder, keys, take(self.ids, groups))


@dataclass(frozen=True)
class Mixture:
    """The parts of p(w) = g · p_V(w) + (1 − g) · Σ_{i: x_i = w} α_i after each of T tokens of R rows.

    generated (R, T, V): log of the first term. weights (R, T, S): (1 − g) · α. ids (R, S): the source x.
    """

    generated: Tensor
    weights: Tensor
    ids: Tensor

    def log_probs(self) -> Tensor:
        """log p of all symbols (R, T, V)."""
        index = self.ids[:, None].expand_as(self.weights)
        return _log_sum(self.generated, torch.zeros_like(self.generated).scatter_add(2, index, self.weights))

    def of(self, tokens: Tensor) -> Tensor:
        """log p of one token after each: (R, T) -> (R, T)."""
        copied = (self.weights * (self.ids[:, None] == tokens[..., None])).sum(-1)
        return _log_sum(self.generated.gather(2, tokens[..., None])[..., 0], copied)

    def total(self) -> Tensor:
        """Σ_w log p(w), (R, T), without a second matrix of all symbols: those of the source are replaced."""
        same = self.ids[:, :, None] == self.ids[:, None, :]  # (R, S, S)
        copied = self.weights @ same.to(self.weights.dtype)  # of the symbol at each place
        generated = self.generated.gather(2, self.ids[:, None].expand_as(self.weights))
        gained = (_log_sum(generated, copied) - generated) / same.sum(1)[:, None]
        return self.generated.sum(-1) + gained.sum(-1)


class PointerGenerator(EncoderDecoder):
    """p(target | source), token by token, from the vocabulary and from the source (See et al. 2017, eq. 8 to
    10). One attention over the source, with the output of the decoder as its query, points at the tokens to
    copy. g = σ(w · [output; context] + b) is the probability that a token comes from the vocabulary.

    Source and target share one tokenizer. The other options are those of a model with encoder and decoder.
    """

    passes_to = EncoderDecoder

    def __init__(self, *, source_vocabulary: int, target_vocabulary: int, **base: Any):
        if source_vocabulary != target_vocabulary:
            sizes = f"{source_vocabulary:,} and {target_vocabulary:,}"
            rule = f"a pointer_generator copies ids, but source and target have vocabularies of {sizes}"
            raise ConfigError(f"{rule}; set tokenizer.joint = true")
        super().__init__(source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, **base)
        if self.encoder.reads is not Tokens:
            raise ConfigError("a pointer_generator copies tokens, but its encoder reads none; use another")
        size, memory = self.decoder.size, self.encoder.size
        self.pointer = Attention(size, memory, projections="qk")
        self.gate = nn.Linear(size + memory, 1)

    def start(self, source: Tokens) -> PointerState:
        encoded = self.encoder(source)
        keys = self.pointer.keys(encoded.hidden, encoded.places)
        return PointerState(self.decoder.start(encoded), keys, source.ids)

    def step(self, tokens: Tensor, state: PointerState) -> tuple[Tensor, PointerState]:
        hidden, after = self._decoded(tokens, state)
        return self._mixture(hidden[:, -1:], after).log_probs()[:, 0], after

    def prefill(self, tokens: Tensor, state: PointerState) -> tuple[Tensor, PointerState]:
        hidden, after = self._decoded(tokens[:, :-1], state)
        return self._mixture(hidden, after).of(tokens[:, 1:]), after

    def hidden(self, batch: Any) -> Tensor:
        return self._of_target(batch)[0]

    def forward(self, batch: Any) -> Tensor:
        return self._of_batch(batch).log_probs()

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        """Cross-entropy with label smoothing over the mixture, summed over all that is not `PAD`."""
        mixture, real = self._of_batch(batch), batch.expected != PAD
        total = -(1 - smoothing) * mixture.of(batch.expected)[real].sum()
        if smoothing:
            total = total - smoothing / mixture.generated.shape[-1] * mixture.total()[real].sum()
        return Loss(total, int(real.sum()))

    def copied(self, batch: Any) -> Tensor:
        """Return the probability of copying each token of the source at each step (B, T, S)."""
        return self._of_batch(batch).weights

    def _of_batch(self, batch: Any) -> Mixture:
        return self._mixture(*self._of_target(batch))

    def _of_target(self, batch: Any) -> tuple[Tensor, PointerState]:
        return self._decoded(batch.target.ids, self.start(batch.source), self.marked(batch.target))

    def _decoded(
        self, tokens: Tensor, state: PointerState, real: Tensor | None = None
    ) -> tuple[Tensor, PointerState]:
        hidden, after = self.decoder(tokens, state.decoder, real)
        return hidden, PointerState(after, state.keys, state.ids, state.width)

    def _mixture(self, hidden: Tensor, state: PointerState) -> Mixture:
        """hidden (R, T, D): the output of the decoder."""
        rows, count, _ = hidden.shape
        folded = hidden.reshape(state.groups, state.width * count, -1)
        context = AttentionContext(Places.run(0, count, width=state.width, device=hidden.device), state.width)
        weights = self.pointer.weights(folded, context, state.keys)  # (G, 1, width · T, S)
        seen = (weights @ state.keys.v).view(rows, count, -1)
        gate = self.gate(torch.cat([hidden, seen], -1))  # (R, T, 1)
        generated = self.output(hidden).log_softmax(-1) + F.logsigmoid(gate)
        copied = weights.reshape(rows, count, -1) * torch.sigmoid(-gate)
        return Mixture(generated, copied.to(generated.dtype), state.ids.repeat_interleave(state.width, 0))


def _log_sum(generated: Tensor, copied: Tensor) -> Tensor:
    """log(e^generated + copied), with the gradient of `generated` where nothing is copied."""
    both = torch.logaddexp(generated, copied.clamp(min=torch.finfo(copied.dtype).tiny).log())
    return torch.where(copied > 0, both, generated)

"""Several models that train side by side and predict as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.data.batch import PAD, Batch
from seqwright.models import Generative, Model
from seqwright.models.encoder_decoder import EncoderDecoder
from seqwright.nn.loss import ROWS, Loss


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members. Row by row they hold the same hypotheses."""

    members: tuple[Any, ...]

    def select(self, rows: Sequence[int]) -> EnsembleState:
        return EnsembleState(tuple(member.select(rows) for member in self.members))

    def join(self, others: Sequence[EnsembleState]) -> EnsembleState:
        rest = [[other.members[number] for other in others] for number in range(len(self.members))]
        return EnsembleState(tuple(map(lambda own, more: own.join(more), self.members, rest)))


class Ensemble(Generative):
    """p = 1/M Σ_m p_m, token by token, of M models of one description (Hansen & Salamon 1990).

    The members start with different weights, read the same batches with their own dropout, and each learns by
    its own loss, so that their errors differ. Gradients are clipped together, and a step is skipped for all
    of them where a gradient is not finite. The other options are those of a member.

    members: the number of models.
    """

    passes_to = EncoderDecoder

    def __init__(self, *, source_vocabulary: int, target_vocabulary: int, members: Count = 2, **member: Any):
        super().__init__()
        self.members: Sequence[EncoderDecoder] = nn.ModuleList(  # type: ignore[assignment]
            EncoderDecoder(source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, **member)
            for _ in range(members)
        )

    def learners(self, count: int) -> list[Ensemble]:
        """Return `count` ensembles of equally many members, or this one if that is impossible."""
        if len(self.members) % count:
            return [self]
        parts = [Ensemble.__new__(Ensemble) for _ in range(count)]
        for number, part in enumerate(parts):
            Model.__init__(part)
            part.members = self.members[number::count]  # they stay members of this one, too
        return parts

    def forward(self, batch: Batch) -> Tensor:
        return mixture([member(batch).log_softmax(-1) for member in self.members])

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        """Return the sum of the members' losses in training, otherwise the loss of their joint prediction."""
        if self.training:
            losses = [member.loss(batch, smoothing=smoothing) for member in self.members]
            total = torch.stack([loss.total for loss in losses]).sum()
            extras = [loss.extra for loss in losses if loss.extra is not None]
            extra = torch.stack(extras).sum() if extras else None
            return Loss(total, sum(loss.count for loss in losses), extra)
        real = batch.expected != PAD
        expected, hidden = batch.expected[real], [member.hidden(batch)[real] for member in self.members]
        total = hidden[0].new_zeros(())
        for start in range(0, len(expected), ROWS):
            rows = slice(start, start + ROWS)
            inputs = zip(self.members, hidden, strict=True)
            joint = mixture([member.output(own[rows]).log_softmax(-1) for member, own in inputs])  # (n, V)
            total = total + F.cross_entropy(joint, expected[rows], label_smoothing=smoothing, reduction="sum")
        return Loss(total, len(expected))

    def start(self, source: Any) -> EnsembleState:
        return EnsembleState(tuple(member.start(source) for member in self.members))

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        logits, after = self._each(lambda member, own: member.step(tokens, own), state)
        return mixture([scores.log_softmax(-1) for scores in logits]), after

    def prefill(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        log_probs, after = self._each(lambda member, own: member.prefill(tokens, own), state)
        return mixture(log_probs), after

    def _each(
        self, call: Callable[[EncoderDecoder, Any], tuple[Tensor, Any]], state: EnsembleState
    ) -> tuple[list[Tensor], EnsembleState]:
        outputs = [call(member, own) for member, own in zip(self.members, state.members, strict=True)]
        return [output for output, _ in outputs], EnsembleState(tuple(after for _, after in outputs))


def mixture(log_probs: Sequence[Tensor]) -> Tensor:
    """log of the mean of p_m, from each log p_m: one member that is sure is enough."""
    return reduce(torch.logaddexp, log_probs) - math.log(len(log_probs))

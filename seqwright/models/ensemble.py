"""Models that learn side by side and speak with one voice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.data.batch import PAD, Batch
from seqwright.models import Model
from seqwright.models.encoder_decoder import EncoderDecoder
from seqwright.nn.output import ROWS, Loss
from seqwright.nn.voices import EnsembleState, mixture


class Ensemble(Model):
    """p = 1/M Σ_m p_m, token by token, of M models of one description (Hansen & Salamon 1990).

    They begin with other weights, read the same batches under dropout of their own, and learn each by its own
    loss: much of what one gets wrong by chance the others get right. Gradients are clipped, and skipped where
    they are not finite, all together. The other options are those of a member.

    members: how many models.
    """

    passes_to = EncoderDecoder

    def __init__(self, *, source_vocabulary: int, target_vocabulary: int, members: Count = 2, **member: Any):
        super().__init__()
        self.members = nn.ModuleList(
            EncoderDecoder(source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, **member)
            for _ in range(members)
        )

    @property
    def voices(self) -> list[EncoderDecoder]:
        """The members, as what they are."""
        return list(self.members)  # type: ignore[arg-type]

    def learners(self, count: int) -> list[Ensemble]:
        """Some members each, where all can have equally many."""
        if len(self.members) % count:
            return [self]
        return [self._of(self.members[number::count]) for number in range(count)]

    def _of(self, members: Iterable[nn.Module]) -> Ensemble:
        """An ensemble of these; they stay members of this one, too."""
        fewer = Ensemble.__new__(Ensemble)
        Model.__init__(fewer)
        fewer.members = nn.ModuleList(members)
        return fewer

    def forward(self, batch: Batch) -> Tensor:
        return mixture([member(batch).log_softmax(-1) for member in self.voices])

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        """In training the members' own losses, over the tokens of each; otherwise that of what they say."""
        if self.training:
            losses = [member.loss(batch, smoothing=smoothing) for member in self.voices]
            total = torch.stack([loss.total for loss in losses]).sum()
            extras = [loss.extra for loss in losses if loss.extra is not None]
            extra = torch.stack(extras).sum() if extras else None
            return Loss(total, sum(loss.count for loss in losses), extra)
        real = batch.expected != PAD
        expected, hidden = batch.expected[real], [member.hidden(batch)[real] for member in self.voices]
        total = hidden[0].new_zeros(())
        for start in range(0, len(expected), ROWS):
            rows = slice(start, start + ROWS)
            spoken = zip(self.voices, hidden, strict=True)
            said = mixture([member.output(own[rows]).log_softmax(-1) for member, own in spoken])  # (n, V)
            total = total + F.cross_entropy(said, expected[rows], label_smoothing=smoothing, reduction="sum")
        return Loss(total, len(expected))

    def start(self, source: Any) -> EnsembleState:
        return EnsembleState(tuple(member.start(source) for member in self.voices))

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        asked = zip(self.voices, state.members, strict=True)
        answers = [member.step(tokens, own) for member, own in asked]
        joint = mixture([logits.log_softmax(-1) for logits, _ in answers])
        return joint, EnsembleState(tuple(after for _, after in answers))

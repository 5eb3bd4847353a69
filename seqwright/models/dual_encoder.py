"""Two texts that belong together get vectors that are near: retrieval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.data.batch import Batch, Tokens
from seqwright.models import ENCODERS, Model
from seqwright.nn.attention import Spec
from seqwright.nn.loss import Loss
from seqwright.nn.pooling import POOLINGS

SCALE = 14.0  # of the cosine at the start, about 1 / 0.07 (Radford et al. 2021, 2.4)


class DualEncoder(Model):
    """score(source, target) = scale · cos(W pool(f(source)), V pool(g(target))), trained to rank the right
    target above those of the other rows of a batch (Henderson et al. 2017, section 4).

    share: one encoder reads both sides. pooling: how the vectors of a text become one. output_size: of the
    vectors that are compared.
    """

    def __init__(
        self,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        encoder: Spec = "transformer",
        pooling: Spec = "mean",
        output_size: Count = 128,
        share: bool = True,
    ):
        super().__init__()
        self.encoder = ENCODERS.build(encoder, vocabulary=source_vocabulary)
        self.target_encoder = None if share else ENCODERS.build(encoder, vocabulary=target_vocabulary)
        self.pooling, self.target_pooling = (
            POOLINGS.build(pooling, size=self.encoder.size) for _ in range(2)
        )
        self.project, self.target_project = (
            nn.Linear(self.encoder.size, output_size, bias=False) for _ in range(2)
        )
        self.log_scale = nn.Parameter(torch.tensor(math.log(SCALE)))

    @property
    def scale(self) -> Tensor:
        return self.log_scale.exp()

    def source_vectors(self, source: Any) -> Tensor:
        """Return vectors of length 1 (B, output size)."""
        encoded = self.encoder(source)
        return F.normalize(self.project(self.pooling(encoded.hidden, encoded.places)), dim=-1)

    def target_vectors(self, target: Tokens) -> Tensor:
        encoder = self.encoder if self.target_encoder is None else self.target_encoder
        encoded = encoder(target)
        return F.normalize(self.target_project(self.target_pooling(encoded.hidden, encoded.places)), dim=-1)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Batch:
        """Return a random batch for tests, as `Encoder.sample` does."""
        target = self.encoder.sample(lengths, [seed + 1 for seed in seeds])
        return Batch(self.encoder.sample(lengths, seeds), target, target.ids, np.arange(len(seeds)))

    def forward(self, batch: Any) -> Tensor:
        """The score of each source with each target, (B, B)."""
        sources, targets = self.source_vectors(batch.source), self.target_vectors(batch.target)
        return self.scale * sources @ targets.T

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        """The cross-entropy of the right target among all of the batch; equal targets are not wrong ones."""
        scores = self(batch)
        same = (batch.expected[:, None] == batch.expected[None]).all(-1)  # (B, B)
        same.fill_diagonal_(False)
        scores = scores.masked_fill(same, torch.finfo(scores.dtype).min)
        right = torch.arange(len(scores), device=scores.device)
        return Loss(F.cross_entropy(scores, right, reduction="sum"), len(scores))

"""Hugging Face Marian (post-norm: two norms fewer than the others) in a plain loop, with the label smoothing
of its Trainer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bench.decoding import marian
from bench.peers.driving import looped
from bench.peers.pairs import Pairs
from bench.shapes import SHAPES
from bench.training import SMOOTHING
from seqwright.data.batch import PAD, Batch


def train(ids: str, shape: str, batches: str, seconds: float) -> Iterator[Any]:
    """Train on our batches, as it has no batches by tokens."""
    from transformers.trainer_pt_utils import LabelSmoother

    model = marian(SHAPES[shape], dropout=SHAPES[shape].dropout)
    smoothed = LabelSmoother(epsilon=SMOOTHING, ignore_index=PAD)

    def loss(batch: Batch) -> Tensor:
        real = batch.source.real
        mask = torch.ones_like(batch.source.ids) if real is None else real.long()
        output = model(input_ids=batch.source.ids, attention_mask=mask, decoder_input_ids=batch.target.ids)
        return smoothed(output, batch.expected)

    yield from looped(model, loss, Pairs.load(ids), shape, seconds)

"""Seqwright, with dropout everywhere that torch.nn.Transformer has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from bench.peers.driving import looped
from bench.peers.pairs import Pairs
from bench.shapes import SHAPES
from bench.training import SMOOTHING, our_model
from seqwright.runtime import freeze_objects, keep_freed_memory


def train(ids: str, shape: str, batches: str, seconds: float) -> Iterator[Any]:
    """Train on its own batches, whatever `batches` is."""
    keep_freed_memory()
    torch.manual_seed(1)
    model = our_model(SHAPES[shape])
    pairs = Pairs.load(ids)
    freeze_objects()
    yield from looped(model, lambda batch: model.loss(batch, smoothing=SMOOTHING).mean, pairs, shape, seconds)

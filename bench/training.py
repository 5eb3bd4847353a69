"""Contenders for training speed: Seqwright, an equal torch.nn.Transformer, and Hugging Face Marian."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.shapes import SHAPES, Shape, sentences, taking, training_batches
from seqwright.data.batch import PAD, Batch

BATCHES = 24
SMOOTHING = 0.1
EARLIER = {"position": "sinusoidal", "zero_start": False}  # the Transformer of 2017, which all toolkits have
CURRENT = {"position": "rotary", "zero_start": True}  # that of our presets


def our_model(shape: Shape, **options: Any) -> nn.Module:
    """A Transformer of 2017 with dropout everywhere that torch.nn.Transformer has it."""
    from seqwright.models.building import build_model

    description = {
        "preset": "base",
        "layers": shape.layers,
        "size": shape.size,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "dropout": shape.dropout,
        "attention_dropout": shape.dropout,
        "activation_dropout": shape.dropout,
        **EARLIER,
        **options,
    }
    return build_model(description, source_vocabulary=shape.vocabulary, target_vocabulary=shape.vocabulary)


def ours(
    shape: str, data: str | None, seconds: float, keep_memory: bool = True, **options: Any
) -> Iterator[Any]:
    from seqwright.runtime import freeze_objects, keep_freed_memory

    if keep_memory:
        keep_freed_memory()
    model = our_model(SHAPES[shape], **options)
    batches = training_batches(sentences(data, SHAPES[shape].vocabulary), SHAPES[shape].tokens, BATCHES)
    freeze_objects()
    yield from rounds(model, lambda batch: model.loss(batch, smoothing=SMOOTHING).mean, batches, seconds)


def ours_in_processes(shape: str, data: str | None, seconds: float) -> Iterator[Any]:
    """Each batch in two micro-batches for two processes of one thread each, as the recipes do."""
    from seqwright.runtime import freeze_objects, keep_freed_memory
    from seqwright.training.workers import LossSum, MicroBatch, Workers, micro_batches

    keep_freed_memory()
    torch.set_num_threads(1)
    model = our_model(SHAPES[shape]).train()
    pairs = sentences(data, SHAPES[shape].vocabulary)
    batches = training_batches(pairs, SHAPES[shape].tokens, BATCHES)
    take = taking(pairs)

    def compute(part: MicroBatch) -> LossSum:
        batch = take(np.asarray(part.numbers))
        loss = model.loss(batch, smoothing=SMOOTHING).total
        loss.backward()
        return LossSum(loss.item(), batch.count, batch.tokens)

    freeze_objects()
    with Workers(model, compute, children=1) as workers:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def step(batch: Batch) -> None:
            optimizer.zero_grad()
            workers.mean_gradient(micro_batches(batch.index, 2, 0, (0,)), 1.0)
            optimizer.step()

        yield from timed(step, batches, seconds)


def torch_transformer(
    shape: str, data: str | None, seconds: float, keep_memory: bool = False
) -> Iterator[Any]:
    from seqwright.runtime import keep_freed_memory

    if keep_memory:
        keep_freed_memory()
    model = TorchTransformer(SHAPES[shape])
    batches = training_batches(sentences(data, SHAPES[shape].vocabulary), SHAPES[shape].tokens, BATCHES)

    def loss(batch: Batch) -> Tensor:
        scores = model(batch).flatten(0, 1)
        return F.cross_entropy(scores, batch.expected.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)

    yield from rounds(model, loss, batches, seconds)


def hugging_face(shape: str, data: str | None, seconds: float) -> Iterator[Any]:
    """A Marian model of the same shape on our batches; its own collator would pad more."""
    from bench.decoding import marian

    wanted = SHAPES[shape]
    model = marian(wanted, dropout=wanted.dropout)
    batches = training_batches(sentences(data, wanted.vocabulary), wanted.tokens, BATCHES)

    def loss(batch: Batch) -> Tensor:
        real = batch.source.real
        mask = torch.ones_like(batch.source.ids) if real is None else real.long()
        scores = model(
            input_ids=batch.source.ids, attention_mask=mask, decoder_input_ids=batch.target.ids
        ).logits.flatten(0, 1)
        return F.cross_entropy(scores, batch.expected.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)

    yield from rounds(model, loss, batches, seconds)


class TorchTransformer(nn.Module):
    """The same model, built from torch.nn.Transformer."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.size)
        nn.init.normal_(self.embedding.weight, std=shape.size**-0.5)
        self.transformer = nn.Transformer(
            d_model=shape.size,
            nhead=shape.heads,
            num_encoder_layers=shape.layers,
            num_decoder_layers=shape.layers,
            dim_feedforward=shape.hidden,
            dropout=shape.dropout,
            batch_first=True,
            norm_first=True,
        )
        self.rate = shape.dropout
        even = torch.arange(0, shape.size, 2)
        angles = torch.arange(512)[:, None] * 10000.0 ** (-even / shape.size)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return F.dropout(x + self.positions[: ids.shape[1]], self.rate, self.training)

    def forward(self, batch: Batch) -> Tensor:
        padding = None if batch.source.real is None else ~batch.source.real
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target.ids.shape[1])
        hidden = self.transformer(
            self.embed(batch.source.ids),
            self.embed(batch.target.ids),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)


def rounds(
    model: nn.Module, loss: Callable[[Batch], Tensor], batches: list[Batch], seconds: float
) -> Iterator[tuple[float, float] | None]:
    """Measure training steps on this loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    yield from timed(step, batches, seconds)


def timed(
    step: Callable[[Batch], None], batches: list[Batch], seconds: float
) -> Iterator[tuple[float, float] | None]:
    """Measure steps over the batches in turn; the work of a round is its tokens without padding."""
    done = 0
    for batch in batches[:3]:
        step(batch)
    yield None
    while True:
        work, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            batch = batches[done % len(batches)]
            step(batch)
            work += batch.tokens
            done += 1
        yield work, time.perf_counter() - start


def step_flops(shape: Shape, batch: Batch) -> int:
    """Floating-point operations of the matrix products of one step, forward and backward, with padding."""
    from torch.utils.flop_counter import FlopCounterMode

    model = our_model(shape)
    with FlopCounterMode(display=False) as counter:
        model.loss(batch).mean.backward()
    return counter.get_total_flops()


def matmul_peak(seconds: float, size: int = 2048) -> Iterator[Any]:
    """Measure square matrix products; the work is GFLOP."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = a @ b
    yield None
    while True:
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            torch.mm(a, b, out=out)
            count += 1
        yield count * 2 * size**3 / 1e9, time.perf_counter() - start

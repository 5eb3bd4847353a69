"""What is the same for every toolkit: which batches it gets, how its work is counted, what it says of itself.

Runs in the environment of the toolkit, with numpy and torch alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from torch import Tensor, nn

import bench.decoding
import bench.training
from bench.decoding import STEPS
from bench.peers.pairs import Pairs, padding_efficiency
from bench.shapes import SHAPES, real_tokens
from seqwright.data.batch import Batch

BATCHES = 48  # of an epoch, chosen at random: measured in turn, again and again
WARM_UP = 3
TheirBatch = TypeVar("TheirBatch")


@dataclass(frozen=True)
class Training(Generic[TheirBatch]):
    """A toolkit ready to train.

    order: the batches that it would make itself, as numbers of pairs; batch: its own collation of such
    numbers; said: the target tokens in a batch by its own count; step: one update of its own, which returns
    the loss a token in nats.
    """

    model: nn.Module
    order: Callable[[], list[np.ndarray]]
    batch: Callable[[np.ndarray], TheirBatch]
    said: Callable[[TheirBatch], int]
    step: Callable[[TheirBatch], float]

    def rounds(self, pairs: Pairs, shape: str, batches: str, seconds: float) -> Iterator[Any]:
        """Facts, then (real tokens of both sides, seconds) of each round."""
        chosen = choose(self.order() if batches == "own" else pairs.batches(SHAPES[shape].tokens))
        counted = [pairs.batch(numbers) for numbers in chosen]
        theirs = [self.batch(numbers) for numbers in chosen]
        for batch, same in zip(theirs, counted, strict=True):
            if self.said(batch) != same.count:
                raise AssertionError(
                    f"it counts {self.said(batch)} target tokens where there are {same.count}"
                )
        losses = [self.step(batch) for batch in theirs[:WARM_UP]]
        yield _facts(self.model, losses[0], counted, batches)
        work = list(zip(theirs, map(real_tokens, counted), strict=True))
        done = 0
        while True:
            tokens, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                batch, real = work[done % len(work)]
                self.step(batch)
                tokens += real
                done += 1
            yield tokens, time.perf_counter() - start


def looped(
    model: nn.Module, loss: Callable[[Batch], Tensor], pairs: Pairs, shape: str, seconds: float
) -> Iterator[Any]:
    """The same for a model whose loop is `bench.training`'s, on Seqwright's batches."""
    batches = [pairs.batch(numbers) for numbers in choose(pairs.batches(SHAPES[shape].tokens))]
    first = loss(batches[0]).item()
    measured = bench.training.rounds(model, loss, batches, seconds)
    next(measured)
    yield _facts(model, first, batches, "ours")
    yield from measured


def choose(batches: list[np.ndarray]) -> list[np.ndarray]:
    """As many for every contender, short and long ones as they come."""
    order = np.random.default_rng(1).permutation(len(batches))
    return [batches[number] for number in order[:BATCHES]]


def decoding(run: Callable[[], list[list[int]]], rows: int, seconds: float) -> Iterator[Any]:
    """(Tokens of the best hypotheses, seconds) of each round. `run` returns these hypotheses, each as long as
    it was forced to be.
    """
    lengths = {len(row) for row in run()}
    if lengths != {STEPS}:
        raise AssertionError(f"its outputs have {sorted(lengths)} tokens where {STEPS} were forced")
    yield from bench.decoding.rounds(run, rows, seconds)


def _facts(model: nn.Module, first_loss: float, batches: list[Batch], whose: str) -> dict[str, Any]:
    efficiency = padding_efficiency(batches)
    return {
        "parameters": parameters(model),
        "first_loss": round(first_loss, 3),
        "padding_efficiency": round(efficiency, 3),
        "batches": whose,
    }


def parameters(model: nn.Module) -> int:
    """Those that got a gradient in the latest step, so that spare copies do not count; a shared one counts
    once.
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.grad is not None)

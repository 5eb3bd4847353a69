"""Shared by all drivers: the batches, the count of the work, and the facts about a toolkit.

Runs in the environment of the toolkit.
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
from bench.shapes import SHAPES
from seqwright.data.batch import Batch

BATCHES = 48  # of an epoch, chosen at random and measured in turn
WARM_UP = 3
TheirBatch = TypeVar("TheirBatch")


@dataclass(frozen=True)
class Training(Generic[TheirBatch]):
    """A toolkit ready to train.

    order: its own batches, as numbers of pairs; batch: its collation of such numbers; target_tokens: its
    count of the target tokens in a batch; step: its update, which returns the loss per token in nats.
    """

    model: nn.Module
    order: Callable[[], list[np.ndarray]]
    batch: Callable[[np.ndarray], TheirBatch]
    target_tokens: Callable[[TheirBatch], int]
    step: Callable[[TheirBatch], float]

    def rounds(self, pairs: Pairs, shape: str, batches: str, seconds: float) -> Iterator[Any]:
        """Yield the facts, then (tokens without padding, seconds) of each round."""
        chosen = choose(self.order() if batches == "own" else pairs.batches(SHAPES[shape].tokens))
        counted = [pairs.batch(numbers) for numbers in chosen]
        theirs = [self.batch(numbers) for numbers in chosen]
        for batch, same in zip(theirs, counted, strict=True):
            if self.target_tokens(batch) != same.count:
                raise AssertionError(
                    f"it counts {self.target_tokens(batch)} target tokens; there are {same.count}"
                )
        losses = [self.step(batch) for batch in theirs[:WARM_UP]]
        yield _facts(self.model, losses[0], counted, batches)
        work = list(zip(theirs, (batch.tokens for batch in counted), strict=True))
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
    """The same for a model in the loop of `bench.training`, on the batches of Seqwright."""
    batches = [pairs.batch(numbers) for numbers in choose(pairs.batches(SHAPES[shape].tokens))]
    first = loss(batches[0]).item()
    measured = bench.training.rounds(model, loss, batches, seconds)
    next(measured)
    yield _facts(model, first, batches, "ours")
    yield from measured


def choose(batches: list[np.ndarray]) -> list[np.ndarray]:
    """Choose the same number of batches for every contender, short and long ones at random."""
    order = np.random.default_rng(1).permutation(len(batches))
    return [batches[number] for number in order[:BATCHES]]


def decoding(run: Callable[[], list[list[int]]], rows: int, seconds: float) -> Iterator[Any]:
    """Yield (tokens of the best hypotheses, seconds) of each round. `run` returns these hypotheses, whose
    length is forced.
    """
    lengths = {len(row) for row in run()}
    if lengths != {STEPS}:
        raise AssertionError(f"the outputs have {sorted(lengths)} tokens; {STEPS} were forced")
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
    """The number of parameters with a gradient: unused copies do not count, shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.grad is not None)

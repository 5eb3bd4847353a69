"""Training steps on two cores: two threads of one process, or two processes with half of the batch each.

python -m bench.cores            # on a quiet machine
python -m bench.cores --busy 1   # next to another program that keeps a core busy
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from seqwright.data.batch import collate
from seqwright.data.store import Ragged
from seqwright.models.building import build_model
from seqwright.runtime import keep_freed_memory
from seqwright.training.optimizer import Adamw
from seqwright.training.workers import LossSum, MicroBatch, Workers, micro_batches

# name: (preset, target tokens, lengths from, to, symbols of each side)
WORK = {
    "tiny, words, 512": ("tiny", 512, 5, 10, 40),
    "tiny-rnn, words, 512": ("tiny-rnn", 512, 5, 10, 40),
    "tiny, sentences, 1536": ("tiny", 1536, 10, 22, 8000),
    "tiny, sentences, 4096": ("tiny", 4096, 10, 22, 8000),
}
WAYS = {"1 thread": (0, 1), "2 threads": (0, 2), "2 processes": (1, 1)}  # children, threads of each process


class Steps:
    """Steps of one model on random pairs, in one of the ways."""

    def __init__(self, preset: str, tokens: int, shortest: int, longest: int, symbols: int, way: str):
        children, self.threads = WAYS[way]
        draw = np.random.default_rng(0)
        self.lengths = draw.integers(shortest, longest, 40)
        self.rows = [max(tokens // int(length), 2) for length in self.lengths]
        options = {"preset": preset, "share": False, "dropout": 0.1}
        self.model = build_model(options, source_vocabulary=symbols, target_vocabulary=symbols).train()
        self.symbols, self.number = symbols, 0
        self.workers = Workers(self.model, self.compute, children)
        self.optimizer = Adamw(self.model, rate=1e-3)

    def compute(self, part: MicroBatch) -> LossSum:
        length, draw = int(self.lengths[part.epoch]), np.random.default_rng(part.seed)
        sides = [draw.integers(4, self.symbols, (len(part.numbers), length)).tolist() for _ in range(2)]
        batch = collate(Ragged.of(sides[0]), Ragged.of(sides[1]), np.arange(len(part.numbers)))
        loss = self.model.loss(batch, smoothing=0.1).total
        loss.backward()
        return LossSum(loss.item(), batch.count, batch.count)

    def speed(self, seconds: float) -> float:
        """Steps per second."""
        torch.set_num_threads(self.threads)
        self.step()
        began, first = time.monotonic(), self.number
        while time.monotonic() - began < seconds:
            self.step()
        return (self.number - first) / (time.monotonic() - began)

    def step(self) -> None:
        self.number += 1
        which = self.number % len(self.rows)
        self.optimizer.zero_grad()
        batches = micro_batches(np.arange(self.rows[which]), self.workers.size, which, (self.number,))
        self.workers.mean_gradient(batches, 1.0)
        self.optimizer.step(0.5)


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run programs that keep a core busy each."""
    others = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()


def _spin() -> None:
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--busy", type=int, default=0, help="other programs at the same time")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    keep_freed_memory()
    for name, work in WORK.items():
        speeds: dict[str, list[float]] = {way: [] for way in WAYS}
        with neighbours(options.busy):
            for _ in range(options.rounds):
                for way in WAYS:
                    with (steps := Steps(*work, way)).workers:
                        speeds[way].append(steps.speed(options.seconds))
        middle = {way: float(np.median(found)) for way, found in speeds.items()}
        shown = "; ".join(
            f"{way} {middle[way]:.1f} ({min(found):.1f}–{max(found):.1f})" for way, found in speeds.items()
        )
        print(f"{name}: {shown} steps/s; × {middle['2 processes'] / middle['2 threads']:.2f}", flush=True)


if __name__ == "__main__":
    main()

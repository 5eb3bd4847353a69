"""What a training will take on this machine, by a few steps that are thrown away."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy as np
import torch

from seqwright.config import Config, TrainingConfig
from seqwright.data.checks.findings import Finding
from seqwright.data.plan import Batching, Plan
from seqwright.data.text_display import amount
from seqwright.models import Model
from seqwright.training.budget import steps_of
from seqwright.training.preparation import Prepared
from seqwright.training.trainer import build_optimizer, computing, gradients, parts_of
from seqwright.training.workers import Workers

WARM, STEPS, SECONDS = 1, 8, 4.0  # steps that are not counted, steps that are, and time for all of them
LONG = 0.25  # seconds of a step from which on all threads pay
VALIDATIONS = 0.1  # of the time, about
FEW = 1000  # steps, with which hardly a task is learned
MORE, SELDOM = 3000, 10  # nor with so many, and so few passes
ROUNDS, SLACK = 3, 1.05  # in which numbers of threads take turns, and what counts as equally fast


@dataclass(frozen=True)
class Forecast:
    """Of a training as configured, with its validations; `memory` in bytes at its peak, where the system says
    it, and what is `left_out` of its pairs.
    """

    parameters: int
    processes: int
    threads: int  # of each
    step_seconds: float
    tokens_per_second: float  # of both sides
    epoch_steps: int
    steps: int
    seconds: float
    memory: int | None
    left_out: tuple[Finding, ...] = ()

    @property
    def epochs(self) -> float:
        return self.steps / self.epoch_steps

    @property
    def hands(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return threads if self.processes == 1 else f"{self.processes} processes of {threads}"

    def lines(self) -> list[str]:
        return [*(finding.line() for finding in self.left_out), self._taken()]

    def _taken(self) -> str:
        return (
            f"{_count(self.parameters)} parameters; "
            f"{self.tokens_per_second:,.0f} tokens/s of both sides with {self.hands}: "
            f"about {self.steps:,} steps, "
            f"{self.epochs:.1f} times through the pairs, in {_minutes(self.seconds)}, then the final score"
            + (f"; about {self.memory / 2**30:.1f} GB of memory to train" if self.memory else "")
            + ("; so few steps teach little: give it more --minutes" if self.few else "")
        )

    @property
    def few(self) -> bool:
        return self.steps < FEW or (self.steps < MORE and self.epochs < SELDOM)


def forecast(config: Config, prepared: Prepared, model: Model, helpers: int = 0) -> Forecast:
    """Trains a copy of the model for a few steps; among them is the batch with the most tokens, for the
    memory. Where nobody said how many threads to use, it leaves torch with the number that is fastest here.
    """
    probe = _Probe(config, prepared, model, helpers)
    with probe.crew:
        probe.take(probe.largest())
        if config.threads is None:
            torch.set_num_threads(_threads(probe))
        return _measured(probe, config.training, prepared.left_out)


def _measured(probe: _Probe, options: TrainingConfig, left_out: tuple[Finding, ...]) -> Forecast:
    seconds, tokens = [], []
    began = time.monotonic()
    for number in range(WARM + STEPS):
        took, count = probe.take(number)
        if number >= WARM:
            seconds.append(took)
            tokens.append(count)
        if time.monotonic() - began > SECONDS and seconds:
            break
    step = float(np.median(seconds))
    if options.minutes is not None:
        steps = max(int((1 - VALIDATIONS) * options.minutes * 60 / step), 1)
    else:
        steps = options.steps or steps_of(probe.plan, options.epochs or 1.0)
    return Forecast(
        parameters=sum(parameter.numel() for parameter in probe.model.parameters()),
        processes=probe.crew.size,
        threads=torch.get_num_threads(),
        step_seconds=step,
        tokens_per_second=sum(tokens) / sum(seconds),
        epoch_steps=len(probe.batches),
        steps=steps,
        seconds=steps * step / (1 - VALIDATIONS),
        memory=probe.crew.memory(),
        left_out=left_out,
    )


class _Probe:
    """Steps of a copy of the model."""

    def __init__(self, config: Config, prepared: Prepared, model: Model, helpers: int):
        self.config = config
        self.plan = Plan(prepared.train.lengths, Batching(tokens=config.training.tokens), config.seed)
        self.batches = self.plan.epoch(0)
        self.model = copy.deepcopy(model).train()
        self.crew = Workers(self.model, computing(config, prepared, self.model), helpers)
        self.optimizer = build_optimizer(config.training.optimizer, self.model)

    def take(self, number: int) -> tuple[float, int]:
        """The seconds and the tokens of a step with this batch."""
        began = time.monotonic()
        options, batch = self.config.training, self.batches[number % len(self.batches)]
        self.optimizer.zero_grad()
        learners = len(self.model.learners(options.accumulate))
        parts = parts_of(batch, options.accumulate, 0, (self.config.seed,), learners)
        outcome, _ = gradients(self.crew, parts, options.clip)
        self.optimizer.step(0.0)
        return time.monotonic() - began, outcome.tokens

    def largest(self) -> int:
        return max(range(len(self.batches)), key=lambda k: _padded(self.plan, self.batches[k]))


def _threads(probe: _Probe) -> int:
    """The fewest threads that are about as fast as any. Small steps lose more by waiting for each other than
    they gain, the more so where other programs run.
    """
    most = torch.get_num_threads()
    if most == 1 or probe.take(0)[0] > LONG:
        return most
    choices = [most >> halvings for halvings in range(most.bit_length())]
    seconds: dict[int, list[float]] = {count: [] for count in choices}
    for _ in range(ROUNDS):
        for count in choices:
            torch.set_num_threads(count)
            probe.take(0)
            seconds[count] += [probe.take(number)[0] for number in range(1, 4)]
    medians = {count: float(np.median(taken)) for count, taken in seconds.items()}
    return min(count for count in choices if medians[count] <= SLACK * min(medians.values()))


def _padded(plan: Plan, numbers: np.ndarray) -> int:
    source, target = (int(side[numbers].max()) for side in plan.lengths)
    return len(numbers) * (source + target)


def _count(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e5 else f"{parameters:,}"


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return amount(round(seconds), "second")
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"

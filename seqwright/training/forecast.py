"""What a training will take on this machine, by a few steps that are thrown away."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy as np

from seqwright.config import Config
from seqwright.data.plan import Batching, Plan, split
from seqwright.models import Model
from seqwright.runtime import peak_memory
from seqwright.training.budget import steps_of
from seqwright.training.preparation import Prepared
from seqwright.training.trainer import build_optimizer, gradients, tokens_of

WARM, STEPS, SECONDS = 2, 8, 4.0  # steps that are not counted, steps that are, and time for all of them


@dataclass(frozen=True)
class Forecast:
    """Of a training as configured: `seconds` without validations, `memory` in bytes at its peak, if
    the system says it."""

    parameters: int
    step_seconds: float
    tokens_per_second: float  # of both sides
    epoch_steps: int
    steps: int
    seconds: float
    memory: int | None

    @property
    def epochs(self) -> float:
        return self.steps / self.epoch_steps

    def line(self) -> str:
        return (
            f"{_count(self.parameters)} parameters; {self.tokens_per_second:,.0f} tokens/s here: about "
            f"{self.steps:,} steps, {self.epochs:.1f} times through the pairs, in {_minutes(self.seconds)}"
            + (f"; about {self.memory / 2**30:.1f} GB of memory" if self.memory else "")
        )


def forecast(config: Config, prepared: Prepared, model: Model) -> Forecast:
    """Trains a copy of the model for a few steps; among them is the batch with the most tokens, for the
    memory.
    """
    options = config.training
    plan = Plan(prepared.train.lengths, Batching(tokens=options.tokens), config.seed)
    batches = plan.epoch(0)
    model = copy.deepcopy(model).train()
    optimizer = build_optimizer(options.optimizer, model)

    def take(numbers: np.ndarray) -> int:
        parts = [prepared.task.batch(prepared.train, p) for p in split(numbers, options.accumulate) if len(p)]
        optimizer.zero_grad()
        gradients(model, parts, options, config.seed)
        optimizer.step(0.0)
        return sum(map(tokens_of, parts))

    largest = max(range(len(batches)), key=lambda k: _padded(plan, batches[k]))
    seconds, tokens = [], []
    began = time.monotonic()
    for number, k in enumerate([largest, *range(WARM + STEPS)]):
        before = time.monotonic()
        count = take(batches[k % len(batches)])
        if number >= WARM:
            seconds.append(time.monotonic() - before)
            tokens.append(count)
        if time.monotonic() - began > SECONDS and seconds:
            break
    step = float(np.median(seconds))
    if options.minutes is not None:
        steps = max(int(options.minutes * 60 / step), 1)
    else:
        steps = options.steps or steps_of(plan, options.epochs or 1.0)
    return Forecast(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        step_seconds=step,
        tokens_per_second=sum(tokens) / sum(seconds),
        epoch_steps=len(batches),
        steps=steps,
        seconds=steps * step,
        memory=peak_memory(),
    )


def _padded(plan: Plan, numbers: np.ndarray) -> int:
    source, target = (int(side[numbers].max()) for side in plan.lengths)
    return len(numbers) * (source + target)


def _count(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e5 else f"{parameters:,}"


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"

"""The time and memory of a training on this machine, measured on a few steps of a copy of the model."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from seqwright.config import Config
from seqwright.config.recipe import ENDS
from seqwright.data.checks.findings import Finding
from seqwright.data.plan import Plan, batching_of
from seqwright.data.text_display import percent, pluralize
from seqwright.models import Model
from seqwright.nn.blocks import Block
from seqwright.nn.feedforward import used_parameters
from seqwright.nn.kv_cache import Compressed
from seqwright.training.budget import steps_of
from seqwright.training.optimizer import OPTIMIZERS, Optimizer
from seqwright.training.preparation import Prepared
from seqwright.training.trainer import build_compute
from seqwright.training.workers import Workers, micro_batches

STEPS, SECONDS = 8, 4.0  # measured steps, and a time limit for them and the warm-up
LONG = 0.25  # seconds of a step from which all threads pay off
VALIDATIONS = 0.1  # the share of the time that validations take, about
FEW = 1000  # with fewer steps hardly any task is learned
MORE, FEW_EPOCHS = 3000, 10  # nor with fewer steps than this in fewer epochs
DOMINANT = 0.5  # the share of the operations from which on the square of the length sets the cost
ROUNDS, SLACK = 3, 1.05  # rounds in which the numbers of threads alternate; within 5 % counts as equally fast


@dataclass(frozen=True)
class Forecast:
    """The forecast of a training, with its validations."""

    parameters: int
    processes: int
    threads: int  # of each process
    step_seconds: float
    tokens_per_second: float  # source and target
    epoch_steps: int
    steps: int
    seconds: float
    memory: int | None  # the peak in bytes, if the system reports it
    left_out: tuple[Finding, ...] = ()  # findings about pairs that are not used
    noun: str = "token"  # what the speed is counted in
    epoch_noun: str = "epochs"  # what the length is counted in
    used: int | None = None  # parameters that a token passes through, if not all
    quadratic: float = 0.0  # the share of the operations of Transformer layers that scores of all tokens take
    limited: bool = False  # whether the number of epochs ends the training before its minutes
    ended_by: str = "minutes"  # the option that ends the training

    @property
    def epochs(self) -> float:
        return self.steps / self.epoch_steps

    def lines(self) -> list[str]:
        threads = pluralize(self.threads, "thread")
        workers = threads if self.processes == 1 else f"{self.processes} processes of {threads}"
        size = f"{_millions(self.parameters)} parameters"
        if self.used is not None:
            size += f", of which a token uses {_millions(self.used)}"
        few = self.steps < FEW or (self.steps < MORE and self.epochs < FEW_EPOCHS)
        cost = (
            f"{size}; {self.tokens_per_second:,.0f} {self.noun}s/s with {workers}: "
            f"about {self.steps:,} steps ({self.epochs:.1f} {self.epoch_noun}) in "
            f"{_minutes(self.seconds)}, then a test"
            + (f"; about {self.memory / 2**30:.1f} GB of memory" if self.memory else "")
            + (f"; so few steps teach little: raise --{self.ended_by}" if few and not self.limited else "")
        )
        findings = [finding.line() for finding in self.left_out]
        if self.quadratic > DOMINANT:
            findings.append(
                f"warning: attention from all tokens to all takes {percent(self.quadratic)} of the "
                "operations of the layers; model.window=128 attends to neighbours, model.growth=compressed "
                "to fewer keys"
            )
        return [*findings, cost]


def forecast(config: Config, prepared: Prepared, model: Model, workers: int = 0) -> Forecast:
    """Train a copy of the model for a few steps, among them the batch with the most tokens, for the memory.

    If the configuration does not set the threads, torch is left with the fastest number of them.
    """
    probe = _Probe(config, prepared, model, workers)
    with probe.workers:
        probe.time_step(probe.largest())
        if config.threads is None:
            torch.set_num_threads(_fastest_threads(probe))
        seconds, tokens, began = [], [], time.monotonic()
        probe.time_step(0)  # warm-up
        for number in range(1, 1 + STEPS):
            took, count = probe.time_step(number)
            seconds.append(took)
            tokens.append(count)
            if time.monotonic() - began > SECONDS:
                break
        threads, memory = torch.get_num_threads(), probe.workers.memory()
    options, step = config.training, float(np.median(seconds))
    limited = False
    if options.minutes is not None:
        steps = max(int((1 - VALIDATIONS) * options.minutes * 60 / step), 1)
        if options.most_epochs is not None:
            most = steps_of(probe.plan, options.most_epochs)
            steps, limited = min(steps, most), steps > most
    else:
        steps = options.steps or steps_of(probe.plan, options.epochs or 1.0)
    parameters = sum(parameter.numel() for parameter in probe.model.parameters())
    used = used_parameters(probe.model)
    return Forecast(
        parameters=parameters,
        processes=probe.workers.size,
        threads=threads,
        step_seconds=step,
        tokens_per_second=sum(tokens) / sum(seconds),
        epoch_steps=len(probe.batches),
        steps=steps,
        seconds=steps * step / (1 - VALIDATIONS),
        memory=memory,
        left_out=prepared.left_out,
        noun=prepared.task.nouns.speed,
        epoch_noun=prepared.task.nouns.epochs,
        used=used if used < parameters else None,
        quadratic=probe.operations.quadratic_share,
        limited=limited,
        ended_by=next((end for end in ENDS if getattr(options, end) is not None), "epochs"),
    )


class _Operations:
    """Counts the multiplications of the Transformer layers of a model in its steps."""

    def __init__(self, model: Model):
        self.quadratic = self.linear = 0.0
        for part in model.modules():
            if isinstance(part, Block):
                part.register_forward_pre_hook(self._count)

    @property
    def quadratic_share(self) -> float:
        return self.quadratic / (self.quadratic + self.linear) if self.linear else 0.0

    def _count(self, block: Any, given: tuple[Any, ...]) -> None:
        rows, tokens, _ = given[0].shape
        attention, growth = block.attention, block.growth
        if attention.mask.window is None:
            keys = tokens / (growth.stride if isinstance(growth, Compressed) else 1)
            sizes = attention.heads * (attention.key_size + attention.value_size)
            self.quadratic += rows * tokens * keys * sizes
        self.linear += rows * tokens * used_parameters(block)


class _Probe:
    """Takes steps with a copy of the model."""

    def __init__(self, config: Config, prepared: Prepared, model: Model, workers: int):
        self.config = config
        self.plan = Plan(prepared.lengths, batching_of(config.training), config.seed)
        self.batches = self.plan.epoch(0)
        self.model = copy.deepcopy(model).train()
        self.operations = _Operations(self.model)
        self.workers = Workers(self.model, build_compute(config, prepared, self.model), workers)
        self.optimizer: Optimizer = OPTIMIZERS.build(config.training.optimizer, self.model)

    def time_step(self, number: int) -> tuple[float, int]:
        """The seconds and the tokens of a step with this batch."""
        began = time.monotonic()
        options, batch = self.config.training, self.batches[number % len(self.batches)]
        self.optimizer.zero_grad()
        learners = len(self.model.learners(options.accumulate))
        batches = micro_batches(batch, options.accumulate, 0, (self.config.seed,), learners)
        loss, _ = self.workers.mean_gradient(batches, options.clip)
        self.optimizer.step(0.0)
        return time.monotonic() - began, loss.tokens

    def largest(self) -> int:
        """Return the number of the batch with the most tokens, padding included."""
        sides = self.plan.lengths
        padded = [len(rows) * sum(int(side[rows].max()) for side in sides) for rows in self.batches]
        return padded.index(max(padded))


def _fastest_threads(probe: _Probe) -> int:
    """Return the fewest threads that are about as fast as any number of them.

    In small steps threads lose more by waiting for each other than they gain, above all on a busy machine.
    """
    most = torch.get_num_threads()
    if most == 1 or probe.time_step(0)[0] > LONG:
        return most
    choices = [most >> halvings for halvings in range(most.bit_length())]
    seconds: dict[int, list[float]] = {count: [] for count in choices}
    for _ in range(ROUNDS):
        for count in choices:
            torch.set_num_threads(count)
            probe.time_step(0)
            seconds[count] += [probe.time_step(number)[0] for number in range(1, 4)]
    medians = {count: float(np.median(times)) for count, times in seconds.items()}
    return min(count for count in choices if medians[count] <= SLACK * min(medians.values()))


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return pluralize(round(seconds), "second")
    minutes = seconds / 60
    if minutes >= 120:
        return f"{minutes / 60:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes >= 9.95 else f"{minutes:.1f} minutes".replace(".0 ", " ")


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e5 else f"{count:,}"

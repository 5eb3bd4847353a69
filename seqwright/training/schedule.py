"""Schedules: the learning rate of each step, as a fraction of the highest one. One class each.

A schedule receives the step and the share of the training that is done, from 0 to 1. So it works whether the
end is given in steps, epochs or minutes.
"""

from __future__ import annotations

import math

from seqwright.config.registry import Registry
from seqwright.errors import ConfigError

SCHEDULES = Registry("schedule", "seqwright.training.schedule", "seqwright.training.schedule:Schedule")


class Schedule:
    """Base: the learning rate rises from 0 to the optimizer's `rate` over `warmup` steps, at most half of the
    training; then the class determines its shape.
    """

    def __init__(self, *, warmup: int = 400):
        if warmup < 0:
            raise ConfigError(f"warmup is {warmup}; it must be at least 0 steps")
        self.warmup = warmup

    def factor(self, step: int, done: float) -> float:
        """The fraction of the highest rate at this step (from 1), after which the share `done` is done."""
        total = step / done if done > 0 else math.inf
        warmup = min(self.warmup, total / 2)
        if step < warmup:
            return step / warmup
        start = warmup / total  # the share of the warm-up
        return self.after(step, warmup, 0.0 if start >= 1 else (done - start) / (1 - start))

    def after(self, step: int, warmup: float, done: float) -> float:
        """The fraction when the share `done` of the training after the warm-up is done."""
        raise NotImplementedError


class Constant(Schedule):
    """Warm-up over `warmup` steps (at most half of the training), then the highest rate."""

    def after(self, step: int, warmup: float, done: float) -> float:
        return 1.0


class InverseSqrt(Schedule):
    """Warm-up over `warmup` steps (at most half of the training), then the highest rate × √(warmup / step)
    (Vaswani et al. 2017, eq. 3, scaled to 1 at its peak).
    """

    def after(self, step: int, warmup: float, done: float) -> float:
        return math.sqrt(max(warmup, 1) / step)


class Cosine(Schedule):
    """Warm-up over `warmup` steps (at most half of the training), then half a cosine wave down to `floor`
    (Loshchilov & Hutter 2017, eq. 5, without restarts).
    """

    def __init__(
        self,
        *,
        warmup: int = 400,
        floor: float = 0.0,  # the final fraction of the highest rate, from 0 to 1
    ):
        super().__init__(warmup=warmup)
        self.floor = _share("floor", floor)

    def after(self, step: int, warmup: float, done: float) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


class Linear(Schedule):
    """Warm-up over `warmup` steps (at most half of the training), then the highest rate for the share `flat`
    of the rest, then a straight line down to `floor`.
    """

    def __init__(
        self,
        *,
        warmup: int = 400,
        flat: float = 0.4,  # share of the training after the warm-up, from 0 to below 1
        floor: float = 0.0,  # the final fraction of the highest rate, from 0 to 1
    ):
        super().__init__(warmup=warmup)
        if not 0 <= flat < 1:
            raise ConfigError(
                f"flat is {flat}; it is the share of the training at the highest rate, from 0 to below 1"
            )
        self.flat, self.floor = flat, _share("floor", floor)

    def after(self, step: int, warmup: float, done: float) -> float:
        if done <= self.flat:
            return 1.0
        left = (1 - min(done, 1.0)) / (1 - self.flat)
        return self.floor + (1 - self.floor) * left


def _share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value}; it is a share of the highest rate, from 0 to 1")
    return value

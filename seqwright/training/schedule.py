"""Schedules: the learning rate of each step, as a factor of the highest one. One class each.

A schedule sees the number of the step and how much of the training is done, a number from 0 to 1. So it ends
well whether the end was given in steps, in epochs or in minutes.
"""

from __future__ import annotations

import math

from seqwright.config.registry import Registry
from seqwright.errors import ConfigError

SCHEDULES = Registry("schedule", "seqwright.training.schedule", "seqwright.training.schedule:Schedule")


class Schedule:
    """Base: the learning rate of a step, as a share of the highest, which is the optimizer's `rate`. It rises
    from 0 over `warmup` steps, at most half of the training, then comes the shape of the class.
    """

    def __init__(self, *, warmup: int = 400):
        if warmup < 0:
            raise ConfigError(f"warmup is {warmup}; it must be 0 or more steps")
        self.warmup = warmup

    def factor(self, step: int, done: float) -> float:
        """For the step-th step (from 1) when the share `done` of the training lies behind it."""
        total = step / done if done > 0 else math.inf
        warmup = min(self.warmup, total / 2)
        if step < warmup:
            return step / warmup
        start = warmup / total  # the share of the training that the warm-up took
        return self.after(step, warmup, 0.0 if start >= 1 else (done - start) / (1 - start))

    def after(self, step: int, warmup: float, done: float) -> float:
        """The factor when the share `done` of what comes after the warm-up is over."""
        raise NotImplementedError


class Constant(Schedule):
    """The highest rate, after `warmup` steps from 0, at most half of the training."""

    def after(self, step: int, warmup: float, done: float) -> float:
        return 1.0


class InverseSqrt(Schedule):
    """After `warmup` steps from 0, at most half of the training: the highest rate × √(warmup / step)
    (Vaswani et al. 2017, eq. 3, scaled to 1 at its peak).
    """

    def after(self, step: int, warmup: float, done: float) -> float:
        return math.sqrt(max(warmup, 1) / step)


class Cosine(Schedule):
    """After `warmup` steps from 0, at most half of the training: half a wave from the highest rate down to
    `floor` of it (Loshchilov & Hutter 2017, eq. 5, without restarts).
    """

    def __init__(
        self,
        *,
        warmup: int = 400,
        floor: float = 0.0,  # share of the highest rate that is left at the end, from 0 to 1
    ):
        super().__init__(warmup=warmup)
        self.floor = _share("floor", floor)

    def after(self, step: int, warmup: float, done: float) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


class Linear(Schedule):
    """After `warmup` steps from 0, at most half of the training: the highest rate for the share `flat` of the
    rest, then a straight line down to `floor` of it.
    """

    def __init__(
        self,
        *,
        warmup: int = 400,
        flat: float = 0.4,  # share of the training after the warm-up, from 0 to below 1
        floor: float = 0.0,  # share of the highest rate that is left at the end, from 0 to 1
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

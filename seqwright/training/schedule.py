"""Schedules: the learning rate as a fraction of the highest one, by step and by the share that is done.

So a schedule works whether the end of the training is given in steps, epochs or minutes. One class each.
"""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge, Le

from seqwright.config.registry import Registry
from seqwright.config.validation import Doc, Share, Whole

SCHEDULES = Registry("schedule", "seqwright.training.schedule", "seqwright.training.schedule:Schedule")

Warmup = Annotated[Whole, Doc("Steps in which the rate rises from 0.")]
Flat = Annotated[Share, Doc("Share of the training after the warm-up that keeps the highest rate.")]
Floor = Annotated[float, Ge(0), Le(1), Doc("Final fraction of the highest rate.")]


class Schedule:
    """Base: the learning rate rises from 0 to the highest in `warmup` steps, at most half of the training."""

    def __init__(self, *, warmup: Warmup = 400):
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
    """Warm-up, then the highest rate."""

    def after(self, step: int, warmup: float, done: float) -> float:
        return 1.0


class InverseSqrt(Schedule):
    """Warm-up, then the highest rate × √(warmup / step) (Vaswani et al. 2017, eq. 3, scaled to 1)."""

    def after(self, step: int, warmup: float, done: float) -> float:
        return math.sqrt(max(warmup, 1) / step)


class Cosine(Schedule):
    """Warm-up, then half a cosine wave down to `floor` (Loshchilov & Hutter 2017, eq. 5, no restarts)."""

    def __init__(self, *, warmup: Warmup = 400, floor: Floor = 0.0):
        super().__init__(warmup=warmup)
        self.floor = floor

    def after(self, step: int, warmup: float, done: float) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


class Linear(Schedule):
    """Warm-up, then the highest rate for the share `flat` of the rest, then a straight line to `floor`."""

    def __init__(self, *, warmup: Warmup = 400, flat: Flat = 0.4, floor: Floor = 0.0):
        super().__init__(warmup=warmup)
        self.flat, self.floor = flat, floor

    def after(self, step: int, warmup: float, done: float) -> float:
        if done <= self.flat:
            return 1.0
        left = (1 - min(done, 1.0)) / (1 - self.flat)
        return self.floor + (1 - self.floor) * left

"""When a training ends: after steps, epochs or minutes; and how much of it is done at each step.

Minutes become steps by the speed so far, again and again while it runs. Each such estimate is written down,
and read again when the training is resumed: so the share that is done stays a function of the step.
"""

from __future__ import annotations

import math
from pathlib import Path

from seqwright.config import TrainingConfig
from seqwright.data.plan import Plan
from seqwright.files import read_json, write_json

FIRST_ESTIMATE = 20  # steps after which the speed is worth something
SHARE = 0.05  # of the training between two estimates, and of the time before the first one at most

Mark = tuple[int, float, int]


class Budget:
    """`marks` are (step, share done there, last step): from a mark on the share grows evenly up to 1 at the
    last step.
    """

    def __init__(self, config: TrainingConfig, plan: Plan, path: Path):
        self.path, self.minutes = path, config.minutes
        self.marks: list[Mark] = []
        self._made_for: float | None = None  # the minutes that the marks lead to
        if self.minutes is None:
            self.marks = [(0, 0.0, config.steps or steps_of(plan, config.epochs or 1.0))]
        elif path.exists():
            known = read_json(path)
            self._made_for = known["minutes"]
            self.marks = [(step, share, last) for step, share, last in known["marks"]]

    @property
    def last_step(self) -> int | None:
        """The number of the last step, as far as is known by now."""
        return self.marks[-1][2] if self.marks else None

    def done(self, step: int) -> float:
        """The share of the training that is over after `step` steps."""
        past = [mark for mark in self.marks if mark[0] <= step]
        if not past:
            return 0.0
        start, share, last = past[-1]
        return 1.0 if step >= last else share + (1 - share) * (step - start) / (last - start)

    def over(self, step: int) -> bool:
        past = [mark for mark in self.marks if mark[0] <= step]
        return bool(past) and step >= past[-1][2]

    def wants_estimate(self, step: int, seconds: float) -> bool:
        """Not at the end, nor where an estimate was made in an earlier life of the training."""
        if self.minutes is None or self.over(step) or any(mark[0] >= step for mark in self.marks):
            return False
        if not self.marks:
            return step >= FIRST_ESTIMATE or seconds >= SHARE * self.minutes * 60
        return self.done(step) >= self.marks[-1][1] + SHARE

    def estimate(self, step: int, seconds: float) -> None:
        """A new mark, from the time that the steps so far have taken. One more step there always is: this one
        was taken as one before the last.
        """
        self._mark(step, self.done(step), max(self._steps_left(step, seconds), 1))

    def resume(self, step: int, seconds: float) -> None:
        """Where the minutes are others than before, the share that is done is that of the time."""
        if self.minutes is None or self.minutes == self._made_for:
            return
        self.marks = [mark for mark in self.marks if mark[0] < step]
        if step:
            share = min(seconds / (self.minutes * 60), 1.0)
            self._mark(step, share, self._steps_left(step, seconds))

    def _steps_left(self, step: int, seconds: float) -> int:
        assert self.minutes is not None
        return math.floor(max(self.minutes * 60 - seconds, 0.0) / (seconds / step))

    def _mark(self, step: int, share: float, left: int) -> None:
        self.marks.append((step, share, step + left))
        self._made_for = self.minutes
        write_json(self.path, {"minutes": self.minutes, "marks": self.marks})


def steps_of(plan: Plan, epochs: float) -> int:
    """How many steps so many epochs have."""
    whole, part = int(epochs), epochs - int(epochs)
    steps = sum(len(plan.epoch(number)) for number in range(whole))
    return max(steps + (round(part * len(plan.epoch(whole))) if part else 0), 1)

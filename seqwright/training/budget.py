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
        self._since = (0, 0.0)  # the step and the seconds that the speed is measured from
        self._anew = False  # whether the marks rest on a speed of long ago
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
        if not self.marks or self._anew:
            steps, passed = step - self._since[0], seconds - self._since[1]
            return steps >= FIRST_ESTIMATE or (steps > 0 and passed >= SHARE * self.minutes * 60)
        return self.done(step) >= self.marks[-1][1] + SHARE

    def estimate(self, step: int, seconds: float) -> None:
        """A new mark, from the time that the steps since the last one have taken: a machine may have become
        faster or slower. One more step there always is: this one was taken as one before the last.
        """
        self._mark(step, self.done(step), max(self._steps_left(step, seconds), 1))
        self._since, self._anew = (step, seconds), False

    def resume(self, step: int, seconds: float) -> None:
        """Where the minutes are others than before, the share that is done is that of the time, and the speed
        is measured anew.
        """
        if self.minutes is None or self.minutes == self._made_for:
            self._since = (step, seconds)
            return
        self.marks = [mark for mark in self.marks if mark[0] < step]
        if step:
            share = min(seconds / (self.minutes * 60), 1.0)
            left = self._steps_left(step, seconds)
            self._anew = share < 1
            self._mark(step, share, max(left, 2 * FIRST_ESTIMATE) if self._anew else left)
        self._since = (step, seconds)

    def _steps_left(self, step: int, seconds: float) -> int:
        assert self.minutes is not None
        steps, passed = step - self._since[0], seconds - self._since[1]
        return math.floor(max(self.minutes * 60 - seconds, 0.0) / max(passed / steps, 1e-9))

    def _mark(self, step: int, share: float, left: int) -> None:
        self.marks.append((step, share, step + left))
        self._made_for = self.minutes
        write_json(self.path, {"minutes": self.minutes, "marks": self.marks})


def steps_of(plan: Plan, epochs: float) -> int:
    """How many steps so many epochs have."""
    whole, part = int(epochs), epochs - int(epochs)
    steps = sum(len(plan.epoch(number)) for number in range(whole))
    return max(steps + (round(part * len(plan.epoch(whole))) if part else 0), 1)

"""The end of a training, in steps, epochs or minutes, and the share that is done at each step.

Minutes become steps by the speed so far, estimated several times while the training runs. Each estimate is
saved and read again when the training resumes, so the share stays a function of the step. A training of some
minutes may also end after a number of epochs.
"""

from __future__ import annotations

import math
from pathlib import Path

from seqwright.config import TrainingConfig
from seqwright.data.plan import Plan
from seqwright.files import read_json, write_json

FIRST_ESTIMATE = 20  # steps after which the speed is known well enough
SHARE = 0.05  # of the training between two estimates, and at most of the time before the first one

Mark = tuple[int, float, int]


class Budget:
    """`marks` are (step, share done there, last step): after a mark the share grows linearly to 1."""

    def __init__(self, config: TrainingConfig, plan: Plan, path: Path):
        self.path, self.minutes, self.most_epochs = path, config.minutes, config.most_epochs
        self.most = steps_of(plan, config.most_epochs) if self.minutes and config.most_epochs else math.inf
        self.marks: list[Mark] = []
        self._made_for: tuple[float | None, ...] = ()  # the minutes and epochs of which the marks are
        self._since = (0, 0.0)  # the step and the seconds from which the speed is measured
        self._outdated = False  # whether the marks rest on the speed of an earlier process
        if self.minutes is None:
            self.marks = [(0, 0.0, config.steps or steps_of(plan, config.epochs or 1.0))]
        elif path.exists():
            known = read_json(path)
            self._made_for = (known["minutes"], known.get("most_epochs"))
            self.marks = [(step, share, last) for step, share, last in known["marks"]]

    def done(self, step: int) -> float:
        """The share of the training that is done after `step` steps."""
        if step >= self.most:
            return 1.0
        past = [mark for mark in self.marks if mark[0] <= step]
        if not past:
            return 0.0
        start, share, last = past[-1]
        return 1.0 if step >= last else share + (1 - share) * (step - start) / (last - start)

    def over(self, step: int) -> bool:
        return self.done(step) >= 1

    def wants_estimate(self, step: int, seconds: float) -> bool:
        """Whether to estimate now: not at the end, and not where an earlier process made an estimate."""
        if self.minutes is None or self.over(step) or any(mark[0] >= step for mark in self.marks):
            return False
        if not self.marks or self._outdated:
            steps, passed = step - self._since[0], seconds - self._since[1]
            return steps >= FIRST_ESTIMATE or (steps > 0 and passed >= SHARE * self.minutes * 60)
        return self.done(step) >= self.marks[-1][1] + SHARE

    def estimate(self, step: int, seconds: float) -> None:
        """Add a mark by the speed since the last one. At least one step is left: this was not the last."""
        self._mark(step, self.done(step), max(self._steps_left(step, seconds), 1))
        self._since, self._outdated = (step, seconds), False

    def resume(self, step: int, seconds: float) -> None:
        """If the end changed, take the share done from time or epochs, and measure the speed again."""
        if self.minutes is None or (self.minutes, self.most_epochs) == self._made_for:
            self._since = (step, seconds)
            return
        self.marks = [mark for mark in self.marks if mark[0] < step]
        if step:
            share = min(max(seconds / (self.minutes * 60), step / self.most), 1.0)
            left = self._steps_left(step, seconds)
            self._outdated = share < 1
            self._mark(step, share, max(left, 2 * FIRST_ESTIMATE) if self._outdated else left)
        self._since = (step, seconds)

    def _steps_left(self, step: int, seconds: float) -> int:
        assert self.minutes is not None
        steps, passed = step - self._since[0], seconds - self._since[1]
        return math.floor(max(self.minutes * 60 - seconds, 0.0) / max(passed / steps, 1e-9))

    def _mark(self, step: int, share: float, left: int) -> None:
        self.marks.append((step, share, int(min(step + left, max(self.most, step)))))
        self._made_for = (self.minutes, self.most_epochs)
        saved = {"minutes": self.minutes, "most_epochs": self.most_epochs, "marks": self.marks}
        write_json(self.path, saved)


def steps_of(plan: Plan, epochs: float) -> int:
    """The number of steps in these epochs."""
    whole, part = int(epochs), epochs - int(epochs)
    steps = sum(len(plan.epoch(number)) for number in range(whole))
    return max(steps + (round(part * len(plan.epoch(whole))) if part else 0), 1)

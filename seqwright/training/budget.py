"""When a training ends: after steps, epochs or minutes; and how much of it is done at each step.

Minutes become steps by the speed so far, again and again while it runs. Each such estimate is written down
before it takes effect, and read again when the training is resumed: so the share that is done stays a
function of the step.
"""

from __future__ import annotations

import math
from pathlib import Path

from seqwright.config import TrainingConfig
from seqwright.data.plan import Plan
from seqwright.files import read_json, write_json

FIRST_ESTIMATE = 20  # steps after which the speed is worth something


class Budget:
    """`marks` are (step, share done there, last step): from a mark on the share grows evenly up to 1 at the
    last step.
    """

    def __init__(self, config: TrainingConfig, plan: Plan, path: Path):
        self.path, self.minutes = path, config.minutes
        if self.minutes is None:
            steps = config.steps or _steps_of(plan, config.epochs or 1.0)
            self.marks = [(0, 0.0, steps)]
        else:
            self.marks = [tuple(mark) for mark in read_json(path)["marks"]] if path.exists() else []

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

    def wants_estimate(self, step: int) -> bool:
        return self.minutes is not None and not self.marks and step >= FIRST_ESTIMATE

    def estimate(self, step: int, seconds: float) -> None:
        """A new mark, from the time that the steps so far have taken. What was once written for later steps
        stays.
        """
        if self.minutes is None or step == 0 or any(mark[0] >= step for mark in self.marks):
            return
        left = max(self.minutes * 60 - seconds, 0.0) / (seconds / step)
        self.marks.append((step, self.done(step), step + max(math.floor(left), 1)))
        write_json(self.path, {"marks": self.marks})


def _steps_of(plan: Plan, epochs: float) -> int:
    whole, part = int(epochs), epochs - int(epochs)
    steps = sum(len(plan.epoch(number)) for number in range(whole))
    return max(steps + (round(part * len(plan.epoch(whole))) if part else 0), 1)

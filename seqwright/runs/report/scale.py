"""Linear and logarithmic scales from values to pixels, with round ticks and their grid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.wording import tick

FAR = 30.0  # ratio of the largest to the smallest value from which the scale is logarithmic


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def around(
        cls, values: Iterable[float], start: float, end: float, *, zero: bool = False, log: bool | None = None
    ) -> Scale:
        """Return a scale that shows all values, and 0 if `zero`; logarithmic if their ratio is large."""
        found = [*values, *([0.0] if zero else [])] or [0.0, 1.0]
        low, high = min(found), max(found)
        if log is None:
            log = low > 0 and high / low > FAR
        if log:
            return cls(low / 1.15, high * 1.15, start, end, log=True)
        if low == high:
            low, high = (0.0, high * 2) if high > 0 else (low * 2 - 1, high + 1)
        step = round_step((high - low) / 4)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)

    def __call__(self, value: float) -> float:
        low, high = self._measure(self.low), self._measure(self.high)
        return self.start + (self._measure(value) - low) / (high - low) * (self.end - self.start)

    def _measure(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self, most: int = 7) -> list[float]:
        """Return at most `most` round values from `low` to `high`."""
        if self.log:
            return self._log_ticks(most)
        step = round_step((self.high - self.low) / most)
        while True:
            multiples = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
            if len(multiples) <= most:
                return [float(f"{number * step:.12g}") for number in multiples]
            step = round_step(step * 1.5)

    def levels(self, left: float, right: float, most: int) -> Markup:
        """Draw a grid line at each of at most `most` round values, with the value to its left."""
        lines = []
        for value in self.ticks(most):
            y = self(value)
            lines.append(element("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
            lines.append(element("text", tick(value), x=left - 8, y=y + 4, class_="axis end"))
        return join(lines)

    def _log_ticks(self, most: int) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            inside = [d * 10.0**e for e in decades for d in digits if self.low <= d * 10.0**e <= self.high]
            if len(inside) <= most:
                return [float(f"{value:.12g}") for value in inside]
        return inside[:: math.ceil(len(inside) / most)]


def round_step(least: float) -> float:
    """Return the smallest of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= least * (1 - 1e-9))

"""A series on a regular grid, and the windows of forecasts over it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from seqwright.data.read_report import Place
from seqwright.data.series.calendar import Frequency


@dataclass(frozen=True, eq=False)
class Series:
    """A series on a regular grid. values (steps, channels), NaN where missing; known (steps, covariates);
    start: the tick of the first step; lines: where each step comes from; times: the name of the format of
    its times.
    """

    name: str
    frequency: Frequency
    channels: tuple[str, ...]
    start: int
    values: np.ndarray
    known: np.ndarray
    lines: np.ndarray
    path: str = ""
    times: str = ""

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def fingerprint(self) -> str:
        content = hashlib.sha256(repr((self.name, self.start, self.channels, self.frequency)).encode())
        for part in (self.values, self.known):
            content.update(np.ascontiguousarray(part).tobytes())
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Series) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash((self.name, self.start, len(self)))


class Window(NamedTuple):
    """A forecast from step `at` of a series on: what comes before it is read, what follows up to `stop` is
    the truth. begin, stop: the part of the split, to which the truth is limited. line: the input line that it
    comes from.
    """

    series: Series
    at: int
    begin: int
    stop: int
    line: str = ""

    @property
    def place(self) -> Place:
        return Place(self.series.path, int(self.series.lines[self.at]) if self.at < len(self.series) else 0)

    @property
    def tick(self) -> int:
        return self.series.start + self.at

    @property
    def when(self) -> str:
        """The time of the first step of the forecast."""
        return self.series.frequency.label(self.tick)

    def past(self, steps: int) -> np.ndarray:
        """Return at most so many steps before the forecast, (steps, channels)."""
        return self.series.values[max(self.at - steps, 0) : self.at]

    def future(self, steps: int) -> np.ndarray:
        """Return the truth of so many steps (steps, channels), NaN behind the end of the part."""
        found = np.full((steps, self.series.values.shape[1]), np.nan)
        known = self.series.values[self.at : min(self.at + steps, self.stop)]
        found[: len(known)] = known
        return found

    def covariates(self, first: int, stop: int) -> np.ndarray:
        """Return what is known in advance of steps counted from the forecast (stop - first, covariates), or
        NaN.
        """
        known, steps = self.series.known, self.at + np.arange(first, stop)
        inside = (steps >= 0) & (steps < len(known))
        found = np.full((len(steps), known.shape[1]), np.nan)
        found[inside] = known[steps[inside]]
        return found

    def masked(self) -> Window:
        """Return the window without its truth."""
        return self._replace(stop=self.at)

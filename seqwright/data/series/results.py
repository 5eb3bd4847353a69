"""The outputs of a forecaster: numbers for the next steps of a series, with intervals."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqwright.data.results import Cell, Prediction
from seqwright.data.series.calendar import Frequency
from seqwright.data.text_display import pluralize

BLOCKS = "▁▂▃▄▅▆▇█"
WIDEST = 60  # characters of a line of blocks
ROUNDING = 1e-4  # in deviations of the training part
LEVEL = 80  # percent of the outcomes that an interval is to hold


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Numbers by step and channel (steps, channels), or those of several windows: what the metrics of a
    forecaster compare.

    scale: the deviation of each channel in the training part; naive: the mean error there of repeating the
    last season. low, high: the interval, if there is one. NaN: unknown.
    """

    values: np.ndarray
    scale: np.ndarray
    naive: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the interval; without one, the values themselves."""
        low = self.values if self.low is None else self.low
        return low, self.values if self.high is None else self.high

    @classmethod
    def stacked(cls, every: Sequence[Trajectory]) -> Trajectory:
        """Return the numbers of several windows (N, steps, channels)."""
        low, high = zip(*(each.interval for each in every), strict=True)
        values, low, high = (np.stack(lines) for lines in ([each.values for each in every], low, high))
        scale, naive = (np.stack(c)[:, None] for c in zip(*((e.scale, e.naive) for e in every), strict=True))
        return cls(values, scale, naive, low, high)

    def __eq__(self, other: object) -> bool:
        """Whether no number differs by more than batches of another size round differently."""
        if not isinstance(other, Trajectory) or self.values.shape != other.values.shape:
            return False
        near = np.abs(self.values - other.values) <= ROUNDING * self.scale
        return bool((near | (np.isnan(self.values) & np.isnan(other.values))).all())

    def __hash__(self) -> int:
        return hash(self.values.shape)

    def to_json(self) -> str:
        return str(self)

    def __str__(self) -> str:
        real = self.values[~np.isnan(self.values).all(-1)]
        if not len(real):
            return "unknown"
        return f"{real[0].mean():.4g} … {real[-1].mean():.4g}, mean {np.nanmean(real):.4g}"


@dataclass(frozen=True, repr=False)
class Forecast(Prediction):
    """The steps from `first` (a tick of `frequency`) on: the mean, and the interval that holds 80 % of the
    outcomes, (steps, channels) each, in the units of the data. recursive: steps behind the horizon of the
    model, which read its own output. unknown: of each column that is known in advance, how many of the steps
    have no value; columns without such steps are left out.
    """

    series: str
    channels: tuple[str, ...]
    frequency: Frequency
    first: int
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scale: np.ndarray
    naive: np.ndarray
    recursive: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    headings = ("series", "column", "from", "forecast", "first", "last")

    @property
    def value(self) -> Trajectory:
        return Trajectory(self.mean, self.scale, self.naive, self.low, self.high)

    @property
    def output_tokens(self) -> int:
        return self.mean.size

    @property
    def remark(self) -> str:
        if not self.unknown:
            return ""
        steps = pluralize(len(self.mean), "step")
        counts = ", ".join(f"{name} for {count:,} of {steps}" for name, count in self.unknown.items())
        rule = "the model reads the mean of the training part instead"
        return f"not known in advance: {counts}; {rule}; give lines with an empty target, or known"

    @property
    def times(self) -> list[str]:
        return self.frequency.labels(self.first, len(self.mean))

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "series": self.series,
            "times": self.times,
            "output": self._by_channel(self.mean),
            f"low_{LEVEL}": self._by_channel(self.low),
            f"high_{LEVEL}": self._by_channel(self.high),
            "recursive": self.recursive,
            **({"unknown": dict(self.unknown), "remark": self.remark} if self.unknown else {}),
        }

    def _by_channel(self, numbers: np.ndarray) -> dict[str, list[float]]:
        rounded = (np.array([float(f"{x:.7g}") for x in column]) for column in numbers.T)
        return {name: column.tolist() for name, column in zip(self.channels, rounded, strict=True)}

    def __str__(self) -> str:
        name = f"{self.series}: " if self.series else ""
        lines = (f"{c} {blocks(column)}" for c, column in zip(self.channels, self.mean.T, strict=True))
        return f"{name}{self.frequency.label(self.first)}  {'  '.join(lines)}"

    def __repr__(self) -> str:
        remark = f" ({self.remark})" if self.remark else ""
        return f"<Forecast of {len(self.mean)} steps: {self}{remark}>"

    def rows(self) -> Iterator[list[Cell]]:
        start = self.frequency.label(self.first)
        for name, column in zip(self.channels, self.mean.T, strict=True):
            texts = (self.series, name, start, blocks(column), f"{column[0]:.4g}", f"{column[-1]:.4g}")
            yield [Cell(text, html.escape(text), number=i > 3) for i, text in enumerate(texts)]


def blocks(numbers: Sequence[float] | np.ndarray, width: int = WIDEST) -> str:
    """Draw numbers as a line of blocks, each the mean of its share of the steps."""
    parts = np.array_split(np.asarray(numbers, dtype=float), min(len(numbers), width))
    means = np.array([part[~np.isnan(part)].mean() if not np.isnan(part).all() else np.nan for part in parts])
    low, high = np.nanmin(means), np.nanmax(means)
    heights = np.nan_to_num((means - low) / (high - low) if high > low else means * 0.0)
    return "".join(BLOCKS[int(height * (len(BLOCKS) - 1) + 0.5)] for height in heights)


def chart(past: np.ndarray, forecast: Forecast, most: int = 8) -> list[str]:
    """Draw the past and the forecast of each channel as one line of blocks, with the ends in numbers."""
    lines = []
    width = max(map(len, forecast.channels[:most]))
    for number, name in enumerate(forecast.channels[:most]):
        before, after = past[:, number], forecast.mean[:, number]
        both = np.concatenate([before[-2 * len(after) :], after])
        drawn = blocks(both)
        cut = round(len(drawn) * (1 - len(after) / len(both)))
        low, high = forecast.low[-1, number], forecast.high[-1, number]
        ends = f"{after[-1]:.4g}, {LEVEL} %: {low:.4g} to {high:.4g}"
        lines.append(f"{name:{width}} {drawn[:cut]}│{drawn[cut:]} {ends}")
    return lines


def forecast_csv(forecasts: Iterable[Forecast], *, named: bool) -> str:
    """Return forecasts as CSV in long format: a line per step and channel; `named`: with unique_id."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [*(["unique_id"] if named else []), "ds", "column", "mean", f"low_{LEVEL}", f"high_{LEVEL}"]
    )
    for forecast in forecasts:
        ends = zip(forecast.mean, forecast.low, forecast.high, strict=True)
        for time, (mean, low, high) in zip(forecast.times, ends, strict=True):
            for number, channel in enumerate(forecast.channels):
                numbers = (f"{each[number]:.7g}" for each in (mean, low, high))
                writer.writerow([*([forecast.series] if named else []), time, channel, *numbers])
    return text.getvalue()

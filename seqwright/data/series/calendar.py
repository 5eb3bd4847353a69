"""The regular grid of a time series: its frequency, its seasons, and features of the calendar."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from seqwright.data.text_display import percent

SECOND = 1_000_000  # microseconds
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
UNITS = (("week", 7 * DAY), ("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND))
REGULAR = 0.5  # share of the steps that must be equal
MONTHS = {12: "year", 3: "quarter", 1: "month"}

WEEKEND = 5  # Saturday, counted from Monday
FIRST_MONDAY = np.datetime64("0001-01-01")  # from which business days are counted

Unit = Literal["time", "month", "business", "number"]


@dataclass(frozen=True)
class Frequency:
    """A grid: the tick n is the moment origin + n · step. unit: of `step`; "time" is in microseconds since
    1970, "month" in months, "business" in days from Monday to Friday, "number" in steps. late: months are
    named by their last day. zone: what is written behind a time.
    """

    unit: Unit
    step: int
    origin: int = 0
    late: bool = False
    zone: str = ""

    @property
    def name(self) -> str:
        if self.unit == "number":
            return "step" if self.step == 1 else f"{self.step} steps"
        if self.unit == "month":
            return MONTHS.get(self.step, f"{self.step} months")
        if self.unit == "business":
            return "business day"
        for name, size in UNITS:
            if self.step % size == 0:
                return name if self.step == size else f"{self.step // size} {name}s"
        return f"{self.step / SECOND:g} seconds"

    @property
    def length(self) -> str:
        """The length of a step in words: one hour, 15 minutes."""
        return self.name if self.name[0].isdigit() else f"one {self.name}"

    @property
    def of_days(self) -> bool:
        """Whether a step is one or more days, so that its time needs no time zone."""
        return self.unit in ("month", "business") or (self.unit == "time" and self.step % DAY == 0)

    def ticks(self, moments: np.ndarray) -> np.ndarray:
        """Return the nearest tick of each moment."""
        if self.unit == "business":
            days = (moments - self.origin % DAY + DAY // 2) // DAY
            return np.busday_count(FIRST_MONDAY, days.astype("datetime64[D]"))
        if self.unit != "month":
            return np.rint((moments - self.origin) / self.step).astype(np.int64)
        dates = moments.astype("datetime64[us]") + np.timedelta64(DAY if self.late else 0, "us")
        return (dates.astype("datetime64[M]").astype(np.int64) - self.late) // self.step

    def moments(self, ticks: np.ndarray) -> np.ndarray:
        """Return the moment of each tick, as the file gives it: microseconds since 1970, or numbers."""
        if self.unit == "business":
            days = np.busday_offset(FIRST_MONDAY, ticks, roll="forward").astype(np.int64)
            return days * DAY + self.origin % DAY
        if self.unit != "month":
            return self.origin + ticks * self.step
        months = (ticks * self.step + self._phase + self.late).astype("datetime64[M]")
        return months.astype("datetime64[us]").astype(np.int64) - (DAY if self.late else 0) + self._inside

    @property
    def _phase(self) -> int:
        """The months between a multiple of the step and the origin."""
        if self.unit != "month":
            return 0
        return int(self._month(self.origin) - self.late) % self.step

    @property
    def _inside(self) -> int:
        """The microseconds between the begin of a month, or its last day, and the origin."""
        start = (self._month(self.origin)).astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)
        return int(self.origin - start + (DAY if self.late else 0))

    def _month(self, moment: int) -> np.int64:
        shifted = np.int64(moment + (DAY if self.late else 0))
        return shifted.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)

    def label(self, tick: int) -> str:
        """Return the time of a tick as text."""
        (moment,) = self.moments(np.array([tick]))
        return self.text(int(moment))

    def text(self, moment: int) -> str:
        if self.unit == "number":
            return str(moment)
        text = str(np.datetime64(moment, "us"))
        date, _, time = text.partition("T")
        if time == "00:00:00.000000" and self.of_days:
            return date
        return f"{date} {time.removesuffix('.000000')}{self.zone}"

    def labels(self, first: int, count: int) -> list[str]:
        return [self.label(tick) for tick in range(first, first + count)]

    def check_steps(self, moments: np.ndarray) -> None:
        """Raise a ValueError unless at least half of the moments are steps of this grid."""
        ticks = self.ticks(moments)
        odd = np.flatnonzero(self.moments(ticks) != moments)
        if len(odd) > (1 - REGULAR) * len(moments):
            first, near = self.text(int(moments[odd[0]])), self.label(int(ticks[odd[0]]))
            raise ValueError(f"{first} is not a step of the training data, but {near} is; shift the times")

    @property
    def seasons(self) -> tuple[int, ...]:
        """The usual seasons in steps, the shortest first: a day, a week or a year."""
        if self.unit == "number":
            return ()
        if self.unit == "month":
            return (12 // self.step,) if self.step < 12 else ()
        if self.unit == "business":
            return (5,)
        usual = (DAY, 7 * DAY) if self.step < DAY else (7 * DAY,) if self.step < 7 * DAY else ()
        found = [size // self.step for size in usual if size % self.step == 0 and size > self.step]
        year = 52 if self.step == 7 * DAY else 365 if self.step == DAY else 0
        return (*found, *([year] if year else []))

    def features(self, ticks: np.ndarray) -> np.ndarray:
        """Return calendar features from −0.5 to 0.5: time of day, day of week, of month, of year (n, 4)."""
        moments = self.moments(ticks)
        if self.unit == "number":
            return np.zeros((len(ticks), 4), np.float32)
        days = moments // DAY
        dates = moments.astype("datetime64[us]").astype("datetime64[D]")
        months, years = dates.astype("datetime64[M]"), dates.astype("datetime64[Y]")
        parts = (
            (moments % DAY) / DAY,
            ((days + 3) % 7) / 6,  # 1970 began on a Thursday
            (dates - months.astype("datetime64[D]")).astype(np.int64) / 30,
            (dates - years.astype("datetime64[D]")).astype(np.int64) / 365,
        )
        return np.stack([part - 0.5 for part in parts], axis=-1).astype(np.float32)


FEATURES = 4  # of the calendar


def infer_frequency(times: np.ndarray, series: np.ndarray, *, whole: bool, zone: str = "") -> Frequency:
    """Return the frequency of rows, by the most common distance between the times of one series; whole: the
    times are numbers of steps.

    A ValueError says why there is none.
    """
    apart = _distances(times, series)
    if not len(apart):
        raise ValueError("every series has a single time step; a forecast needs a history")
    (step, count), *_ = Counter(apart.tolist()).most_common(1)
    first = int(times.min())
    if whole:
        return Frequency("number", step, first)
    if (monthly := _monthly(times, apart)) is not None:
        return monthly
    if count < REGULAR * len(apart):
        text = f"only {percent(count / len(apart))} of the steps are one {Frequency('time', step).name} apart"
        raise ValueError(f"the times are irregular: {text}; resample them to a regular frequency")
    weeks, weekdays = np.divmod(times // DAY + 3, 7)  # 1970 began on a Thursday
    business = step == DAY and weeks.max() > weeks.min() and weekdays.max() < WEEKEND
    return Frequency("business" if business else "time", step, first, zone=zone)


def check_frequency(known: Frequency, times: np.ndarray, series: np.ndarray, *, whole: bool) -> None:
    """Raise a ValueError unless rows have a known frequency: the business days of one week look like days,
    and a single row has no frequency of its own.
    """
    if whole is not (known.unit == "number"):
        forms = ("times", "numbers of steps")
        raise ValueError(f"these are {forms[whole]}, but the training data have {forms[not whole]}")
    ticks = known.ticks(times)
    if (known.moments(ticks) == times).all() and _usual(_distances(ticks, series)) in (1, None):
        return
    own = infer_frequency(times, series, whole=whole)
    if (own.unit, own.step) != (known.unit, known.step):
        raise ValueError(f"a step is {own.length}, but {known.length} in the training data; resample it")
    known.check_steps(times)


def _distances(times: np.ndarray, series: np.ndarray) -> np.ndarray:
    """Return the distances between the times of each series, in order."""
    order = np.lexsort((times, series))
    apart = np.diff(times[order])
    return apart[(np.diff(series[order]) == 0) & (apart > 0)]


def _usual(distances: np.ndarray) -> int | None:
    return Counter(distances.tolist()).most_common(1)[0][0] if len(distances) else None


def _monthly(times: np.ndarray, apart: np.ndarray) -> Frequency | None:
    """Return a frequency of months, quarters or years if all times are on the same or the last day."""
    if apart.min() < 28 * DAY:
        return None
    dates = times.astype("datetime64[us]")
    late = bool(
        (
            (dates + np.timedelta64(DAY, "us")).astype("datetime64[D]").astype("datetime64[M]")
            != dates.astype("datetime64[M]")
        ).all()
    )
    shifted = dates + np.timedelta64(DAY if late else 0, "us")
    inside = shifted - shifted.astype("datetime64[M]").astype("datetime64[us]")
    if len(np.unique(inside)) > 1:
        return None
    months = np.unique(shifted.astype("datetime64[M]").astype(np.int64))
    steps = np.diff(months)
    (step, count), *_ = Counter(steps.tolist()).most_common(1)
    return Frequency("month", step, int(times.min()), late) if count >= REGULAR * len(steps) else None

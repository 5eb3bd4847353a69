"""Time series from tables: one time column and number columns (wide), or long format `unique_id, ds, y`.

A series becomes a regular grid of steps. Rules for what does not fit the grid, each counted in the report: a
missing step is added with missing values; of two lines with the same time the last one counts; lines out of
order are sorted; an empty cell, NaN or an infinity is a missing value. Missing values are filled with the
last value before them where a model reads them, and are never scored.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.files import Input
from seqwright.data.readers.opened import OpenedFiles
from seqwright.data.readers.series_sheets import MISSING, SKIP, Sheet, given_in, open_sheet, refuse, roles_of
from seqwright.data.series.calendar import Frequency, check_frequency, infer_frequency
from seqwright.data.series.numbers import NumberFormat, number_format
from seqwright.data.series.times import TimeFormat, check_zone, time_format
from seqwright.data.series.windows import Series, Window
from seqwright.data.split import Part, fractions_of, place_in_order
from seqwright.data.text_display import excerpt, percent, pluralize, shorten_list
from seqwright.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seqwright.config import DataConfig

SAMPLE = 5000  # rows that decide what the columns hold
REPEATED = 0.1  # share of rows with the time of another one, from which on a file holds several series
SHARED = 0.5  # values of a column that distinguishes series, at most, as a share of the rows


class Table(NamedTuple):
    """The series of some files, what was found while reading them, and sentences that describe them. ids: the
    columns that tell the series apart, where no name says so.
    """

    series: tuple[Series, ...]
    report: ReadReport
    form: tuple[str, ...]
    ids: tuple[str, ...] = ()


@lru_cache(maxsize=3)  # the files of each part
def _loaded(
    paths: tuple[str, ...], stamp: tuple[Any, ...], data: DataConfig, known: Frequency | None, times: str
) -> Table:
    """Read files, on a grid if it is known, with times like those of the format `times`; `stamp` identifies
    their contents.
    """
    written = {"known": times, "days": bool(times) and known is not None and known.of_days}
    columns = _columns(paths, data, written)
    ids: tuple[str, ...] = ()
    repeated, conflicting = columns.repeated
    if repeated > REPEATED and not columns.roles.ids and (ids := _telling_apart(paths, data, columns)):
        columns = _columns(paths, replace(data, series_id=ids), written)
    elif conflicting > REPEATED:
        raise InputError(
            f"{paths[0]}: {percent(conflicting)} of the lines have the time of another line, with other "
            'numbers; name the columns that tell series apart, as in data.series_id=\'["store", "item"]\', '
            "or remove these lines"
        )
    rows, whole = (columns.times, columns.numbers), columns.format.whole
    try:
        zone = "+00:00" if columns.format.zoned else ""
        frequency = known or infer_frequency(*rows, whole=whole, zone=zone)
        if not frequency.of_days:
            columns.check_zones(times)
        if known is not None:
            check_frequency(known, *rows, whole=whole)
    except ValueError as error:
        raise InputError(f"{paths[0]}: {error}") from None
    series = tuple(columns.series(number, name, frequency) for name, number in columns.ids.items())
    return Table(series, columns.report, _form(columns, series, frequency), ids)


def _columns(paths: Sequence[str], data: DataConfig, written: Mapping[str, Any]) -> _Columns:
    columns = _Columns(data, ReadReport(), written)
    for path in paths:
        columns.read(open_sheet(path, data, columns.report))
    return columns


def _telling_apart(paths: Sequence[str], data: DataConfig, columns: _Columns) -> tuple[str, ...]:
    """Return the columns of texts whose values tell rows of the same time apart: one of them, or all."""
    roles, heads = columns.roles, columns.heads
    texts = [heads.index(name) for name in roles.unused]
    choices = [(n,) for n in texts] + ([tuple(texts)] if len(texts) > 1 else [])
    rows = [cells for path in paths for _, cells in open_sheet(path, data, ReadReport()).rows]
    for choice in choices:
        names = [tuple(cells[n].strip() for n in choice) for cells in rows]
        moments = {(roles.time(cells), name) for cells, name in zip(rows, names, strict=True)}
        if len(moments) >= (1 - REPEATED) * len(rows) and len(set(names)) <= SHARED * len(rows):
            return tuple(heads[n] for n in choice)
    return ()


class _Columns:
    """The columns of a table as numbers, row by row, in the order of the files. written: what is known of the
    format of the times.
    """

    def __init__(self, data: DataConfig, report: ReadReport, written: Mapping[str, Any]):
        self.data, self.report, self.written = data, report, written
        self.formats: list[TimeFormat] = []  # of the times in each file
        self.numbers_in: dict[int, NumberFormat] = {}  # by column, in the file that was read last
        self.ids: dict[str, int] = {}
        self._ids, self._times, self._lines, self._values = array("q"), array("q"), array("q"), array("d")
        self._files: list[tuple[int, str]] = []  # the row at which each file begins
        self.heads: tuple[str, ...] = ()

    def read(self, sheet: Sheet) -> None:
        sample = list(islice(sheet.rows, SAMPLE))
        if not sample:
            raise InputError(
                f"{sheet.path} has no rows; expected a header, such as date,value, and a line per step"
            )
        if self.heads and sheet.heads != self.heads:
            raise InputError(
                f"{sheet.path} has other columns than {self._files[0][1]}; give files of one form"
            )
        if not self.heads:
            self.heads = sheet.heads
            self.roles = roles_of(sheet.path, sheet.heads, [cells for _, cells in sample], self.data)
        self._files.append((len(self._times), sheet.path))
        self.formats.append(self._time_format(sheet.path, sample))
        columns = (*self.roles.channels, *self.roles.known)
        self.numbers_in = {n: _number_format(sheet, n, sample) for n in columns}
        for line, cells in chain(sample, sheet.rows):
            try:
                self._add(sheet, line, cells)
            except InputError as error:
                refuse(error, Place(sheet.path, line), self.data, self.report)

    def _time_format(self, path: str, sample: Sequence[tuple[int, Sequence[str]]]) -> TimeFormat:
        times = [self.roles.time(cells) for _, cells in sample]
        try:
            return time_format(times, integers=True, **self.written)
        except ValueError as error:
            odd = next((line for line, cells in sample if excerpt(self.roles.time(cells)) in str(error)), 2)
            raise InputError(f"{Place(path, odd)}: column {self.time_name}: {error}") from None

    @property
    def format(self) -> TimeFormat:
        """The format of the times in the file that was read last."""
        return self.formats[-1]

    def check_zones(self, times: str) -> None:
        """Raise a ValueError if the times of a file differ in their zone from the format `times`, or without
        one from the first file.
        """
        for each in self.formats:
            check_zone(times or self.formats[0].name, each.name)

    @property
    def time_name(self) -> str:
        return " and ".join(self.heads[n] for n in self.roles.times)

    def _add(self, sheet: Sheet, line: int, cells: Sequence[str]) -> None:
        roles, text = self.roles, self.roles.time(cells)
        try:
            time = self.format.parse(text)
        except (ValueError, OverflowError) as error:
            where = f"{Place(sheet.path, line)}: column {self.time_name}"
            reason = "is empty" if not text else f"has {excerpt(text)}, not a time like those before it"
            raise InputError(f"{where} {reason}; fix it, or {SKIP}") from error
        numbers = [_number(sheet, line, n, cells[n].strip(), how) for n, how in self.numbers_in.items()]
        if any(map(math.isnan, numbers)):
            self.report.add(Reason.MISSING_VALUE, Place(sheet.path, line))
        self._ids.append(self.ids.setdefault(roles.name(cells), len(self.ids)))
        self._times.append(time)
        self._lines.append(line)
        self._values.extend(numbers)

    @property
    def times(self) -> np.ndarray:
        return np.frombuffer(self._times, np.int64) if self._times else np.empty(0, np.int64)

    @property
    def numbers(self) -> np.ndarray:
        """The number of the series of each row."""
        return np.frombuffer(self._ids, np.int64) if self._ids else np.empty(0, np.int64)

    @property
    def repeated(self) -> tuple[float, float]:
        """The shares of rows that repeat a time of their series: all of them, those with other numbers."""
        if not self._times:
            return 0.0, 0.0
        order = np.lexsort((self.times, self.numbers))
        width = len(self.roles.channels) + len(self.roles.known)
        values = np.nan_to_num(np.frombuffer(self._values)).reshape(-1, width)[order]
        again = (np.diff(self.times[order]) == 0) & (np.diff(self.numbers[order]) == 0)
        other = again & (values[1:] != values[:-1]).any(-1)
        return float(again.sum() / len(order)), float(other.sum() / len(order))

    @cached_property
    def _rows_of(self) -> list[np.ndarray]:
        order = np.argsort(self.numbers, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.numbers))[:-1])

    def series(self, number: int, name: str, frequency: Frequency) -> Series:
        """Sort the rows of a series and put them on the grid of its frequency."""
        rows, count = self._rows_of[number], len(self.roles.channels)
        times, lines = self.times[rows], np.frombuffer(self._lines, np.int64)[rows]
        path = next(path for begin, path in reversed(self._files) if begin <= rows[0])
        for place in (lines[1:][times[1:] < times[:-1]]).tolist():
            self.report.add(Reason.UNSORTED, Place(path, place))
        order = np.argsort(times, kind="stable")  # of equal times the last line stays last
        rows, times, lines = rows[order], times[order], lines[order]
        ticks = frequency.ticks(times)
        for place in lines[frequency.moments(ticks) != times].tolist():
            self.report.add(Reason.OFF_GRID, Place(path, place))
        start, steps = int(ticks[0]), int(ticks[-1] - ticks[0]) + 1
        if steps > 20 * len(rows) + 1000:
            spread = f"{len(rows):,} lines are spread over {steps:,} steps of {frequency.length}"
            raise InputError(f"{path}: {spread}; resample the series to a regular frequency")
        every = np.frombuffer(self._values).reshape(len(self._times), -1)
        values, places = np.full((steps, every.shape[1]), np.nan), np.zeros(steps, np.int64)
        values[ticks - start], places[ticks - start] = every[rows], lines
        for place in lines[:-1][ticks[1:] == ticks[:-1]].tolist():
            self.report.add(Reason.DUPLICATE_TIME, Place(path, place))
        gaps = np.flatnonzero(places == 0)
        places = np.maximum.accumulate(places) if len(gaps) else places
        for place in places[gaps].tolist():
            self.report.add(Reason.MISSING_STEP, Place(path, place))
        channels = tuple(self.heads[n] for n in self.roles.channels)
        parts, times = (values[:, :count], values[:, count:], places), self.formats[0].name
        return Series(name, frequency, channels, start, *parts, path, times)


def _number_format(sheet: Sheet, column: int, sample: Sequence[tuple[int, Sequence[str]]]) -> NumberFormat:
    return number_format(given_in(cells[column].strip() for _, cells in sample), commas=sheet.commas)


def _number(sheet: Sheet, line: int, column: int, text: str, written: NumberFormat) -> float:
    """Return the number in a cell; NaN for a missing or infinite one."""
    try:
        value = written.parse(text)
    except ValueError:
        if text.lower() in MISSING:
            return math.nan
        place, name = Place(sheet.path, line), sheet.heads[column]
        raise InputError(
            f"{place}: {excerpt(text)} in the column {name} is not a number; fix it, leave the cell empty, "
            f"or {SKIP}"
        ) from None
    return value if math.isfinite(value) else math.nan


def _form(columns: _Columns, series: Sequence[Series], frequency: Frequency) -> tuple[str, ...]:
    """Describe a table in sentences."""
    roles, heads, steps = columns.roles, columns.heads, sum(map(len, series))
    first, last = min(s.start for s in series), max(s.start + len(s) - 1 for s in series)
    by = ", ".join(heads[n] for n in roles.ids)
    kind = f"{len(series):,} series by {by}" if by else "one series"
    span = f"{frequency.label(first)} to {frequency.label(last)}"
    lines = [
        f"{kind}: times in {columns.time_name}, numbers in {shorten_list(series[0].channels)}",
        f"a step is {frequency.length}: {pluralize(steps, 'step')}, {span}",
    ]
    remarks = (columns.format.remark, *(written.remark for written in columns.numbers_in.values()))
    lines += [remark for remark in dict.fromkeys(remarks) if remark]
    if roles.known:
        lines.append(f"known in advance: {shorten_list([heads[n] for n in roles.known])}")
    if roles.unused:
        lines.append(f"not used: {shorten_list(roles.unused)}")
    constant = [
        name
        for channel, name in enumerate(series[0].channels)
        if all(_constant(each.values[:, channel]) for each in series)
    ]
    if constant:
        lines.append(f"{shorten_list(constant)} never varies, so any forecast of it is right")
    return tuple(lines)


def _constant(column: np.ndarray) -> bool:
    real = column[~np.isnan(column)]
    return len(real) == 0 or bool((real == real[0]).all())


# The reader ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeriesFiles(OpenedFiles):
    """Files of series. Every step is a window: the forecast that begins there.

    grid: the frequency of a trained model, and times: the name of the format of its times. Without them,
    files that are not for training have those of the training files: equal times are equal ticks.
    """

    grid: Frequency | None = None
    times: str = ""

    @cached_property
    def table(self) -> Table:
        if not self.paths:
            raise ConfigError("no file to read; name one")
        stamp = []
        for path in self.paths:
            if Input(path).single_pass:
                raise InputError(f"{path} is a pipe; a series is read several times: save it to a file")
            state = os.stat(path) if os.path.exists(path) else None
            stamp.append(None if state is None else (state.st_mtime_ns, state.st_size, state.st_ino))
        reading = replace(
            self.data, held_out=0.05, rows=None, horizon=None, lookback=None, train=(), valid=(), test=()
        )
        return _loaded(self.paths, tuple(stamp), reading, *self._known_grid)

    @property
    def _known_grid(self) -> tuple[Frequency | None, str]:
        if self.grid is not None or self._divided or not self.data.train:
            return self.grid, self.times
        series = replace(self, paths=self.data.train).table.series[0]
        return series.frequency, series.times

    @property
    def form(self) -> tuple[str, ...]:
        rows = self.data.rows
        unused = self.steps - sum(rows) if rows and self._divided else 0
        more = (f"data.rows leaves the last {pluralize(unused, 'step')} unused",) if unused else ()
        return (*self.table.form, *more)

    @property
    def _divided(self) -> bool:
        """Whether the parts of the split come from these files."""
        return self.paths == self.data.train

    @cached_property
    def first(self) -> int:
        return min(series.start for series in self.table.series)

    @property
    def steps(self) -> int:
        """The number of steps between the first and the last time of all series."""
        return max(series.start + len(series) for series in self.table.series) - self.first

    @property
    def cuts(self) -> tuple[int, ...]:
        """The ends of the parts of the split, in steps after the first time."""
        return tuple(stop for _, stop in self.spans.values())

    @cached_property
    def spans(self) -> dict[Part, tuple[int, int]]:
        """The first step of each part of the split, and the one behind its end, in steps after the first
        time; one part: the whole.
        """
        steps, rows = self.steps, self.data.rows
        if not self._divided:
            return {"train": (0, steps)}
        if rows and sum(rows) > steps:
            raise InputError(f"data.rows has {sum(rows):,} steps, but {self.name} has {steps:,}; lower it")
        count = sum(rows) if rows else steps
        fractions = fractions_of(self.data)
        numbers = groupby(range(count), lambda number: fractions.part(place_in_order(number, count)))
        steps_of = {part: list(group) for part, group in numbers}
        return {part: (every[0], every[-1] + 1) for part, every in steps_of.items()}

    def read(self, report: ReadReport) -> Iterator[Window]:
        return self._windows(self.spans.values(), report)

    def read_part(self, part: Part, report: ReadReport) -> Iterator[Window]:
        """Yield the windows of a part of the split."""
        return self._windows([self.spans[part]] if part in self.spans else [], report)

    def _windows(self, spans: Collection[tuple[int, int]], report: ReadReport) -> Iterator[Window]:
        for reason, seen in self.table.report:
            for place in seen.places:
                report.add(reason, place, seen.fault)
            report.counts[reason].count += seen.count - len(seen.places)
        for series in self.table.series:
            offset = series.start - self.first
            for span in spans:
                begin, stop = (min(max(cut - offset, 0), len(series)) for cut in span)
                for at in range(begin, stop):
                    yield Window(series, at, begin, stop)

    def share(self, window: Window) -> float:
        """Return the place of a window from 0 to 1 that decides its part: the last steps come first."""
        return place_in_order(window.tick - self.first, self.cuts[-1])

    def latest(self) -> list[Window]:
        """Return the forecast after the end of each series. Steps at the end without any value of the series
        are its future, for which covariates are known.
        """
        found = []
        for series in self.table.series:
            real = np.flatnonzero(~np.isnan(series.values).all(-1))
            at = int(real[-1]) + 1 if len(real) else 0
            found.append(Window(series, at, at, at))
        return found


def open_series(paths: Sequence[str], data: DataConfig) -> SeriesFiles:
    return SeriesFiles(tuple(paths), data)

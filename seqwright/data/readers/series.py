"""Time series from tables: one time column and number columns (wide), or long format `unique_id, ds, y`.

A series becomes a regular grid of steps. Rules for what does not fit the grid, each counted in the report: a
missing step is added with missing values; of two lines with the same time the last one counts; lines out of
order are sorted; an empty cell, NaN or an infinity is a missing value. Missing values are filled with the
last value before them where a model reads them, and are never scored.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import chain, groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqwright.data.calendar import Frequency, infer_frequency
from seqwright.data.glance import PARQUET, Glance
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, read_blocks
from seqwright.data.readers.opened import OpenedFiles
from seqwright.data.readers.sniffing import quoted
from seqwright.data.split import fractions_of, place_in_order
from seqwright.data.text_display import excerpt, pluralize, shorten_list
from seqwright.errors import ConfigError, InputError
from seqwright.files import uncompressed

if TYPE_CHECKING:
    from seqwright.config import DataConfig

TIMES = ("ds", "date", "time", "timestamp", "datetime", "date_time", "day", "week", "month", "year", "period")
IDS = ("unique_id", "series_id", "item_id", "series", "id")
VALUES = ("y", "value", "values", "target")
MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "?", "inf", "-inf", "+inf", "infinity", "-infinity")
FORMATS = (
    *("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y"),
    *("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y"),
    *("%Y-%m", "%Y/%m", "%b %Y", "%B %Y", "%d-%b-%Y", "%d %b %Y", "%Y-%m-%d %H"),
)
NUMERIC = 0.5  # share of numbers from which on a column is one of numbers
ORDERED = 0.9  # share of steps forwards in time, from which on a column without the name of one holds times
PROSE = 3  # words of a cell from which on it is a text
SAMPLE = 5000  # rows that decide what the columns hold
SKIP = "skip such lines with data.skip_bad_rows=true"

Parse = Callable[[str], int]


@dataclass(frozen=True, eq=False)
class Series:
    """A series on a regular grid. values (steps, channels), NaN where missing; known (steps, covariates);
    start: the tick of the first step; lines: where each step comes from; file: the number of its file.
    """

    name: str
    frequency: Frequency
    channels: tuple[str, ...]
    start: int
    values: np.ndarray
    known: np.ndarray
    lines: np.ndarray
    path: str = ""

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

    def masked(self) -> Window:
        """Return the window without its truth."""
        return self._replace(stop=self.at)


class Roles(NamedTuple):
    """The columns of a table: their numbers, counted from 0, by what they hold."""

    time: int
    id: int | None
    channels: tuple[int, ...]
    known: tuple[int, ...]
    unused: tuple[str, ...]


# Recognition ---------------------------------------------------------------------------------------------


def claims_series(glance: Glance) -> str | None:
    """Return the evidence that a table holds series, or None."""
    if glance.shape == "parquet":
        return "a binary table"
    if glance.shape == "jsonl":
        cells = {column.name: column for column in glance.columns}
        lists = cells["target"].sample if {"start", "target"} <= cells.keys() else ()
        return "JSON objects with a start and a target list" if _all(lists, "[") else None
    if glance.shape not in ("csv", "tsv") or glance.width < 2 or glance.rows < 3:
        return None
    heads, bodies = [column.sample[0] for column in glance.columns], [c.sample[1:] for c in glance.columns]
    if any(_is_number(head) for head in heads) or any(column.words >= PROSE for column in glance.columns):
        return None
    time = _time_column(heads, bodies)
    numbers = [
        h for n, (h, body) in enumerate(zip(heads, bodies, strict=True)) if n != time and _numeric(body)
    ]
    numbers = [head for head in numbers if head.strip().lower() not in IDS]
    if time is None or not numbers:
        return None
    return f"every cell of {heads[time].strip()} is a time, with numbers in {shorten_list(numbers)}"


def _all(cells: Sequence[str], mark: str) -> bool:
    return bool(cells) and all(cell.lstrip().startswith(mark) for cell in cells)


def _time_column(heads: Sequence[str], bodies: Sequence[Sequence[str]]) -> int | None:
    """Return the number of the column whose cells are all times: one that is named so, or in time order."""
    for number, (head, body) in enumerate(zip(heads, bodies, strict=True)):
        named = head.strip().lower() in TIMES
        try:
            parse = time_parser(body, integers=named)
            ticks = [parse(cell.strip()) for cell in body]
        except ValueError:
            continue
        forwards = sum(b >= a for a, b in pairwise(ticks))
        if ticks and (named or forwards >= ORDERED * (len(ticks) - 1)):
            return number
    return None


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _numeric(cells: Sequence[str]) -> bool:
    given = [cell for cell in cells if cell.strip().lower() not in MISSING]
    return bool(given) and sum(map(_is_number, (cell.replace(",", ".") for cell in given))) > NUMERIC * len(
        given
    )


# Times ---------------------------------------------------------------------------------------------------


def time_parser(cells: Sequence[str], *, integers: bool) -> Parse:
    """Return the parser that fits every cell: microseconds since 1970, or whole numbers of steps.

    A ValueError names the first cell that fits no format, or a mix of times with and without a zone.
    """
    sample = [cell.strip() for cell in cells if cell.strip()]
    if not sample:
        raise ValueError("no times")
    if all(re.fullmatch(r"[+-]?\d{1,18}", cell) for cell in sample):
        if not integers:
            raise ValueError(f"{sample[0]!r} is a number")
        return int
    zones = {_iso(cell).tzinfo is not None for cell in sample} if _fits(_iso, sample) else None
    if zones == {True, False}:
        first = _iso(sample[0]).tzinfo is None
        odd = next(cell for cell in sample if (_iso(cell).tzinfo is None) is not first)
        rule = "some times have a time zone and some have none; write all of them in one zone"
        raise ValueError(f"{rule} ({excerpt(odd)} is the first that differs)")
    if zones is not None:
        return _zoned if zones == {True} else _unzoned
    for form in FORMATS:
        parse = _strptime(form)
        if _fits(parse, sample):
            return parse
    odd = next((cell for cell in sample if not _fits(_iso, [cell])), sample[0])
    raise ValueError(f"{excerpt(odd)} is not a time in the format of the others; write 2024-05-31 13:00")


def _fits(parse: Callable[[str], Any], cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            parse(cell)
    except (ValueError, OverflowError):
        return False
    return True


def _iso(cell: str) -> datetime:
    if len(cell) < 8:  # 2024 and 2024-05 are read as numbers, and as months
        raise ValueError(cell)
    return datetime.fromisoformat(cell)


def _zoned(cell: str) -> int:
    return _microseconds(_with_zone(_iso(cell), True))


def _unzoned(cell: str) -> int:
    return _microseconds(_with_zone(_iso(cell), False))


def _with_zone(moment: datetime, wanted: bool) -> datetime:
    if (moment.tzinfo is not None) is not wanted:
        raise ValueError("mixed time zones")
    return moment


def _strptime(form: str) -> Parse:
    return lambda cell: _microseconds(datetime.strptime(cell, form))


def _microseconds(moment: datetime) -> int:
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


# Tables --------------------------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """A table of texts: the names of its columns, and its rows with their lines, read once."""

    path: str
    heads: tuple[str, ...]
    rows: Iterator[tuple[int, Sequence[str]]]
    commas: bool = False  # decimal commas


def _sheet(path: str, data: DataConfig, report: ReadReport) -> Sheet:
    if uncompressed(path).suffix.lower() in PARQUET:
        return _parquet(path)
    decoding = Decoding(data.encoding, data.on_bad_bytes, data.max_line)
    lines = (line for _, block in read_blocks(Input(path), decoding, report) for line in block)
    blank = 0
    first = ""
    for first in lines:
        if first.strip():
            break
        blank += 1
    if first.lstrip().startswith("{"):
        raise InputError(f"{path} has JSON lines, which only predict reads; write CSV: unique_id,ds,y")
    marks = (data.delimiter,) if data.delimiter else ("\t", ";", ",", "|")
    mark = next((mark for mark in marks if mark in first), ",")
    rows = _rows(path, chain([first], lines), mark, data, report, blank)
    line, heads = next(rows, (0, ()))
    if any(map(_is_number, heads)):  # no header
        names = tuple(f"column {number}" for number in range(1, len(heads) + 1))
        return Sheet(path, names, chain([(line, heads)], rows), mark == ";")
    return Sheet(path, tuple(cell.strip() for cell in heads), rows, mark == ";")


def _rows(
    path: str, lines: Iterator[str], mark: str, data: DataConfig, report: ReadReport, line: int
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the rows that have as many cells as the first one, with their lines."""
    width = 0
    try:
        for count, cells in quoted(lines, mark, data.max_line):
            line += count
            if not any(cell.strip() for cell in cells):
                continue
            width = width or len(cells)
            if len(cells) != width:
                place = Place(path, line)
                fault = f"{place}: the line has {pluralize(len(cells), 'cell')}, the header {width}"
                _refuse(InputError(f"{fault}; fix it, or {SKIP}"), place, data, report)
                continue
            yield line, cells
    except csv.Error as error:
        raise InputError(f"{Place(path, line + 1)}: the table cannot be read: {error}; fix it") from error


def _refuse(error: InputError, place: Place, data: DataConfig, report: ReadReport) -> None:
    """Raise the error of a line, or count the line if bad ones are to be skipped."""
    if not data.skip_bad_rows:
        raise error
    report.add(Reason.BAD_ROW, place, str(error))


def _parquet(path: str) -> Sheet:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            f"{path} needs pyarrow; run pip install 'seqwright[parquet]', or write CSV"
        ) from None
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a Parquet file: {error}; write it again, or write CSV") from error
    columns = [["" if cell is None else str(cell) for cell in column.to_pylist()] for column in table.columns]
    return Sheet(path, tuple(table.column_names), iter(enumerate(zip(*columns, strict=True), start=1)))


def _roles(path: str, heads: tuple[str, ...], sample: Sequence[Sequence[str]], data: DataConfig) -> Roles:
    """Decide what each column holds, by its name and its first cells."""
    names, bodies = [head.lower() for head in heads], list(zip(*sample, strict=True))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: two columns are named {twice!r}; rename one")
    for name in (*data.known, *data.target):
        if name not in heads:
            raise ConfigError(f"{path} has no column {name!r}, only {shorten_list(heads)}; name one of them")
    time = next((n for n, name in enumerate(names) if name in TIMES), None)
    time = _time_column(heads, bodies) if time is None else time
    if time is None:
        raise InputError(f"{path} has no time column among {shorten_list(heads)}; name one ds, date or time")
    known = tuple(heads.index(name) for name in data.known)
    rest = [n for n in range(len(names)) if n != time and n not in known]
    identity = next((n for n in rest if names[n] in IDS), None)
    channels = [n for n in rest if n != identity and _numeric(bodies[n])]
    if data.target:
        channels = [heads.index(name) for name in data.target]
    elif identity is not None and (named := [n for n in channels if names[n] in VALUES]):
        channels = named[:1]
    if not channels:
        raise InputError(f"{path} has no column of numbers among {shorten_list(heads)}; add one")
    used = {time, identity, *channels, *known}
    return Roles(
        time, identity, tuple(channels), known, tuple(h for n, h in enumerate(heads) if n not in used)
    )


class Table(NamedTuple):
    """The series of some files, what was found while reading them, and sentences that describe them."""

    series: tuple[Series, ...]
    report: ReadReport
    form: tuple[str, ...]


@lru_cache(maxsize=2)
def _loaded(paths: tuple[str, ...], stamp: tuple[Any, ...], data: DataConfig) -> Table:
    """Read files; `stamp` identifies their contents."""
    report = ReadReport()
    columns = _Columns(data, report)
    for path in paths:
        columns.read(_sheet(path, data, report))
    try:
        frequency = infer_frequency(columns.times, columns.numbers, whole=columns.whole)
    except ValueError as error:
        raise InputError(f"{paths[0]}: {error}") from None
    series = tuple(columns.series(number, name, frequency) for name, number in columns.ids.items())
    return Table(series, report, _form(columns, series, frequency))


class _Columns:
    """The columns of a table as numbers, row by row, in the order of the files."""

    def __init__(self, data: DataConfig, report: ReadReport):
        self.data, self.report = data, report
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
            self.roles = _roles(sheet.path, sheet.heads, [cells for _, cells in sample], self.data)
        self._files.append((len(self._times), sheet.path))
        times = [cells[self.roles.time] for _, cells in sample]
        name = self.heads[self.roles.time]
        try:
            parse = time_parser(times, integers=True)
        except ValueError as error:
            odd = next(
                (line for line, cells in sample if excerpt(cells[self.roles.time].strip()) in str(error)), 2
            )
            raise InputError(f"{Place(sheet.path, odd)}: column {name}: {error}") from None
        self.whole = parse is int
        for line, cells in chain(sample, sheet.rows):
            try:
                self._add(sheet, line, cells, parse)
            except InputError as error:
                _refuse(error, Place(sheet.path, line), self.data, self.report)

    def _add(self, sheet: Sheet, line: int, cells: Sequence[str], parse: Parse) -> None:
        roles, text = self.roles, cells[self.roles.time].strip()
        try:
            time = parse(text)
        except (ValueError, OverflowError) as error:
            where = f"{Place(sheet.path, line)}: column {self.heads[roles.time]}"
            reason = "is empty" if not text else f"has {excerpt(text)}, not a time like those before it"
            raise InputError(f"{where} {reason}; fix it, or {SKIP}") from error
        numbers = [_number(sheet, line, n, cells[n].strip()) for n in (*roles.channels, *roles.known)]
        if any(map(math.isnan, numbers)):
            self.report.add(Reason.MISSING_VALUE, Place(sheet.path, line))
        key = "" if roles.id is None else cells[roles.id].strip()
        self._ids.append(self.ids.setdefault(key, len(self.ids)))
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
            spread = f"{len(rows):,} lines are spread over {steps:,} steps of one {frequency.name}"
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
        return Series(name, frequency, channels, start, values[:, :count], values[:, count:], places, path)


def _number(sheet: Sheet, line: int, column: int, text: str) -> float:
    """Return the number in a cell; NaN for a missing or infinite one."""
    try:
        value = float(text.replace(",", ".") if sheet.commas else text)
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
    kind = "one series" if roles.id is None else f"{len(series):,} series by {heads[roles.id]}"
    span = f"{frequency.label(first)} to {frequency.label(last)}"
    lines = [
        f"{kind}: times in {heads[roles.time]}, numbers in {shorten_list(series[0].channels)}",
        f"a step is one {frequency.name}: {pluralize(steps, 'step')}, {span}",
    ]
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
    """Files of series. Every step is a window: the forecast that begins there."""

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
        return _loaded(self.paths, tuple(stamp), reading)

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

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The ends of the parts of the split, in steps after the first time; one part: the whole."""
        steps, rows = self.steps, self.data.rows
        if not self._divided:
            return (steps,)
        if rows and sum(rows) > steps:
            raise InputError(
                f"data.rows asks for {sum(rows):,} steps, but {self.name} has {steps:,}; ask for fewer"
            )
        count = sum(rows) if rows else steps
        fractions = fractions_of(self.data)
        parts = [fractions.part(place_in_order(number, count)) for number in range(count)]
        ends = [len(list(group)) for _, group in groupby(parts)]
        return tuple(int(end) for end in np.cumsum(ends))

    def read(self, report: ReadReport) -> Iterator[Window]:
        for reason, seen in self.table.report:
            for place in seen.places:
                report.add(reason, place, seen.fault)
            report.counts[reason].count += seen.count - len(seen.places)
        for series in self.table.series:
            offset, begin = series.start - self.first, 0
            for cut in self.cuts:
                stop = min(max(cut - offset, 0), len(series))
                for at in range(begin, stop):
                    yield Window(series, at, begin, stop)
                begin = stop

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

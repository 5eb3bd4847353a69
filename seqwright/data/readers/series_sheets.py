"""Tables with a time column: which files hold series, and what each of their columns holds."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from seqwright.data.glance import PARQUET, Glance
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, table_lines
from seqwright.data.readers.sniffing import quoted
from seqwright.data.series.numbers import fitting, number_format
from seqwright.data.series.times import time_format
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, InputError
from seqwright.files import uncompressed

if TYPE_CHECKING:
    from seqwright.config import DataConfig

TIMES = (
    *("ds", "date", "time", "timestamp", "datetime", "date_time"),
    *("day", "week", "month", "quarter", "year", "period"),
)
IDS = ("unique_id", "series_id", "item_id", "series", "id")
VALUES = ("y", "value", "values", "target")
ROW_NUMBERS = ("index", "unnamed: 0", "__index_level_0__")  # as pandas writes them
MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "?", "inf", "-inf", "+inf", "infinity", "-infinity")
NUMERIC = 0.5  # share of numbers from which on a column is one of numbers
ORDERED = 0.9  # share of steps forwards in time, from which on a column without the name of one holds times
PROSE = 3  # words of a cell from which on it is a text
SKIP = "skip such lines with data.skip_bad_rows=true"
CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AP]M)?", re.I)


class Roles(NamedTuple):
    """The columns of a table: their numbers, counted from 0, by what they hold. times: a time, or a date and
    a time of day. ids: the columns that tell series apart.
    """

    times: tuple[int, ...]
    ids: tuple[int, ...]
    channels: tuple[int, ...]
    known: tuple[int, ...]
    unused: tuple[str, ...]

    def time(self, cells: Sequence[str]) -> str:
        return " ".join(cells[n].strip() for n in self.times)

    def name(self, cells: Sequence[str]) -> str:
        """Return the name of the series that a row belongs to."""
        return "/".join(cells[n].strip() for n in self.ids)


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
    if any(_is_number(head) for head in heads):  # no header
        heads, bodies = _numbered(len(heads)), [column.sample for column in glance.columns]
    time = _time_column(heads, bodies)
    others = [column for n, column in enumerate(glance.columns) if n != time]
    if any(column.words >= PROSE and 2 * column.distinct > glance.rows for column in others):
        return None
    numbers = [
        h for n, (h, body) in enumerate(zip(heads, bodies, strict=True)) if n != time and _numeric(body)
    ]
    numbers = [head for head in numbers if head.strip().lower() not in (*IDS, *ROW_NUMBERS, "")]
    if time is None or not numbers:
        return None
    return f"every cell of {heads[time].strip()} is a time, with numbers in {shorten_list(numbers)}"


def _all(cells: Sequence[str], mark: str) -> bool:
    return bool(cells) and all(cell.lstrip().startswith(mark) for cell in cells)


def _numbered(width: int) -> list[str]:
    return [f"column {number}" for number in range(1, width + 1)]


def _time_column(heads: Sequence[str], bodies: Sequence[Sequence[str]]) -> int | None:
    """Return the number of the column whose cells are all times: one that is named so, or in time order."""
    for number, (head, body) in enumerate(zip(heads, bodies, strict=True)):
        named = head.strip().lower() in TIMES
        try:
            parse = time_format(body, integers=named).parse
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


def given_in(cells: Iterable[str]) -> list[str]:
    """Return the cells that are not empty and do not stand for a missing value."""
    return [cell for cell in cells if cell.strip().lower() not in MISSING]


def _numeric(cells: Sequence[str]) -> bool:
    given = given_in(cells)
    best = number_format(given, commas=True)
    return bool(given) and fitting(best, given) > NUMERIC * len(given)


# Tables --------------------------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """A table of texts: the names of its columns, and its rows with their lines, read once."""

    path: str
    heads: tuple[str, ...]
    rows: Iterator[tuple[int, Sequence[str]]]
    commas: bool = False  # decimal commas


def open_sheet(path: str, data: DataConfig, report: ReadReport) -> Sheet:
    if uncompressed(path).suffix.lower() in PARQUET:
        return _parquet(path)
    decoding = Decoding(data.encoding, data.on_bad_bytes, data.max_line)
    number, lines = table_lines(Input(path), decoding, report)
    blank = number - 1
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
        return Sheet(path, tuple(_numbered(len(heads))), chain([(line, heads)], rows), mark == ";")
    named = zip(heads, _numbered(len(heads)), strict=True)
    return Sheet(path, tuple(cell.strip() or number for cell, number in named), rows, mark == ";")


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
                refuse(InputError(f"{fault}; fix it, or {SKIP}"), place, data, report)
                continue
            yield line, cells
    except csv.Error as error:
        raise InputError(f"{Place(path, line + 1)}: the table cannot be read: {error}; fix it") from error


def refuse(error: InputError, place: Place, data: DataConfig, report: ReadReport) -> None:
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


def roles_of(path: str, heads: tuple[str, ...], sample: Sequence[Sequence[str]], data: DataConfig) -> Roles:
    """Decide what each column holds, by its name and its first cells."""
    names, bodies = [head.lower() for head in heads], list(zip(*sample, strict=True))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: two columns are named {twice!r}; rename one")
    for name in (*data.known, *data.target, *data.series_id):
        if name not in heads:
            raise ConfigError(f"{path} has no column {name!r}, only {shorten_list(heads)}; name one of them")
    time = next((n for n, name in enumerate(names) if name in TIMES), None)
    time = _time_column(heads, bodies) if time is None else time
    if time is None:
        raise InputError(f"{path} has no time column among {shorten_list(heads)}; name one ds, date or time")
    times = _with_clock(time, names, bodies)
    known = tuple(heads.index(name) for name in data.known)
    rest = [n for n in range(len(names)) if n not in times and n not in known]
    counting = (*IDS, *ROW_NUMBERS, *_numbered(1))
    rest = [n for n in rest if names[n] not in counting or not _counts(bodies[n], bodies[time])]
    if data.series_id:
        ids = tuple(heads.index(name) for name in data.series_id)
    else:
        ids = tuple(n for n in rest if names[n] in IDS)[:1]
    channels = [n for n in rest if n not in ids and _numeric(bodies[n])]
    if data.target:
        channels = [heads.index(name) for name in data.target]
    elif ids and (named := [n for n in channels if names[n] in VALUES]):
        channels = named[:1]
    if not channels:
        raise InputError(f"{path} has no column of numbers among {shorten_list(heads)}; add one")
    used = {*times, *ids, *channels, *known}
    return Roles(times, ids, tuple(channels), known, tuple(h for n, h in enumerate(heads) if n not in used))


def _with_clock(time: int, names: Sequence[str], bodies: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the columns of the time: the time column, and one named time that holds the time of day."""
    clock = names.index("time") if "time" in names else time
    if clock == time or any(":" in cell for cell in bodies[time]):
        return (time,)
    return (time, clock) if all(CLOCK.fullmatch(cell.strip()) for cell in bodies[clock]) else (time,)


def _counts(cells: Sequence[str], times: Sequence[str]) -> bool:
    """Whether a column numbers the rows of one series."""
    if not all(cell.strip().isdecimal() for cell in cells) or len(set(times)) < len(times):
        return False
    numbers = [int(cell) for cell in cells]
    return len(numbers) > 1 and all(after - before == 1 for before, after in pairwise(numbers))

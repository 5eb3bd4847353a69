"""Inputs for predictions from files in the layouts of training data; the targets may be absent.

Each row gives one input in order, a blank row a blank one. Files with an input on each line are read
elsewhere.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from seqwright.data.fields import join_texts
from seqwright.data.glance import ColumnGlance, Glance, look_at
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.columns import unknown_name
from seqwright.data.readers.files import Input
from seqwright.data.readers.jsonl import MISSING, names_in, parse_object, value_under
from seqwright.data.readers.lines import Decoding, cleaned, first_lines, read_blocks
from seqwright.data.readers.pairs import PairFiles
from seqwright.data.readers.sniffing import FormatOptions, quoted
from seqwright.errors import InputError
from seqwright.files import uncompressed

if TYPE_CHECKING:
    from seqwright.config import DataConfig

T = TypeVar("T")
Rows = Callable[[ReadReport], Iterator[tuple[Place, T]]]  # the inputs of a file, read as often as called
NUMBERS = ("id", "idx", "index")  # names of columns that number the rows
LINE = Place("the line", 0)  # of an input whose file is not known
TABLES, OBJECTS = (".tsv", ".csv"), (".jsonl", ".json")
MOSTLY = 0.9  # share of the cells by which a column holds targets


def ending(path: str) -> str:
    """Return the ending of a file without that of a compression."""
    return uncompressed(path).suffix.lower()


def keys_of(data: DataConfig) -> tuple[str, ...]:
    """Return the names or numbers of the columns of the texts in training; none where they are usual ones."""
    return tuple((data.columns.rpartition(":")[0] or data.columns).split(",")) if data.columns else ()


def name_of(data: DataConfig) -> str | None:
    """Return the name of the only column of texts in training; None where it has none or the usual one."""
    keys = keys_of(data)
    return keys[0] if len(keys) == 1 and not keys[0].isdecimal() else None


def lines_of(path: str, data: DataConfig, report: ReadReport) -> Iterator[tuple[Place, str]]:
    """Yield the clean lines of a file with their places."""
    for number, lines in read_blocks(Input(path), _decoding(data), report):
        for row, line in enumerate(lines, number):
            yield Place(path, row), line


def _decoding(data: DataConfig) -> Decoding:
    return Decoding(data.encoding, data.on_bad_bytes, data.max_line)


# JSON lines -------------------------------------------------------------------------------------------


def rows_of_objects(
    path: str, data: DataConfig, parse: Callable[[dict[str, Any], Place, ReadReport], T], blank: T
) -> Rows[T]:
    """Return the inputs in JSON lines: `parse` returns that of an object."""

    def read(report: ReadReport) -> Iterator[tuple[Place, T]]:
        for place, line in lines_of(path, data, report):
            yield place, parse(parse_object(line, place), place, report) if line.strip() else blank

    return read


def object_in(line: str) -> dict[str, Any] | None:
    """Return the JSON object that a line consists of, or None."""
    if not (line.lstrip().startswith("{") and line.rstrip().endswith("}")):
        return None
    try:
        return parse_object(line, LINE)
    except InputError:
        return None


def text_under(value: dict[str, Any], key: str | None, names: Sequence[str], place: Place) -> str | None:
    """Return the text under `key`, otherwise under the first of the usual `names`. Without a key, None if
    there is no such text; with one, an error.
    """
    wanted = MISSING if key is None else value_under(value, key)
    if wanted is MISSING:
        known = {name.lower(): each for name, each in value.items() if isinstance(each, str)}
        wanted = next((known[name] for name in names if name in known), MISSING)
    if isinstance(wanted, str) or key is None:
        return wanted if isinstance(wanted, str) else None
    if wanted is MISSING:
        wrong = unknown_name("key", key, names_in(value))
        raise InputError(f"{place}: {wrong}; the texts of the training data are under it")
    raise InputError(f"{place}: expected text under {key!r}")


# Tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table whose columns of texts are to be found.

    heads: the cells of the first row. header: whether they are names. keys: the columns of the texts in
    training. names: usual names of them.
    """

    path: str
    data: DataConfig
    glance: Glance
    heads: tuple[str, ...]
    header: bool
    keys: tuple[str, ...]
    names: tuple[str, ...]

    def texts(self, is_target: Callable[[ColumnGlance], bool]) -> Rows[str] | None:
        """Return the texts of the rows; None if it is not clear which column has them."""
        index = self._index(is_target)
        if index is None:
            return None
        if len(self.heads) == 1:
            return partial(_only_column, self.path, self.data, self.header)
        return self._rows(lambda cells: cells[index])

    def pairs(
        self, names: Sequence[tuple[str, str]], is_target: Callable[[ColumnGlance], bool]
    ) -> Rows[str] | None:
        """Return the two texts of the rows as fields; None if it is not clear which columns have them. names:
        usual names of such columns.
        """
        indices = self._two_indices(names, is_target)
        if indices is None:
            return None
        return self._rows(lambda cells: join_texts([cells[index] for index in indices]))

    def _rows(self, text_of: Callable[[list[str]], str]) -> Rows[str]:
        """Return the texts that a function finds in the cells of each row."""
        kind: Any = self.glance.shape
        options = FormatOptions(kind, self.data.delimiter, self.header, "1:2", self.data.quoting)

        def read(report: ReadReport) -> Iterator[tuple[Place, str]]:
            pairs = PairFiles(self.path, options=options, decoding=_decoding(self.data))
            for place, cells, fault in pairs.rows(report):
                if fault is None:
                    yield place, text_of(cells)
                elif fault.reason is Reason.BAD_ROW:
                    raise InputError(fault.message)
                elif fault.reason is not None:
                    yield place, ""

        return read

    def _index(self, is_target: Callable[[ColumnGlance], bool]) -> int | None:
        """Return the index of the column of the texts: that of training, one with a usual name, or the only
        one that can have them.
        """
        lowered, columns = [head.lower() for head in self.heads], self.glance.columns
        key = next(iter(self.keys), None)
        if self.header and key in self.heads:
            return self.heads.index(key)
        named = [lowered.index(name) for name in self.names if self.header and name in lowered]
        if named:
            return named[0]
        others = [number for number, column in enumerate(columns) if not is_target(column)]
        if key is not None and key.isdecimal() and int(key) - 1 in others:
            return int(key) - 1
        several = self._texts_among(others)
        if self.header:
            return max(several, key=lambda number: columns[number].words, default=None)
        return several[0] if len(several) == 1 else None

    def _two_indices(
        self, names: Sequence[tuple[str, str]], is_target: Callable[[ColumnGlance], bool]
    ) -> list[int] | None:
        """Return the indices of the columns of two texts: those of training, two with usual names, or the
        only two that can have them.
        """
        lowered = [head.lower() for head in self.heads]
        for heads, wanted in ((self.heads, self.keys), *((lowered, pair) for pair in names)):
            if self.header and wanted and set(wanted) <= set(heads):
                return [heads.index(name) for name in wanted]
        others = [number for number, column in enumerate(self.glance.columns) if not is_target(column)]
        numbered = [int(key) - 1 for key in self.keys if key.isdecimal()]
        if len(numbered) == 2 and set(numbered) <= set(others):
            return numbered
        found = self._texts_among(others)
        return found if len(found) == 2 else None

    def _texts_among(self, numbers: Sequence[int]) -> list[int]:
        """Return the columns that do not hold numbers, and by their names do not number the rows."""
        columns = [number for number in numbers if not self.glance.columns[number].numbers]
        return [n for n in columns if not self.header or self.heads[n].lower() not in NUMBERS]


def open_table(path: str, data: DataConfig, names: Sequence[str], targets: Sequence[str]) -> Table | None:
    """Return a file with columns as a table, or None. names, targets: usual names of the columns of the texts
    and of the targets, by which a header is recognised, next to that of training.
    """
    data, keys = _with_own_delimiter(path, data), keys_of(data)
    glance = look_at((path,), data)
    if glance is None or glance.shape not in ("tsv", "csv", "text") or not glance.columns:
        return None
    heads = tuple(next(iter(column.sample), "").strip() for column in glance.columns)
    lowered, several = list(map(str.lower, heads)), len(heads) > 1
    header = data.header if several or ending(path) in TABLES else None
    if header is None:
        usual = all(map(str.isidentifier, heads)) and not {*names, *targets, *NUMBERS}.isdisjoint(lowered)
        own = {key for key in keys if not key.isdecimal()}
        known = (bool(own) and own <= set(heads)) or (usual and (several or ending(path) in TABLES))
        header = known and len(set(lowered)) == len(lowered)
    if not several and not header and not _is_quoted(path, data):
        return None
    return Table(path, data, glance, heads, header, keys, tuple(names))


def _with_own_delimiter(path: str, data: DataConfig) -> DataConfig:
    """Return the options without the delimiter of training where it does not divide the lines of a file."""
    if data.delimiter is None:
        return data
    widths = _widths(path, data, data.delimiter)
    return data if len(widths) == 1 and widths != {1} else replace(data, delimiter=None, format=None)


def _is_quoted(path: str, data: DataConfig) -> bool:
    """Whether quotes enclose the texts of CSV that has only one column."""
    return ending(path) == ".csv" and _widths(path, data, ",") == {1}


def _widths(path: str, data: DataConfig, delimiter: str) -> set[int]:
    """Return how many cells the first rows have; none where quotes are not those of cells."""
    _, head = first_lines(Input(path), _decoding(data))
    try:
        rows = quoted((line.replace("\r", " ") for line in head), delimiter)
        return {len(cells) for _, cells in rows if cells}
    except csv.Error:
        return set()


def _only_column(
    path: str, data: DataConfig, header: bool, report: ReadReport
) -> Iterator[tuple[Place, str]]:
    """Yield the texts of a table without any other column; quotes may enclose them."""
    for place, text in (
        _quoted_lines(path, data, report) if _is_quoted(path, data) else lines_of(path, data, report)
    ):
        if header and text.strip():
            header = False
        elif not header:
            yield place, text


def _quoted_lines(path: str, data: DataConfig, report: ReadReport) -> Iterator[tuple[Place, str]]:
    lines, first = (line for _, line in lines_of(path, data, report)), 1
    try:
        for count, cells in quoted(lines, ",", data.max_line):
            place, first = Place(path, first), first + count
            yield place, cleaned(",".join(cells), place, data.on_bad_bytes, report)
    except csv.Error as error:
        raise InputError(f"{path}:{first}: {error} in the row that begins here; fix its quotes") from error

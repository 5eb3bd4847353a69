"""Pairs from files: parallel text, TSV, CSV or JSONL, plain or compressed, streamed, each with its place.

    report = ReadReport()
    for source, target, place in PairFiles("pairs.tsv").read(report): ...
    print(*report.summary(), sep="\\n")

Structural faults (unequal files, wrong columns, undecodable bytes) raise an error with file and line. Pairs
with blank or over-long sides are skipped and counted.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seqwright.data.checks.misaligned import LineLengths, first_shift
from seqwright.data.fields import has_blank_field, is_blank, join_fields, symbols_in
from seqwright.data.read_report import Pair, Place, ReadReport, Reason
from seqwright.data.readers.columns import FieldKind
from seqwright.data.readers.files import Input
from seqwright.data.readers.jsonl import cells_of, parse_object
from seqwright.data.readers.lines import Decoding, cleaned, count_lines, first_lines, read_blocks, table_lines
from seqwright.data.readers.sniffing import FileFormat, FormatOptions, quoted, sniff
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seqwright.config import DataConfig

Path = str | os.PathLike[str]

LONGEST_TOKEN = 40  # code points: a text of more than data.max_length such tokens is skipped unread
MAX_QUOTED_LINES = 100  # a quoted cell of more lines is an error, unless the user asks for quoting

_FIX_OR_SKIP = "fix the line, or skip such lines with data.skip_bad_rows=true"


@dataclass(frozen=True)
class SkipRules:
    """Which rows are skipped and counted: rows that do not fit the columns, and sides that are too long.
    blank: the reasons for a row without a source, and for one without a target. complete: a source with a
    blank field is blank.
    """

    skip_bad_rows: bool = False
    max_length: int = 20_000  # code points
    blank: tuple[Reason, Reason] = (Reason.BLANK_SOURCE, Reason.BLANK_TARGET)
    complete: bool = False


class Fault(NamedTuple):
    """Why a row is not a pair. The header has no reason; a bad row has a message."""

    reason: Reason | None
    message: str = ""


Row = tuple[Place, list[str], Fault | None]


class RowLayout(NamedTuple):
    """The indices of the cells that make a pair, the target last, and the kinds of the source cells."""

    indices: tuple[int, ...]
    kinds: tuple[FieldKind, ...]

    def pair(self, cells: Sequence[str]) -> tuple[str, str]:
        *source, target = (cells[index] for index in self.indices)
        return source_from_cells(source, self.kinds), target


def open_pairs(paths: Sequence[Path], data: DataConfig) -> PairFiles:
    """Return the pairs in `paths`, with the format, encoding and rules of a configuration.

    Two files without pairs in either are parallel files. With data.format = "parallel" the first half of the
    files has the sources: a.en b.en a.de b.de.
    """
    inputs = _inputs(paths)  # a pipe keeps the beginning that detection reads
    options = FormatOptions(data.format, data.delimiter, data.header, data.columns, data.quoting)
    decoding = Decoding(data.encoding, data.on_bad_bytes, data.max_line)
    rules = SkipRules(data.skip_bad_rows, LONGEST_TOKEN * data.max_length)
    sources = len(inputs)
    if data.format == "parallel":
        sources, odd = divmod(len(inputs), 2)
        if odd:
            rule = f"data.format=parallel needs as many targets as sources, not {len(inputs)} files"
            raise ConfigError(f"{rule}; name the sources first, then the targets")
    elif len(inputs) == 2 and options == FormatOptions() and "-" not in paths:
        # most lines of a file of pairs have a tab or begin an object; some lines of running text can, too
        heads = (first_lines(file, decoding)[1] for file in inputs)
        marked = ((sum("\t" in line or line.startswith("{") for line in head), len(head)) for head in heads)
        if not any(2 * count > total for count, total in marked):
            sources = 1
    return PairFiles(inputs[:sources], inputs[sources:], options=options, decoding=decoding, rules=rules)


class PairFiles:
    """Files of pairs; with `targets`, the files of each side are concatenated in order."""

    def __init__(
        self,
        files: Path | Sequence[Path | Input],
        targets: Path | Sequence[Path | Input] = (),
        *,
        options: FormatOptions | None = None,
        decoding: Decoding | None = None,
        rules: SkipRules | None = None,
    ):
        self.inputs, self.targets = _inputs(files), _inputs(targets)
        self.options, self.decoding = options or FormatOptions(), decoding or Decoding()
        self.rules = rules or SkipRules()
        if not self.inputs:
            raise ConfigError("no file to read; name one, or - for standard input")
        if self.options.format == "parallel" and not self.targets:
            raise ConfigError("format parallel needs two sides; name the target files, too")
        if self.targets and self.options.format not in (None, "parallel"):
            raise ConfigError(f"format {self.options.format} has both sides in one file; omit target files")

    @property
    def name(self) -> str:
        return ", ".join(file.name for file in self.all_inputs)

    @property
    def all_inputs(self) -> tuple[Input, ...]:
        return (*self.inputs, *self.targets)

    @property
    def single_pass(self) -> bool:
        """Whether one of the files is a pipe."""
        return any(file.single_pass for file in self.all_inputs)

    @property
    def form(self) -> tuple[str, ...]:
        """How the files are read, in sentences."""
        return self.sniffed.reasons

    @property
    def columns(self) -> str | None:
        """The columns of a source of several fields; inputs for prediction have the same fields."""
        columns = self.sniffed.columns
        return str(columns) if columns is not None and len(columns.source) > 1 else None

    @property
    def named_twice(self) -> str | None:
        """A file that is read twice. One file may be both sides, for a model that copies."""
        for side in (self.inputs, self.targets):
            first: dict[str, Input] = {}
            for file in side:
                if first.setdefault(os.path.realpath(file.path), file) is not file:
                    return file.name
        return None

    @cached_property
    def sniffed(self) -> FileFormat:
        """The format of the first file, which the others share."""
        if self.targets:
            return FileFormat("parallel", reasons=("parallel: one file for each side, paired line by line",))
        return sniff(*first_lines(self.inputs[0], self.decoding), self.inputs[0].name, self.options)

    @cached_property
    def layout(self) -> RowLayout:
        columns = self.sniffed.columns
        if columns is None:
            return RowLayout((0, 1), ("text",))
        if self.sniffed.format == "jsonl":
            return RowLayout(tuple(range(len(columns.keys))), columns.kinds)
        names = list(self.sniffed.names) or None
        return RowLayout(tuple(columns.indices(names, self.sniffed.width, self.name)), columns.kinds)

    def read(self, report: ReadReport) -> Iterator[Pair]:
        """Yield the pairs in order. `report` counts skipped and changed lines; no pair at all is an error."""
        layout, limit, kept, longest = self.layout, self.rules.max_length, 0, 0
        one_text, (first, *_, last) = layout.kinds == ("text",), layout.indices
        lacks_source = has_blank_field if self.rules.complete else is_blank
        for place, cells, fault in self.rows(report):
            if fault is not None:
                if fault.reason is Reason.BAD_ROW and not self.rules.skip_bad_rows:
                    raise InputError(f"{fault.message}; {self._way_out(place, cells)}")
                if fault.reason is not None:
                    report.add(fault.reason, place, fault.message)
                continue
            source, target = (cells[first], cells[last]) if one_text else layout.pair(cells)
            if lacks_source(source):
                report.add(Reason.BLANK_PAIR if is_blank(target) else self.rules.blank[0], place)
            elif is_blank(target):
                report.add(self.rules.blank[1], place)
            elif len(source) > limit or len(target) > limit:
                longest = max(longest, len(source), len(target))
                report.add(Reason.TOO_LONG, place)
            else:
                kept += 1
                yield Pair(source, target, place)
        if kept:
            return
        skipped = [line for line in report.summary() if " skipped: " in line]
        facts = [f"{self.name} has no pairs: {'; '.join(skipped) or 'it is empty'}"]
        if longest:
            rule = f"(limit {limit:,}); raise data.max_length"
            facts.append(f"the longest side has {longest:,} code points {rule}")
        if report[Reason.BAD_ROW]:
            facts.append(report.counts[Reason.BAD_ROW].fault)
        raise InputError("; ".join(facts))

    def rows(self, report: ReadReport) -> Iterator[Row]:
        """Yield every row of the files with all its cells, headers, blank and bad rows included."""
        if self.targets:
            return self._parallel_rows(report)
        read = self._objects if self.sniffed.format == "jsonl" else self._table_rows
        return chain.from_iterable(read(file, report) for file in self.inputs)

    def _lines(self, file: Input, report: ReadReport) -> Iterator[tuple[Place, str]]:
        first, lines = table_lines(file, self.decoding, report)
        for row, line in enumerate(lines, first):
            yield Place(file.name, row), line

    # Parallel files -------------------------------------------------------------------------------

    def _parallel_rows(self, report: ReadReport) -> Iterator[Row]:
        self._check_counts()
        sources = chain.from_iterable(self._lines(file, report) for file in self.inputs)
        targets = chain.from_iterable(self._lines(file, report) for file in self.targets)
        for count, (left, right) in enumerate(zip_longest(sources, targets)):
            if left is None or right is None:  # only with a pipe, whose lines cannot be counted before
                ended = _names(self.inputs if left is None else self.targets)
                rule = "and the other side has more; both need the same number of lines"
                raise InputError(f"{ended} ended after {count:,} lines {rule}")
            yield left[0], [left[1], right[1]], None

    def _check_counts(self) -> None:
        """Raise InputError if the sides have unequal numbers of lines, file by file if possible."""
        if self.single_pass:
            return
        paired = [((left,), (right,)) for left, right in zip(self.inputs, self.targets, strict=False)]
        for sides in paired if len(self.inputs) == len(self.targets) else [(self.inputs, self.targets)]:
            counts = [sum(count_lines(file, self.decoding) for file in side) for side in sides]
            if counts[0] != counts[1]:
                left, right = map(_names, sides)
                near = first_shift(*map(self._lengths, sides)) + 1
                raise InputError(
                    f"{left} has {pluralize(counts[0], 'line')}, {right} has {counts[1]:,}; both need the "
                    f"same number; first suspicious pair near line {near:,}"
                )

    def _lengths(self, side: Iterable[Input]) -> LineLengths:
        decoding = replace(self.decoding, on_bad_bytes="replace")
        blocks = (lines for file in side for _, lines in read_blocks(file, decoding, ReadReport()))
        return np.fromiter((len(line) for lines in blocks for line in lines), np.int64)

    # Files with both sides ------------------------------------------------------------------------

    def _table_rows(self, file: Input, report: ReadReport) -> Iterator[Row]:
        width, header, delimiter = self.sniffed.width, self.sniffed.header, self.sniffed.delimiter
        rows = ((place, line.split(delimiter)) for place, line in self._lines(file, report))
        for place, cells in self._quoted_rows(file, report) if self.sniffed.quoting else rows:
            if header and self._is_header(place, cells):
                header = False
                yield place, cells, Fault(None)
            elif len(cells) == width:
                yield place, cells, None
            elif not any(cell.strip() for cell in cells):
                yield place, cells, Fault(Reason.BLANK_PAIR)
            else:
                mark = "a tab" if delimiter == "\t" else repr(delimiter)
                columns = f"{pluralize(len(cells), 'column')} instead of {width:,}, separated by {mark}"
                yield place, cells, Fault(Reason.BAD_ROW, f"{place}: {columns}")

    def _is_header(self, place: Place, cells: list[str]) -> bool:
        """Return whether a row before the first pair is the header or blank; anything else is an error."""
        names = [cell.strip() for cell in cells]
        if any(names) and names != list(self.sniffed.names):
            expected = shorten_list(self.sniffed.names)
            raise InputError(f"{place}: the header must be {expected}, as in {self.inputs[0].name}")
        return any(names)

    def _quoted_rows(self, file: Input, report: ReadReport) -> Iterator[tuple[Place, list[str]]]:
        """Yield rows whose cells may hold delimiters, quotes and line breaks (replaced with spaces)."""
        first, lines = table_lines(file, self.decoding, report)
        try:
            for count, cells in quoted(lines, self.sniffed.delimiter, self.decoding.max_line):
                place, further = Place(file.name, first), count - 1
                first += count
                if further > MAX_QUOTED_LINES and self.options.quoting is None:
                    raise InputError(
                        f"{place}: a quote that opens here closes {further} lines later; fix it, or read "
                        "quotes as text with data.quoting=false; if it is correct, set data.quoting=true"
                    )
                clean = [cleaned(cell, place, self.decoding.on_bad_bytes, report) for cell in cells]
                yield place, clean or [""]
        except csv.Error as error:
            fault = f"{error} in the row that begins here; fix its quotes, or set data.quoting=false"
            raise InputError(f"{file.name}:{first}: {fault}") from error

    def _way_out(self, place: Place, cells: list[str]) -> str:
        """Return the way out at a bad row; quoting is tried if the files can be read again."""
        if self.sniffed.quoting or self.sniffed.format == "jsonl":
            return _FIX_OR_SKIP
        if self.single_pass:
            quotes = any(cell.startswith('"') for cell in cells)
            return _FIX_OR_SKIP + (". If quotes enclose cells, set data.quoting=true" if quotes else "")
        paths, options = [file.path for file in self.inputs], replace(self.options, quoting=True)
        try:
            for at, _, fault in PairFiles(paths, options=options, decoding=self.decoding).rows(ReadReport()):
                if fault is not None and fault.reason is Reason.BAD_ROW:
                    return _FIX_OR_SKIP
                if at.file == place.file and at.line > place.line:
                    break
        except InputError:
            return _FIX_OR_SKIP
        return "quotes enclose cells here; set data.quoting=true, and the line fits"

    def _objects(self, file: Input, report: ReadReport) -> Iterator[Row]:
        assert self.sniffed.columns is not None
        keys, on_bad_bytes = self.sniffed.columns.keys, self.decoding.on_bad_bytes
        for place, line in self._lines(file, report):
            if not line or line.isspace():
                yield place, [line], Fault(Reason.BLANK_PAIR)
                continue
            try:
                cells = cells_of(parse_object(line, place), keys, place)
                yield place, [cleaned(cell, place, on_bad_bytes, report) for cell in cells], None
            except InputError as error:
                yield place, [line], Fault(Reason.BAD_ROW, str(error))


def source_from_cells(cells: Sequence[str], kinds: Sequence[FieldKind]) -> str:
    """Return the source of a row: its cells as fields, cells of symbols split into names."""
    pairs = zip(cells, kinds, strict=True)
    return join_fields([symbols_in(cell) if kind == "symbols" else cell for cell, kind in pairs])


def read_lines(path: Path, report: ReadReport, decoding: Decoding | None = None) -> Iterator[str]:
    """Yield the inputs for prediction: one for each line, blank lines included."""
    for _, lines in read_blocks(Input(path), decoding or Decoding(), report):
        yield from lines


def _inputs(paths: Path | Sequence[Path | Input]) -> tuple[Input, ...]:
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    return tuple(each if isinstance(each, Input) else Input(each) for each in several)


def _names(side: Sequence[Input]) -> str:
    return " + ".join(file.name for file in side)

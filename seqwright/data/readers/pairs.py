"""Pairs from files: parallel text, TSV, CSV or JSONL, plain or compressed, streamed, each with its place.

    tally = Tally()
    for source, target, place in PairFiles("pairs.tsv").read(tally): ...
    print(*tally.summary(), sep="\\n")

Faults of structure (unequal files, wrong columns, bytes that are not text) stop with file and line; faults of
content (blank or over-long sides) are skipped and counted.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest

import numpy as np

from seqwright.data.checks.misaligned import Lengths, first_shift
from seqwright.data.fields import is_blank, join_fields, symbols_in
from seqwright.data.read_report import Pair, Place, Reason, Tally
from seqwright.data.readers.columns import Role
from seqwright.data.readers.files import Input
from seqwright.data.readers.jsonl import cells_of, parse_object
from seqwright.data.readers.lines import Decoding, cleaned, count_lines, first_lines, read_blocks
from seqwright.data.readers.sniffing import Form, Sniffed, quoted, sniff
from seqwright.data.text_display import amount
from seqwright.errors import ConfigError, InputError

Path = str | os.PathLike[str]
Row = tuple[Place, list[str]]
SWALLOWED = 100  # more lines in one row are believed only where quoting was asked for


@dataclass(frozen=True)
class Rules:
    """What is skipped, with a count: rows that do not fit their form, and sides of too many code points."""

    skip_bad_rows: bool = False
    max_length: int = 20_000


class PairFiles:
    """Files of pairs, or with `targets` the files of two sides, each side concatenated in order."""

    def __init__(
        self,
        files: Path | Sequence[Path | Input],
        targets: Path | Sequence[Path | Input] = (),
        *,
        form: Form | None = None,
        decoding: Decoding | None = None,
        rules: Rules | None = None,
    ):
        self.inputs, self.targets = _inputs(files), _inputs(targets)
        self.requested, self.decoding, self.rules = form or Form(), decoding or Decoding(), rules or Rules()
        if not self.inputs:
            raise ConfigError("no file to read; name one, or - for standard input")
        if self.requested.format == "parallel" and not self.targets:
            raise ConfigError("format parallel needs two sides; name the files of the targets too")
        if self.targets and self.requested.format not in (None, "parallel"):
            raise ConfigError(
                f"format {self.requested.format} has both sides in one file; leave the files of the targets out"
            )

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[Path],
        *,
        form: Form | None = None,
        decoding: Decoding | None = None,
        rules: Rules | None = None,
    ) -> PairFiles:
        """Two files are two sides, unless most of the first lines of one have a tab or begin an object; all
        else holds pairs.
        """
        inputs = _inputs(paths)  # a pipe that was looked into has the beginning here only
        if len(paths) == 2 and form in (None, Form()) and "-" not in paths:
            beginnings = [first_lines(file, decoding or Decoding()) for file in inputs]
            if not any(map(_holds_pairs, beginnings)):
                return cls(inputs[:1], inputs[1:], decoding=decoding, rules=rules)
        return cls(inputs, form=form, decoding=decoding, rules=rules)

    @property
    def name(self) -> str:
        return ", ".join(file.name for file in (*self.inputs, *self.targets))

    @property
    def form(self) -> tuple[str, ...]:
        return self.sniffed.reasons

    @property
    def columns(self) -> str | None:
        """The columns of a source of several fields: predictions are given in the same fields."""
        columns = self.sniffed.columns
        return str(columns) if columns is not None and len(columns.source) > 1 else None

    @property
    def named_twice(self) -> str | None:
        """A file that is read twice; but one file may be both sides, of a model that copies."""
        for side in (self.inputs, self.targets):
            places = [os.path.realpath(file.path) for file in side]
            for number, file in enumerate(side):
                if places[number] in places[:number]:
                    return file.name
        return None

    @cached_property
    def sniffed(self) -> Sniffed:
        """The form of the first file, which the others share."""
        if self.targets:
            how = "parallel: the two sides are in files of their own; places are lines of both"
            return Sniffed("parallel", reasons=(how,))
        return sniff(first_lines(self.inputs[0], self.decoding), self.inputs[0].name, self.requested)

    def read(self, tally: Tally) -> Iterator[Pair]:
        """The pairs in order; `tally` counts what is skipped or changed. No pair at all is an error."""
        limit, kept, longest = self.rules.max_length, 0, 0
        for source, target, place in self.sides(tally) if self.targets else self._joined(tally):
            no_source, no_target = is_blank(source), is_blank(target)
            if no_source or no_target:
                tally.add(_BLANK[no_source, no_target], place)
            elif len(source) > limit or len(target) > limit:
                longest = max(longest, len(source), len(target))
                tally.add(Reason.TOO_LONG, place)
            else:
                kept += 1
                yield Pair(source, target, place)
        if not kept:
            raise self._no_pairs(tally, longest)

    def _no_pairs(self, tally: Tally, longest: int) -> InputError:
        skipped = "; ".join(line for line in tally.summary() if " skipped: " in line)
        over = (
            f"; the longest has {longest:,} code points and at most {self.rules.max_length:,} are read; "
            "raise data.max_length"
            if longest
            else ""
        )
        bad = tally.counts.get(Reason.BAD_ROW)
        fault = f"; {bad.fault}" if bad else ""
        return InputError(f"{self.name} has no pairs: {skipped or 'it is empty'}{over}{fault}")

    # Parallel files -------------------------------------------------------------------------------

    def sides(self, tally: Tally) -> Iterator[Pair]:
        """Every line with its counterpart, blank ones too."""
        self._check_counts()
        sources = chain.from_iterable(self.lines(file, tally) for file in self.inputs)
        targets = chain.from_iterable(self.lines(file, tally) for file in self.targets)
        for count, (left, right) in enumerate(zip_longest(sources, targets)):
            if left is None or right is None:  # only a pipe can come so far: it cannot be counted before
                side = self.inputs if left is None else self.targets
                raise InputError(
                    f"{_names(side)} ended after {count:,} lines and the other side goes on; they must match"
                )
            yield Pair(left[1], right[1], left[0])

    def lines(self, file: Input, tally: Tally) -> Iterator[tuple[Place, str]]:
        """Every line of one of the files, blank ones too."""
        for number, lines in read_blocks(file, self.decoding, tally):
            for row, line in enumerate(lines, number):
                yield Place(file.name, row), line

    def _check_counts(self) -> None:
        """Before anything else: as many lines on both sides, file by file where the files pair up."""
        if any(file.once for file in (*self.inputs, *self.targets)):
            return
        groups = [(self.inputs, self.targets)]
        if len(self.inputs) == len(self.targets):
            groups = [((left,), (right,)) for left, right in zip(self.inputs, self.targets, strict=True)]
        for left, right in groups:
            left_count, right_count = (
                sum(count_lines(file, self.decoding) for file in side) for side in (left, right)
            )
            if left_count == right_count:
                continue
            near = first_shift(self._lengths(left), self._lengths(right)) + 1
            raise InputError(
                f"{_names(left)} has {left_count:,} lines, {_names(right)} {right_count:,}; they must be "
                f"equally many: first suspicious pair near line {near:,}"
            )

    def _lengths(self, side: Iterable[Input]) -> Lengths:
        """Code points of each line."""
        blocks = [
            np.fromiter(map(len, lines), np.int64, len(lines))
            for file in side
            for _, lines in read_blocks(file, Decoding(self.decoding.encoding, "replace"), Tally())
        ]
        return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)

    # Files with both sides ------------------------------------------------------------------------

    def _joined(self, tally: Tally) -> Iterator[Pair]:
        form = self.sniffed
        assert form.columns is not None
        roles = [column.role for column in form.columns.source]
        if form.format == "jsonl":
            rows = chain.from_iterable(self._objects(file, tally) for file in self.inputs)
            order = list(range(len(roles) + 1))
        else:
            rows = chain.from_iterable(self._rows(file, tally) for file in self.inputs)
            order = form.columns.indices(list(form.names) or None, form.width, self.name)
        if roles == ["text"]:
            source, target = order
            for place, cells in rows:
                yield Pair(cells[source], cells[target], place)
            return
        for place, cells in rows:
            chosen = [cells[index] for index in order]
            yield Pair(source_from_cells(chosen[:-1], roles), chosen[-1], place)

    def rows(self, file: Input, tally: Tally) -> Iterator[Row]:
        """Every row of one of the files with all its cells: a header, blank and bad rows too."""
        return self._quoted_rows(file, tally) if self.sniffed.quoting else self._plain_rows(file, tally)

    def _rows(self, file: Input, tally: Tally) -> Iterator[Row]:
        form = self.sniffed
        header = form.header  # if it is still to come
        for place, cells in self.rows(file, tally):
            if header and self.is_header(place, cells):
                header = False
            elif len(cells) == form.width:
                yield place, cells
            elif not any(cell.strip() for cell in cells):
                tally.add(Reason.BLANK_PAIR, place)
            elif self.rules.skip_bad_rows:
                tally.add(Reason.BAD_ROW, place, self._wrong_width(place, cells))
            else:
                raise self._stopped(place, cells)

    def is_header(self, place: Place, cells: list[str]) -> bool:
        """Whether the row is no blank one before the header of a file that has one, which it then must be."""
        names = [cell.strip() for cell in cells]
        if any(names) and names != list(self.sniffed.names):
            raise InputError(
                f"{place}: the header should be {', '.join(self.sniffed.names)} as in {self.inputs[0].name}"
            )
        return any(names)

    def _plain_rows(self, file: Input, tally: Tally) -> Iterator[Row]:
        name, delimiter = file.name, self.sniffed.delimiter
        for number, lines in read_blocks(file, self.decoding, tally):
            for row, line in enumerate(lines, number):
                yield Place(name, row), line.split(delimiter)

    def _quoted_rows(self, file: Input, tally: Tally) -> Iterator[Row]:
        """A quoted cell may hold delimiters, quotes and line breaks (now spaces)."""
        lines = (line for _, block in read_blocks(file, self.decoding, tally) for line in block)
        reader, first = quoted(lines, self.sniffed.delimiter), 1
        try:
            for cells in reader:
                place, further = Place(file.name, first), reader.line_num - first
                first = reader.line_num + 1
                if further > SWALLOWED and self.requested.quoting is None:
                    raise InputError(
                        f"{place}: a quote that opens here closes {further} lines later; mend it, or read "
                        "quotes as text with data.quoting=false; if it is right, give data.quoting=true"
                    )
                yield (
                    place,
                    [cleaned(cell, place, self.decoding.on_bad_bytes, tally) for cell in cells] or [""],
                )
        except csv.Error as error:
            raise InputError(
                f"{file.name}:{first}: {error} in the row that begins here; mend its quotes, "
                "or read them as text with data.quoting=false"
            ) from error

    def _wrong_width(self, place: Place, cells: list[str]) -> str:
        form = self.sniffed
        mark = "tab" if form.delimiter == "\t" else repr(form.delimiter)
        return f"{place}: {amount(len(cells), 'column')} where {form.width} are expected, separated by {mark}"

    def _stopped(self, place: Place, cells: list[str]) -> InputError:
        """At a row of another width. Where it can be read again, quotes are tried before they are blamed."""
        way_out = "mend the line, or leave such lines out with data.skip_bad_rows=true"
        if any(file.once for file in self.inputs):
            if any(cell.startswith('"') for cell in cells) and not self.sniffed.quoting:
                way_out += ". Do quotes enclose cells? Then give data.quoting=true"
        elif self._fits_quoted(place):
            way_out = "quotes enclose cells here: give data.quoting=true, with which the line fits"
        return InputError(f"{self._wrong_width(place, cells)}; {way_out}")

    def _fits_quoted(self, place: Place) -> bool:
        """Whether reading comes past this row if quotes enclose cells."""
        if self.sniffed.quoting:
            return False
        strict = replace(self.rules, skip_bad_rows=False)
        again = PairFiles(
            [file.path for file in self.inputs],
            form=replace(self.requested, quoting=True),
            decoding=self.decoding,
            rules=strict,
        )
        try:
            for at, _ in chain.from_iterable(again._rows(file, Tally()) for file in again.inputs):
                if at.file == place.file and at.line > place.line:
                    break
        except InputError:
            return False
        return True

    def _objects(self, file: Input, tally: Tally) -> Iterator[Row]:
        columns = self.sniffed.columns
        assert columns is not None
        keys = [column.key for column in (*columns.source, columns.target)]
        for place, line in self.lines(file, tally):
            if not line or line.isspace():
                tally.add(Reason.BLANK_PAIR, place)
                continue
            try:
                cells = cells_of(parse_object(line, place), keys, place)
            except InputError as error:
                if not self.rules.skip_bad_rows:
                    way_out = "mend the line, or leave such lines out with data.skip_bad_rows=true"
                    raise InputError(f"{error}; {way_out}") from error
                tally.add(Reason.BAD_ROW, place, str(error))
                continue
            yield place, [cleaned(cell, place, self.decoding.on_bad_bytes, tally) for cell in cells]


def source_from_cells(cells: Sequence[str], roles: Sequence[Role]) -> str:
    """The source of a row: its cells as fields, those of symbols split into their names."""
    pairs = zip(cells, roles, strict=True)
    return join_fields([symbols_in(cell) if role == "symbols" else cell for cell, role in pairs])


def read_lines(path: Path, tally: Tally, decoding: Decoding | None = None) -> Iterator[str]:
    """Inputs for prediction: exactly one for each line, blank ones too."""
    for _, lines in read_blocks(Input(path), decoding or Decoding(), tally):
        yield from lines


_BLANK = {
    (True, True): Reason.BLANK_PAIR,
    (True, False): Reason.BLANK_SOURCE,
    (False, True): Reason.BLANK_TARGET,
}


def _holds_pairs(lines: Sequence[str]) -> bool:
    """In running text a line may have a tab or a brace, too."""
    return 2 * sum("\t" in line or line.startswith("{") for line in lines) > len(lines)


def _inputs(paths: Path | Sequence[Path | Input]) -> tuple[Input, ...]:
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    return tuple(each if isinstance(each, Input) else Input(each) for each in several)


def _names(side: Sequence[Input]) -> str:
    return " + ".join(file.name for file in side)

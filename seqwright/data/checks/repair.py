"""A repaired copy of files of pairs: safe repairs only, with a list of every row that is removed or changed.

    result = repair(PairFiles("pairs.tsv"), Path("clean.tsv"))

The copy is UTF-8 with tabs between its columns, whatever the original is; a table keeps all its columns.
Copies and conflicts are removed only on request. Pairs that look swapped or misaligned stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from seqwright.data.checks.duplicates import conflict_flags, digest, duplicate_flags
from seqwright.data.checks.statistics import CONTROLS, Accents
from seqwright.data.fields import is_blank
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.columns import ColumnSelector, PairColumns
from seqwright.data.readers.pairs import PairFiles
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.errors import InputError, SeqwrightError, WriteError
from seqwright.files import atomic_file, check_place, is_stream

REPAIRED = {reason.name.lower() for reason in Reason if reason is not Reason.BAD_BYTES}
REPAIRED |= {"duplicates", "control_characters", "mixed_normalisation", "spacing", "leaks"}
"""The findings that a repaired copy no longer has."""
DROPS = ("copies", "conflicts")
"""The findings that it loses on request."""

_SPACES = re.compile(r"\s\s+")
# not part of the text, so not listed
_FILE_MARKS = (Reason.CARRIAGE_RETURN, Reason.BYTE_ORDER_MARK, Reason.SEPARATOR_LINE)


class Remedy(StrEnum):
    """What the repair does to a row."""

    BLANK = "removed: a side is blank"
    BAD_ROW = "removed: does not fit the columns"
    TOO_LONG = "removed: too long"
    HEADER = "removed: header of a further file"
    LEAK = "removed: its source is held out"
    DUPLICATE = "removed: duplicate of an earlier repaired pair"
    COPY = "removed: the target equals the source"
    CONFLICT = "removed: its source occurs earlier with another target"
    CONTROLS = "changed: control characters and tabs replaced with spaces"
    ACCENTS = "changed: accents composed (NFC)"
    SPACING = "changed: repeated spaces and spaces at the ends removed"


_REMEDIES = {Reason.BLANK_PAIR: Remedy.BLANK, Reason.BAD_ROW: Remedy.BAD_ROW, None: Remedy.HEADER}


@dataclass(frozen=True)
class RepairResult:
    """The copy, the list of changes and their counts; `options` are needed to read the copy."""

    copy: Path
    listed: Path
    rows: int
    kept: int
    remedies: Counter[str]
    options: tuple[str, ...]


def repair(
    files: PairFiles, copy: Path, *, held_out: Sequence[PairFiles] = (), drop: Collection[str] = ()
) -> RepairResult:
    """Write `copy`, and `copy`.removed.tsv with place, reason and text of the rows removed or changed.

    Reads the files twice. Finding duplicates takes about 50 bytes per pair, and 90 to drop conflicts.
    """
    listed = copy.with_name(copy.name + ".removed.tsv")
    inputs = [file.path for each in (files, *held_out) for file in each.all_inputs]
    for path in (copy, listed):
        check_place(path, inputs)
        if is_stream(path):
            raise WriteError(f"{path} is a pipe, a device or standard output; the copy needs a file")
    job = _Repair(files, held_out, drop)
    with ExitStack() as stack:
        kept, removed = (stack.enter_context(atomic_file(path, follow=True)) for path in (copy, listed))
        job.write(kept, removed)
        if not job.kept:
            raise InputError(f"{files.name}: the repair would remove all pairs; nothing was written")
    return RepairResult(copy, listed, job.rows, job.kept, job.remedies, _options(files, copy))


def tidied(text: str) -> str:
    """Return the text without control characters, tabs, and leading, trailing or repeated spaces."""
    return _SPACES.sub(" ", _without_controls(text)).strip()


def _without_controls(text: str) -> str:
    return CONTROLS.sub(" ", text).replace("\t", " ")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _changed(cells: Sequence[str], used: Collection[int], change: Callable[[str], str]) -> list[str]:
    return [change(cell) if index in used else cell for index, cell in enumerate(cells)]


class _RepairedRow(NamedTuple):
    """A row as it was read and as it will be written. `remedy`: why it is removed whatever the others are."""

    place: Place
    cells: list[str]
    tidy: list[str]
    pair: tuple[str, str] = ("", "")  # in NFC, for comparisons
    remedy: Remedy | None = None
    header: bool = False

    @property
    def is_pair(self) -> bool:
        return self.remedy is None and not self.header


class _Repair:
    """Two passes: the constructor collects what depends on all rows, and `write` writes the copy."""

    def __init__(self, files: PairFiles, held_out: Sequence[PairFiles], drop: Collection[str]):
        self.files, self.drop = files, drop
        self.held_out: set[bytes] = set()
        for others in held_out:
            self.held_out |= {digest(row.pair[0]) for row in self._rows(others, ReadReport()) if row.pair[0]}
        self.rows = self.kept = 0
        self.remedies: Counter[str] = Counter()
        accents, sources, pairs = Accents(), bytearray(), bytearray()
        for row in self._rows(files, ReadReport()):
            if row.is_pair:
                accents.add(files.layout.pair(row.tidy))
                pairs += digest("\t".join(row.pair))
                sources += digest(row.pair[0]) if "conflicts" in drop else b""
        self._compose = accents.mixed
        self._flags = {Remedy.DUPLICATE: duplicate_flags(pairs)}
        if sources:
            self._flags[Remedy.CONFLICT] = conflict_flags(sources, pairs)

    def write(self, kept: BinaryIO, removed: BinaryIO) -> None:
        def listed(place: Place, reasons: Sequence[str], cells: Sequence[str] = ()) -> None:
            self.remedies.update(reasons)
            text = "\t".join(cell.replace("\t", "\\t") for cell in cells)
            removed.write(f"{place}\t{', '.join(reasons)}\t{text}\n".encode())

        removed.write(b"place\treason\ttext\n")
        number, used, pairs = 0, self.files.layout.indices, len(self._flags[Remedy.DUPLICATE])
        for row in self._rows(self.files, _ListingReport(listed)):
            remedy = row.remedy
            if row.is_pair and number < pairs:
                remedy = next((remedy for remedy, flags in self._flags.items() if flags[number]), None)
            number += row.is_pair
            self.rows += not row.header
            if remedy is not None:
                listed(row.place, [remedy], row.cells)
                continue
            cells = _changed(row.tidy, used, _composed) if self._compose else row.tidy
            kept.write("\t".join(cells).encode() + b"\n")
            self.kept += row.is_pair
            if changes := _changes(row.cells, row.tidy, cells):
                listed(row.place, changes, row.cells)
        if number != pairs:
            raise InputError(f"{self.files.name} changed while it was read; run this again later")

    def _rows(self, files: PairFiles, report: ReadReport) -> Iterator[_RepairedRow]:
        headers = 0
        for place, cells, fault in files.rows(report):
            if fault is not None:
                tidy = [_without_controls(cell) for cell in cells]
                headers += fault.reason is None
                first = fault.reason is None and headers == 1
                remedy = None if first else _REMEDIES[fault.reason]
                yield _RepairedRow(place, cells, tidy, remedy=remedy, header=first)
                continue
            tidy = [cell.replace("\t", " ") for cell in _changed(cells, files.layout.indices, tidied)]
            source, target = map(_composed, files.layout.pair(tidy))
            yield _RepairedRow(place, cells, tidy, (source, target), self._own_fault(source, target))

    def _own_fault(self, source: str, target: str) -> Remedy | None:
        """Return why a pair is removed whatever the other pairs are."""
        if is_blank(source) or not target:
            return Remedy.BLANK
        if max(len(source), len(target)) > self.files.rules.max_length:
            return Remedy.TOO_LONG
        if self.held_out and digest(source) in self.held_out:
            return Remedy.LEAK
        return Remedy.COPY if source == target and "copies" in self.drop else None


class _ListingReport(ReadReport):
    """Lists the places where reading changes a text."""

    def __init__(self, listed: Callable[[Place, Sequence[str]], None]):
        super().__init__()
        self._listed = listed

    def add(self, reason: Reason, place: Place, fault: str = "") -> None:
        if reason not in _FILE_MARKS:
            self._listed(place, [reason])


def _changes(cells: list[str], tidy: list[str], final: list[str]) -> list[str]:
    pairs = zip(cells, tidy, strict=True)
    plain = [_without_controls(cell) if cell != neat else cell for cell, neat in pairs]
    changed = {Remedy.CONTROLS: plain != cells, Remedy.SPACING: plain != tidy, Remedy.ACCENTS: final != tidy}
    return [str(remedy) for remedy in changed if changed[remedy]]


def _options(files: PairFiles, copy: Path) -> tuple[str, ...]:
    """Return the options that are needed because the format of the copy is not detected as intended."""
    form, wanted = files.sniffed, files.sniffed.columns
    if wanted is None or form.format == "jsonl":
        *source, target = (ColumnSelector(str(index + 1)) for index in files.layout.indices)
        wanted = PairColumns(tuple(source), target).with_kinds(files.layout.kinds)
    columns = str(wanted)
    with suppress(SeqwrightError):  # too many columns to choose automatically
        found = PairFiles(copy).sniffed
        if (str(found.columns), found.header) == (columns, form.header):
            return ()
    bare = str(wanted.with_kinds(["unspecified"] * len(wanted.source)))
    options = FormatOptions(columns=bare, header=form.header)
    if str(PairFiles(copy, options=options).sniffed.columns) == columns:
        columns = bare  # the kinds are detected in the copy
    found = PairFiles(copy, options=FormatOptions(columns=columns)).sniffed
    header = () if found.header == form.header else (f"data.header={str(form.header).lower()}",)
    return (f"data.columns={columns}", *header)

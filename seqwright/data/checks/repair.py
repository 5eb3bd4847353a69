"""A clean copy of files of pairs: what is safe to mend is mended, and every line that went or changed is
listed.

    done = mend(PairFiles("pairs.tsv"), Path("clean.tsv"))

The copy is UTF-8 with tabs between its columns, whatever the original was; a file of columns keeps all of
them. Nothing is decided that needs a judge: copies and conflicts go only if they are named, and pairs that
look exchanged or misaligned stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from seqwright.data.checks.duplicates import contradicting, digest, repeated
from seqwright.data.checks.statistics import CONTROLS, Accents
from seqwright.data.fields import is_blank
from seqwright.data.read_report import Place, Reason, Tally
from seqwright.data.readers.columns import Column, Columns, Role, parse_columns
from seqwright.data.readers.jsonl import cells_of, parse_object
from seqwright.data.readers.lines import cleaned
from seqwright.data.readers.pairs import PairFiles, source_from_cells
from seqwright.data.readers.sniffing import Form
from seqwright.errors import InputError, SeqwrightError, WriteError
from seqwright.files import atomic_file, check_place, is_stream

MENDED = {reason.name.lower() for reason in Reason if reason is not Reason.BAD_BYTES} | {
    "duplicates",
    "control_characters",
    "mixed_normalisation",
    "spacing",
    "leaks",
}
"""The findings that a mended copy has no more."""
DROPS = ("copies", "conflicts")
"""The findings that it loses on demand."""

_SPACES = re.compile(r"\s\s+")
_LINE_ENDS = (Reason.CARRIAGE_RETURN, Reason.BYTE_ORDER_MARK)  # no part of the text: not listed


class Remedy(StrEnum):
    """What was done to a row."""

    BLANK = "removed: a side is blank"
    BAD_ROW = "removed: does not fit the columns"
    TOO_LONG = "removed: too long"
    HEADER = "removed: header of a further file"
    LEAK = "removed: its source is held out"
    DUPLICATE = "removed: repeats an earlier pair as mended"
    COPY = "removed: the target is the source"
    CONFLICT = "removed: its source came with another target before"
    CONTROLS = "changed: control characters and tabs became spaces"
    ACCENTS = "changed: accents were composed (NFC)"
    SPACING = "changed: spaces at an end or in a row were removed"


@dataclass(frozen=True)
class Mended:
    """What became of the rows. `options` are what must be said to read the copy like the original."""

    copy: Path
    listed: Path
    rows: int
    kept: int
    remedies: Counter[str]
    options: tuple[str, ...]


def mend(
    files: PairFiles, copy: Path, *, held_out: Sequence[PairFiles] = (), drop: Collection[str] = ()
) -> Mended:
    """Writes `copy`, and beside it `copy`.removed.tsv: place, reason and text of what went or changed.

    Reads twice: to know what is repeated, at about 50 bytes of memory a pair (90 to drop conflicts), and to
    write.
    """
    listed = copy.with_name(copy.name + ".removed.tsv")
    _check_places([files, *held_out], copy, listed)
    mender = _Mender(files, held_out, drop)
    with ExitStack() as stack:
        kept, gone = (stack.enter_context(atomic_file(path)) for path in (copy, listed))
        mender.write(kept, gone)
        if not mender.kept:
            raise InputError(f"{files.name}: no pair would be left; nothing was written")
    return Mended(copy, listed, mender.rows, mender.kept, mender.remedies, _options(files, copy))


def tidied(text: str) -> str:
    """Control characters and tabs as spaces; no space at an end, no two in a row."""
    return _SPACES.sub(" ", _without_controls(text)).strip()


def _without_controls(text: str) -> str:
    return CONTROLS.sub(" ", text).replace("\t", " ")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


class _Layout(NamedTuple):
    """Which cells of a row make the pair, the target last, and what the others are in the source."""

    used: tuple[int, ...]
    roles: tuple[Role, ...]

    @classmethod
    def of(cls, files: PairFiles) -> _Layout:
        form = files.sniffed
        if form.columns is None:
            return cls((0, 1), ("text",))
        roles = tuple(column.role for column in form.columns.source)
        if form.format == "jsonl":
            return cls(tuple(range(len(roles) + 1)), roles)
        names = list(form.names) or None
        return cls(tuple(form.columns.indices(names, form.width, files.name)), roles)

    def pair(self, cells: Sequence[str]) -> tuple[str, str]:
        chosen = [cells[index] for index in self.used]
        return source_from_cells(chosen[:-1], self.roles), chosen[-1]

    def changed(self, cells: Sequence[str], change: Callable[[str], str]) -> list[str]:
        return [change(cell) if index in self.used else cell for index, cell in enumerate(cells)]

    def columns(self) -> str:
        source = (Column(str(index + 1), role) for index, role in zip(self.used, self.roles, strict=False))
        return str(Columns(tuple(source), Column(str(self.used[-1] + 1))))


class _Entry(NamedTuple):
    """A row as it was read, and why it can be no pair, if it cannot."""

    place: Place
    cells: list[str]
    remedy: Remedy | None = None
    header: bool = False


class _Row(NamedTuple):
    """An entry as it will be written, and why it goes, if that needs no other row to know."""

    entry: _Entry
    tidy: list[str]
    pair: tuple[str, str]  # in NFC, to be compared
    remedy: Remedy | None

    @property
    def is_pair(self) -> bool:
        return self.remedy is None and not self.entry.header


class _Mender:
    """The first pass is the making of it: what must be known of all rows to judge one."""

    def __init__(self, files: PairFiles, held_out: Sequence[PairFiles], drop: Collection[str]):
        self.files, self.drop = files, drop
        self.held_out: set[bytes] = set()
        for others in held_out:
            self.held_out |= {digest(row.pair[0]) for row in self._rows(others, Tally()) if row.pair[0]}
        self.rows = self.kept = 0
        self.remedies: Counter[str] = Counter()
        layout, accents, sources, pairs = _Layout.of(files), Accents(), bytearray(), bytearray()
        for row in self._rows(files, Tally()):
            if row.is_pair:
                accents.add(*layout.pair(row.tidy))
                pairs += digest("\t".join(row.pair))
                sources += digest(row.pair[0]) if "conflicts" in drop else b""
        self._layout, self._compose = layout, accents.mixed
        self._remedies = {Remedy.DUPLICATE: repeated(pairs)}
        if sources:
            self._remedies[Remedy.CONFLICT] = contradicting(sources, pairs)

    def write(self, kept: BinaryIO, gone: BinaryIO) -> None:
        """The second pass."""

        def listed(place: Place, reasons: Sequence[str], text: str) -> None:
            self.remedies.update(reasons)
            gone.write(f"{place}\t{', '.join(reasons)}\t{text}\n".encode())

        def row_of(cells: list[str]) -> str:
            return "\t".join(cell.replace("\t", "\\t") for cell in cells)  # a tab of a text is no border

        gone.write(b"place\treason\ttext\n")
        number = 0
        for row in self._rows(self.files, _Listing(listed)):
            place, before, remedy = row.entry.place, row.entry.cells, row.remedy
            if row.is_pair:
                remedy, number = self._among_others(number), number + 1
            self.rows += not row.entry.header
            if remedy is not None:
                listed(place, [remedy], row_of(before))
                continue
            cells = self._layout.changed(row.tidy, _composed) if self._compose else row.tidy
            kept.write("\t".join(cells).encode() + b"\n")
            self.kept += row.is_pair
            if changes := _changes(before, row.tidy, cells):
                listed(place, changes, row_of(before))
        if number != len(self._remedies[Remedy.DUPLICATE]):
            raise self._unsteady()

    def _among_others(self, number: int) -> Remedy | None:
        """Why a pair goes because of those before it."""
        for remedy, flags in self._remedies.items():
            if number >= len(flags):
                raise self._unsteady()
            if flags[number]:
                return remedy
        return None

    def _unsteady(self) -> InputError:
        return InputError(f"{self.files.name} changed while it was read; run it again when nothing writes it")

    def _rows(self, files: PairFiles, tally: Tally) -> Iterator[_Row]:
        layout = _Layout.of(files)
        for entry in _entries(files, tally):
            if entry.remedy is not None or entry.header:
                yield _Row(entry, [_without_controls(cell) for cell in entry.cells], ("", ""), entry.remedy)
                continue
            tidy = [cell.replace("\t", " ") for cell in layout.changed(entry.cells, tidied)]
            source, target = map(_composed, layout.pair(tidy))
            yield _Row(entry, tidy, (source, target), self._alone(source, target))

    def _alone(self, source: str, target: str) -> Remedy | None:
        """Why a pair goes, whatever the others are."""
        if is_blank(source) or not target:
            return Remedy.BLANK
        if max(len(source), len(target)) > self.files.rules.max_length:
            return Remedy.TOO_LONG
        if self.held_out and digest(source) in self.held_out:
            return Remedy.LEAK
        return Remedy.COPY if source == target and "copies" in self.drop else None


def _entries(files: PairFiles, tally: Tally) -> Iterator[_Entry]:
    """Every row of every file: blank, bad and over-long ones and headers, too."""
    if files.targets:
        for source, target, place in files.sides(tally):
            yield _Entry(place, [source, target])
        return
    form = files.sniffed
    for file in files.inputs:
        if form.format == "jsonl":
            yield from (_object(files, place, line, tally) for place, line in files.lines(file, tally))
            continue
        header = form.header  # if it is still to come
        for place, cells in files.rows(file, tally):
            if header and files.is_header(place, cells):
                header, first = False, file is files.inputs[0]
                yield _Entry(place, cells, None if first else Remedy.HEADER, header=first)
            elif len(cells) != form.width:
                blank = not any(cell.strip() for cell in cells)
                yield _Entry(place, cells, Remedy.BLANK if blank else Remedy.BAD_ROW)
            else:
                yield _Entry(place, cells)


def _object(files: PairFiles, place: Place, line: str, tally: Tally) -> _Entry:
    columns = files.sniffed.columns
    assert columns is not None
    if not line.strip():
        return _Entry(place, [line], Remedy.BLANK)
    keys = [column.key for column in (*columns.source, columns.target)]
    try:
        cells = cells_of(parse_object(line, place), keys, place)
    except InputError:
        return _Entry(place, [line], Remedy.BAD_ROW)
    return _Entry(place, [cleaned(cell, place, files.decoding.on_bad_bytes, tally) for cell in cells])


class _Listing(Tally):
    """Hands on where reading changed a text."""

    def __init__(self, listed: Callable[[Place, Sequence[str], str], None]):
        super().__init__()
        self._listed = listed

    def add(self, reason: Reason, place: Place, fault: str = "") -> None:
        if reason not in _LINE_ENDS:
            self._listed(place, [reason], "")


def _changes(cells: Sequence[str], tidy: Sequence[str], final: Sequence[str]) -> list[str]:
    found = []
    plain = [
        _without_controls(cell) if cell != neat else cell for cell, neat in zip(cells, tidy, strict=True)
    ]
    if plain != list(cells):
        found.append(Remedy.CONTROLS)
    if plain != list(tidy):
        found.append(Remedy.SPACING)
    if list(final) != list(tidy):
        found.append(Remedy.ACCENTS)
    return [str(remedy) for remedy in found]


def _options(files: PairFiles, copy: Path) -> tuple[str, ...]:
    """What sniffing the copy does not find out by itself."""
    form = files.sniffed
    numbered = form.columns is None or form.format == "jsonl"
    columns = _Layout.of(files).columns() if numbered else str(form.columns)
    try:
        found = PairFiles(copy).sniffed
    except SeqwrightError:
        pass  # more columns than sniffing dares to choose from
    else:
        if (str(found.columns), found.header) == (columns, form.header):
            return ()
    wanted = parse_columns(columns)
    bare = str(wanted.with_roles(["unsaid"] * len(wanted.source)))
    if str(PairFiles(copy, form=Form(columns=bare, header=form.header)).sniffed.columns) == columns:
        columns = bare  # the copy shows the roles by itself
    found = PairFiles(copy, form=Form(columns=columns)).sniffed
    header = () if found.header == form.header else (f"data.header={str(form.header).lower()}",)
    return (f"data.columns={columns}", *header)


def _check_places(read: Sequence[PairFiles], *written: Path) -> None:
    names = [file.path for files in read for file in (*files.inputs, *files.targets)]
    for path in written:
        check_place(path, names)
        if is_stream(path):
            raise WriteError(
                f"{path} is a pipe, a device or standard output, and the copy is read again; name a file"
            )

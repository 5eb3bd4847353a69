"""What the first lines say about a file: format, delimiter, header, columns, each with its reason."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from seqwright.config.registry import unknown
from seqwright.data.fields import symbols_in
from seqwright.data.read_report import Place
from seqwright.data.readers.columns import Column, Columns, Role, parse_columns
from seqwright.data.readers.jsonl import names_in, parse_object, value_under
from seqwright.data.text_display import shown
from seqwright.errors import ConfigError, InputError

if TYPE_CHECKING:
    from _csv import Reader

Format = Literal["parallel", "tsv", "csv", "jsonl"]
FORMATS = ("parallel", "tsv", "csv", "jsonl")

# A cell may be a whole line; the module's default of 131,072 would turn a long line into an error.
CELL_LIMIT = 1 << 30
_UNREADABLE = (ValueError, TypeError, AttributeError, RecursionError)  # what a line of JSON can be

_KNOWN_NAMES = (
    "source:target src:tgt src:trg input:output question:answer prompt:completion prompt:response lemma:form "
    "word:pronunciation word:phonemes grapheme:phoneme graphemes:phonemes text:summary document:summary "
    "text:label original:normalized en:de en:fr de:en fr:en"
)
_NAME_PAIRS = [names.split(":") for names in _KNOWN_NAMES.split()]
_OTHER_NAMES = (
    "features tags msd pos context id lang language code kind type category name word ipa phones "
    "transcription transliteration translation sentence"
)
_LANGUAGES = (
    "arabic chinese czech danish dutch english finnish french german greek hebrew hindi hungarian "
    "indonesian italian japanese korean norwegian persian polish portuguese romanian russian spanish swedish "
    "thai turkish ukrainian vietnamese"
)
_HEADER_NAMES = {name for names in _NAME_PAIRS for name in names}.union(
    _OTHER_NAMES.split(), _LANGUAGES.split()
)
_NAME = re.compile(r"[^\W\d][\w.-]*")  # what can be one of a column


@dataclass(frozen=True)
class Sniffed:
    """The form of a file, complete enough to read it; `reasons` say in words why."""

    format: Format
    delimiter: str = ""
    header: bool = False
    names: tuple[str, ...] = ()
    width: int = 0
    columns: Columns | None = None
    quoting: bool = False
    reasons: tuple[str, ...] = ()

    def because(self, reason: str, **changes: Any) -> Sniffed:
        return replace(self, reasons=(*self.reasons, reason), **changes)


@dataclass(frozen=True)
class Form:
    """What is asked of the form of a file; None is left to sniffing.

    Quoting is left to sniffing in CSV alone, where commas need it: elsewhere a stray `"` is a character, and
    a reader that trusts it swallows lines.
    """

    format: Format | None = None
    delimiter: str | None = None
    header: bool | None = None
    columns: str | None = None
    quoting: bool | None = None

    def __post_init__(self) -> None:
        if self.format not in (None, *FORMATS):
            raise ConfigError(f"format {self.format!r} is unknown; there are: {', '.join(FORMATS)}")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in "\r\n"):
            raise ConfigError(f"delimiter is {self.delimiter!r}; it must be one character")


def quoted(lines: Iterable[str], delimiter: str) -> Reader:
    """A reader of rows as RFC 4180 has them, strict: what it does not understand is a csv.Error."""
    csv.field_size_limit(max(CELL_LIMIT, csv.field_size_limit()))
    return csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)


def sniff(lines: list[str], name: str, asked: Form) -> Sniffed:
    """The form of a file of pairs from its first lines."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise InputError(f"{name} has no pairs: it is empty or blank")
    if asked.quoting is None:
        asked = replace(asked, quoting=_quotes_cells(filled, name, asked))
    form = _format(filled, name, asked)
    if form.format == "jsonl":
        return _json_columns(form, lines, filled, name, asked)
    if asked.quoting:
        reasons = ("quotes enclose cells",) if any('"' in line for line in filled) else ()
        form = replace(form, quoting=True, reasons=(*form.reasons, *reasons))
    rows = _rows(filled, form.delimiter, asked)
    form = _header(replace(form, width=len(rows[0])), rows[0], name, asked)
    try:
        return _row_columns(form, rows[form.header :] or rows, name, asked)
    except InputError as error:
        width = _quoted_width(filled, form.delimiter)
        if asked.quoting or width is None or {len(cells) for cells in rows} == {width}:
            raise
        raise InputError(
            f"{name}: quotes enclose cells here: give data.quoting=true; if they are text: {error}"
        ) from error


def _rows(filled: list[str], delimiter: str, asked: Form) -> list[list[str]]:
    """The rows on the first lines, one at least. If cells are quoted, those up to the first fault, which is
    named when it is read; the last of these lines may be in the middle of a cell.
    """
    if not asked.quoting:
        return [line.split(delimiter) for line in filled]
    rows = []
    try:
        for cells in quoted((line.replace("\r", " ") for line in filled), delimiter):
            rows.append(cells)
    except csv.Error:
        pass
    return rows or [filled[0].split(delimiter)]


def _quotes_cells(filled: list[str], name: str, asked: Form) -> bool:
    """Whether quotes enclose cells: in CSV, unless its first lines fit only if they are text."""
    try:
        form = _format(filled, name, replace(asked, quoting=True))
    except InputError:
        return False
    if form.format != "csv":
        return False
    plain = {len(line.split(form.delimiter)) for line in filled}
    return len(plain) > 1 or _quoted_width(filled, form.delimiter) is not None


def _quoted_width(filled: list[str], delimiter: str) -> int | None:
    """The width of all first lines if quotes enclose cells; None if they have no common one then."""
    try:
        widths = {len(cells) for cells in quoted(filled, delimiter)}
    except csv.Error:
        return None
    return widths.pop() if len(widths) == 1 else None


def _format(filled: list[str], name: str, asked: Form) -> Sniffed:
    if asked.delimiter is not None:
        kind: Format = "tsv" if asked.delimiter == "\t" else "csv"
        return Sniffed(kind, asked.delimiter, reasons=(f"delimiter {asked.delimiter!r}: as asked",))
    if asked.format == "jsonl" or (asked.format is None and _is_object(filled[0])):
        return Sniffed("jsonl", reasons=("JSONL: the first line is an object",))
    if asked.format in ("tsv", None) and len(_rows(filled, "\t", asked)[0]) > 1:
        return Sniffed("tsv", "\t", reasons=("TSV: the first line has a tab",))
    if asked.format == "csv" or (asked.format is None and ".csv" in name.lower()):
        delimiter = _steady_delimiter(filled, asked)
        if delimiter:
            return Sniffed("csv", delimiter, reasons=(f"CSV: {delimiter!r} comes in every line",))
    raise InputError(
        f"{name}:1: no tab between source and target in {filled[0][:40]!r}; expected source<TAB>target, "
        "JSON objects, a data.delimiter=..., or two files, one for each side"
    )


def _is_object(line: str) -> bool:
    return line.lstrip().startswith("{") and line.rstrip().endswith("}") and "\t" not in line


def _steady_delimiter(filled: list[str], asked: Form) -> str | None:
    """The separator that comes in every line, and most evenly."""
    widths = {mark: {len(cells) for cells in _rows(filled, mark, asked)} for mark in ",;\t|"}
    best = [(len(found), mark) for mark, found in widths.items() if min(found) > 1]
    return min(best)[1] if best else None


def _header(form: Sniffed, first: list[str], name: str, asked: Form) -> Sniffed:
    """Cautious: a first row is a header only if all its cells are well-known names, or those asked for."""
    names = [cell.strip().lower() for cell in first]
    if asked.header is False:
        return form.because("no header: as asked")
    if asked.header:
        return form.because("header: as asked", header=True, names=tuple(cell.strip() for cell in first))
    wanted = parse_columns(asked.columns) if asked.columns else None
    keys = {column.key for column in (*wanted.source, wanted.target)} if wanted else set()
    by_name = {key for key in keys if not key.isdecimal()}
    cells = [cell.strip() for cell in first]
    if by_name and by_name <= set(cells):
        reason = "header: the first row has the names that the columns were asked for by"
    elif len(set(names)) == len(names) > 1 and set(names) <= _HEADER_NAMES:
        reason = f"header: the first row has only names of columns ({', '.join(names)})"
    elif by_name:
        key = min(by_name - set(cells))
        there = [cell if _NAME.fullmatch(cell) else shown(cell, 20) for cell in cells]
        raise InputError(
            f"{name}: {unknown('column', key, there)} in the first row; name one of them, or, if that row "
            "is a pair, number the columns, as in --columns 1:2"
        )
    elif all(map(_NAME.fullmatch, cells)):
        return form.because("no header: the first row is read as a pair; data.header=true if it has names")
    else:
        return form.because("no header: the first row looks like data")
    return form.because(reason, header=True, names=tuple(cells))


def _row_columns(form: Sniffed, rows: list[list[str]], name: str, asked: Form) -> Sniffed:
    if asked.columns:
        columns, reason = parse_columns(asked.columns), f"columns {asked.columns}: as asked"
    else:
        columns, reason = _guess_columns(form, rows, name)
    indices = columns.indices(list(form.names) or None, form.width, name)
    roles: list[Role] = []
    for number, column in enumerate(columns.source):
        roles.append(_role(column, number, _column(rows, indices[number])))
        if number and column.role == "unsaid":
            reason += f"; column {column.key} looks like {roles[-1]}"
    return form.because(reason, columns=columns.with_roles(roles))


def _guess_columns(form: Sniffed, rows: list[list[str]], name: str) -> tuple[Columns, str]:
    lowered = [known.lower() for known in form.names]
    for source, target in _NAME_PAIRS:
        if source in lowered and target in lowered:
            inputs = [source, *(extra for extra in ("features", "tags", "msd") if extra in lowered)]
            found = [Column(form.names[lowered.index(known)]) for known in (*inputs, target)]
            columns = Columns(tuple(found[:-1]), found[-1])
            return columns, f"columns {columns}: by their names"
    if form.width == 2:
        return parse_columns("1:2"), "columns 1:2: there are two"
    if form.width == 3:
        features = [k for k in range(3) if _are_symbols(_column(rows, k), strict=True)]
        if len(features) == 1:
            marked = features[0] + 1
            left, right = (k for k in (1, 2, 3) if k != marked)
            columns = parse_columns(f"{left},{marked}+:{right}")
            return columns, f"columns {columns}: column {marked} holds features"
    first = ", ".join(shown(cell, 20) for cell in (form.names or rows[0]))
    raise InputError(
        f"{name} has {form.width} columns ({first}); say which to use: where the first row has names, "
        f"by them, as --columns {_named(form.names or rows[0])}, otherwise by number, as --columns 1:2"
    )


def _named(cells: Sequence[str]) -> str:
    """An example with the names of a first row, if they can be ones."""
    plain = [cell for cell in cells if _NAME.fullmatch(cell)]
    return ":".join(plain[:2]) if len(plain) == len(cells) else "word:sound"


def _column(rows: list[list[str]], index: int) -> list[str]:
    return [row[index] for row in rows if len(row) > index]


def _are_symbols(cells: list[str], *, strict: bool = False) -> bool:
    """Features: no spaces, and a separator in most cells or few names that come again; strict: both."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if not filled or any(" " in cell for cell in filled):
        return False
    names = [name for cell in filled for name in symbols_in(cell)]
    separated = 2 * sum(";" in cell or "|" in cell for cell in filled) >= len(filled)
    repeated = len(filled) >= 6 and 3 * len(set(names)) <= len(names)
    return separated and (repeated or len(filled) < 6) if strict else separated or repeated


def _role(column: Column, number: int, cells: list[str]) -> Role:
    """As asked; otherwise the first column is text, and a further one may hold symbols."""
    if column.role != "unsaid":
        return column.role
    return "symbols" if number and _are_symbols(cells) else "text"


def _json_columns(form: Sniffed, lines: list[str], filled: list[str], name: str, asked: Form) -> Sniffed:
    place = Place(name, lines.index(filled[0]) + 1)
    first = parse_object(filled[0], place)
    if asked.columns:
        columns, reason = parse_columns(asked.columns), f"keys {asked.columns}: as asked"
        for column in (*columns.source, columns.target):
            if not any(_has(line, column.key) for line in filled):
                wrong = unknown("key", column.key, names_in(first))
                raise InputError(f"{name}: {wrong}; name others, as in --columns question:answer")
    else:
        columns = _guess_keys(first, place)
        reason = f"keys {columns}: the first object has them"
    roles = [_role(column, k, _json_cells(column.key, filled)) for k, column in enumerate(columns.source)]
    return form.because(reason, columns=columns.with_roles(roles))


def _guess_keys(first: dict[str, Any], place: Place) -> Columns:
    texts = [key for key, value in first.items() if isinstance(value, str)]
    lowered = {key.lower(): key for key in texts}
    for source, target in _NAME_PAIRS:
        if source in lowered and target in lowered:
            return Columns((Column(lowered[source]),), Column(lowered[target]))
    if len(texts) == 2:
        return Columns((Column(texts[0]),), Column(texts[1]))
    names = names_in(first)
    dotted = "" if names == list(first) else "; a dot leads into an object"
    raise InputError(
        f"{place}: which of the keys {', '.join(names)}? Say so, as in --columns question:answer{dotted}"
    )


def _has(line: str, key: str) -> bool:
    """Whether an object has such a key; a line that is no object may have it."""
    try:
        value_under(json.loads(line), key)
    except KeyError:
        return False
    except _UNREADABLE:
        return True
    return True


def _json_cells(key: str, lines: list[str]) -> list[str]:
    cells = []
    for line in lines:
        try:
            value = value_under(json.loads(line), key)
        except (KeyError, *_UNREADABLE):
            continue  # reading it in earnest names the fault
        if isinstance(value, str):
            cells.append(value)
        elif isinstance(value, list):
            cells.append(";".join(map(str, value)))
    return cells

"""Detection of a file's format from its first lines: format, delimiter, header and columns, with reasons."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args

from seqwright.config.registry import unknown
from seqwright.data.fields import symbols_in
from seqwright.data.read_report import Place
from seqwright.data.readers.columns import ColumnSelector, FieldKind, PairColumns, parse_columns, unknown_name
from seqwright.data.readers.jsonl import MISSING, names_in, parse_object, value_under
from seqwright.data.text_display import LISTED, MOST, excerpt, shorten_list
from seqwright.errors import ConfigError, InputError

Format = Literal["parallel", "tsv", "csv", "jsonl"]

_NAMES = (  # source:target
    "source:target src:tgt src:trg input:output question:answer prompt:completion prompt:response lemma:form "
    "context:reply context:response "
    "word:pronunciation word:phonemes grapheme:phoneme graphemes:phonemes text:summary document:summary "
    "original:normalized en:de en:fr de:en fr:en"
)
_NAME_PAIRS = [names.split(":") for names in _NAMES.split()]
_OTHER_NAMES = (
    "features tags msd pos context id lang language code kind type category name word ipa phones "
    "transcription transliteration translation sentence words tokens "
    "arabic chinese czech danish dutch english finnish french german greek hebrew hindi hungarian "
    "indonesian italian japanese korean norwegian persian polish portuguese romanian russian spanish swedish "
    "thai turkish ukrainian vietnamese"
)
_HEADER_NAMES = {name for names in _NAME_PAIRS for name in names}.union(_OTHER_NAMES.split())
COUNTED = 10  # rows from which on rising numbers are those of the rows
_NAME = re.compile(r"[^\W\d][\w.-]{,60}")  # a possible column name


@dataclass(frozen=True)
class FileFormat:
    """The format of a file, complete enough to read it; `reasons` explain each choice."""

    format: Format
    delimiter: str = ""
    header: bool = False
    names: tuple[str, ...] = ()
    width: int = 0
    columns: PairColumns | None = None
    quoting: bool = False
    reasons: tuple[str, ...] = ()

    def because(self, reason: str, **changes: Any) -> FileFormat:
        return replace(self, reasons=(*self.reasons, reason), **changes)


@dataclass(frozen=True)
class FormatOptions:
    """The options of the user about the format of a file; None means: detect it.

    Quoting is detected in CSV only, because commas need it. Elsewhere a stray `"` is a character. evidence:
    why these are the columns, header_evidence: why there is a header or none. texts: the source columns hold
    texts, whatever they look like.
    """

    format: Format | None = None
    delimiter: str | None = None
    header: bool | None = None
    columns: str | None = None
    quoting: bool | None = None
    evidence: str = "requested"
    header_evidence: str = "requested"
    texts: bool = False

    def __post_init__(self) -> None:
        if self.format not in (None, *get_args(Format)):
            raise ConfigError(unknown("format", str(self.format), list(get_args(Format))))
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in "\r\n"):
            raise ConfigError(f"delimiter is {self.delimiter!r}; it must be one character")

    @property
    def requested(self) -> PairColumns | None:
        columns = parse_columns(self.columns) if self.columns else None
        return columns.with_kinds(["text"] * len(columns.source)) if columns and self.texts else columns


def quoted(lines: Iterable[str], delimiter: str, longest: int = 1 << 30) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with quoted cells (RFC 4180): (number of lines, cells).

    Faults are csv.Error, also a row of more than `longest` characters: a quote may never close.
    """
    csv.field_size_limit(max(longest, csv.field_size_limit()))
    count = size = 0

    def ended() -> Iterator[str]:
        nonlocal count, size
        for line in lines:
            count, size = count + 1, size + len(line)
            if size > longest:
                raise csv.Error(f"more than {longest:,} characters")
            yield line + "\n"

    for cells in csv.reader(ended(), delimiter=delimiter, strict=True):
        yield count, cells
        count = size = 0


def sniff(first: int, lines: list[str], name: str, options: FormatOptions) -> FileFormat:
    """Return the format of a file of pairs from its first lines, numbered from `first` on."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise InputError(f"{name} has no pairs: it is empty or blank")
    place = Place(name, first)
    quoting = _quotes_cells(filled, place, options) if options.quoting is None else options.quoting
    detected = _format(filled, place, options, quoting)
    if detected.format == "jsonl":
        return _json_columns(detected, filled, place, options)
    if quoting and any('"' in line for line in filled):
        detected = detected.because("quotes enclose cells")
    rows = _rows(filled, detected.delimiter, quoting)
    detected = _header(replace(detected, quoting=quoting, width=len(rows[0])), rows, name, options)
    try:
        return _row_columns(detected, rows[detected.header :] or rows, name, options)
    except InputError as error:
        width = _quoted_width(filled, detected.delimiter)
        if quoting or width is None or {len(cells) for cells in rows} == {width}:
            raise
        way_out = "quotes enclose cells here; set data.quoting=true. If the quotes are text"
        raise InputError(f"{name}: {way_out}: {error}") from error


def csv_delimiter(filled: Sequence[str], quoting: bool = True) -> str | None:
    """Return the character that divides every row into the most even numbers of cells, or None."""
    widths = {mark: {len(cells) for cells in _rows(filled, mark, quoting)} for mark in ",;\t|"}
    steady = [(len(found), mark) for mark, found in widths.items() if found and min(found) > 1]
    return min(steady)[1] if steady else None


def _rows(filled: Sequence[str], delimiter: str, quoting: bool) -> list[list[str]]:
    """Return the rows on the first lines; quoted ones up to a fault, which may be a cell that is cut."""
    if not quoting:
        return [line.split(delimiter) for line in filled]
    rows = []
    with suppress(csv.Error):
        for _, cells in quoted((line.replace("\r", " ") for line in filled), delimiter):
            rows.append(cells)
    return rows or [filled[0].split(delimiter)]


def _quotes_cells(filled: list[str], place: Place, options: FormatOptions) -> bool:
    """Return whether quotes enclose cells: in CSV, unless the first lines fit only if quotes are text."""
    try:
        detected = _format(filled, place, options, quoting=True)
    except InputError:
        return False
    if detected.format != "csv":
        return False
    unquoted_widths = {len(line.split(detected.delimiter)) for line in filled}
    return len(unquoted_widths) > 1 or _quoted_width(filled, detected.delimiter) is not None


def _quoted_width(filled: list[str], delimiter: str) -> int | None:
    """Return the common width of the first rows if quotes enclose cells, or None."""
    try:
        widths = {len(cells) for _, cells in quoted(filled, delimiter)}
    except csv.Error:
        return None
    return widths.pop() if len(widths) == 1 else None


def _format(filled: list[str], place: Place, options: FormatOptions, quoting: bool) -> FileFormat:
    wanted, first = options.format, filled[0]
    if options.delimiter is not None:
        kind: Format = "tsv" if options.delimiter == "\t" else "csv"
        return FileFormat(kind, options.delimiter, reasons=(f"delimiter {options.delimiter!r}: requested",))
    is_object = first.lstrip().startswith("{") and first.rstrip().endswith("}") and "\t" not in first
    if wanted == "jsonl" or (wanted is None and is_object):
        return FileFormat("jsonl", reasons=("JSONL: the first line is an object",))
    if wanted in ("tsv", None) and len(_rows(filled, "\t", quoting)[0]) > 1:
        return FileFormat("tsv", "\t", reasons=("TSV: the first line has a tab",))
    if wanted == "csv" or (wanted is None and ".csv" in place.file.lower()):
        delimiter = csv_delimiter(filled, quoting)
        if delimiter is not None:
            return FileFormat("csv", delimiter, reasons=(f"CSV: every line has {delimiter!r}",))
    if first.lstrip().startswith("["):
        raise InputError(
            f"{place.file} begins with a JSON list; write JSON lines, one object on each line, for example "
            "with jq -c '.[]'"
        )
    raise InputError(
        f"{place}: no tab between source and target in {first[:40]!r}; expected source<TAB>target, JSON "
        "objects, a data.delimiter=..., or two files, one for each side"
    )


def _header(detected: FileFormat, rows: list[list[str]], name: str, options: FormatOptions) -> FileFormat:
    """Take the first row for a header only if all cells are well-known names, if the user names them, or if
    it stands above the numbers of the rows.
    """
    cells = [cell.strip() for cell in rows[0]]
    if options.header is False:
        return detected.because(f"no header: {options.header_evidence}")
    keys = parse_columns(options.columns).keys if options.columns else []
    requested = {key for key in keys if not key.isdecimal()}
    lowered = [cell.lower() for cell in cells]
    if options.header:
        reason = f"header: {options.header_evidence}"
    elif requested and requested <= set(cells):
        reason = "header: the first row has the names of these columns"
    elif len(set(lowered)) == len(lowered) > 1 and set(lowered) <= _HEADER_NAMES:
        reason = f"header: the first row has only names of columns ({', '.join(lowered)})"
    elif requested:
        missing = min(requested - set(cells))
        known = [cell if _NAME.fullmatch(cell) else excerpt(cell, 20) for cell in cells[:LISTED]]
        wrong = unknown_name("column", missing, known + cells[LISTED:])  # which lists the first ones
        raise InputError(
            f"{name}: {wrong} in the first row; name one of them, or, if that row is a pair, use numbers, as "
            "in --columns 1:2"
        )
    elif len(cells) > 2 and (numbered := [k for k in _counters(rows[1:], cells) if not cells[k].isdecimal()]):
        reason = f"header: the first row is above the numbers in column {numbered[0] + 1}"
    elif all(map(_NAME.fullmatch, cells)):
        return detected.because("no header: the first row is a pair; if it has names, set data.header=true")
    else:
        return detected.because("no header: the first row looks like data")
    return detected.because(reason, header=True, names=tuple(cells))


def _row_columns(found: FileFormat, rows: list[list[str]], name: str, options: FormatOptions) -> FileFormat:
    if (columns := options.requested) is not None:
        reason = f"columns {options.columns}: {options.evidence}"
    else:
        columns, reason = _guess_columns(found, rows, name)
    indices = columns.indices(list(found.names) or None, found.width, name)
    kinds = [_kind(column, k, _cells_at(rows, indices[k])) for k, column in enumerate(columns.source)]
    for column, kind in zip(columns.source[1:], kinds[1:], strict=True):
        reason += f"; column {column.key} looks like {kind}" if column.kind == "unspecified" else ""
    return found.because(reason, columns=columns.with_kinds(kinds))


def _guess_columns(detected: FileFormat, rows: list[list[str]], name: str) -> tuple[PairColumns, str]:
    lowered = [known.lower() for known in detected.names]
    for source, target in _NAME_PAIRS:
        if source in lowered and target in lowered:
            inputs = [source, *(extra for extra in ("features", "tags", "msd") if extra in lowered)]
            found = [ColumnSelector(detected.names[lowered.index(known)]) for known in (*inputs, target)]
            columns = PairColumns(tuple(found[:-1]), found[-1])
            return columns, f"columns {columns}: by their names"
    if detected.width == 2:
        return parse_columns("1:2"), "columns 1:2: there are two"
    if detected.width == 3:
        marked = [k for k in (1, 2, 3) if _are_symbols(_cells_at(rows, k - 1), strict=True)]
        if len(marked) == 1:
            left, right = (k for k in (1, 2, 3) if k not in marked)
            columns = parse_columns(f"{left},{marked[0]}+:{right}")
            return columns, f"columns {columns}: column {marked[0]} holds features"
    counters = _counters(rows, rows[0])
    others = [k for k in range(detected.width) if k not in counters]
    if counters and len(others) == 2:
        columns = parse_columns(":".join(str(k + 1) for k in others))
        return columns, f"columns {columns}: column {counters[0] + 1} numbers the rows"
    first = list(detected.names) or rows[0]
    shown = [excerpt(cell, 20) for cell in first[:LISTED]] + first[LISTED:]
    named = all(_NAME.fullmatch(cell.replace(" ", "_")) for cell in first)
    names = shlex.quote(":".join([first[k] for k in others][:2] if named else ["word", "sound"]))
    raise InputError(
        f"{name} has {detected.width:,} columns ({shorten_list(shown)}); choose the columns of source and "
        f"target, or of text and label: by name if the first row has names, as --columns {names}, otherwise "
        "by number, as --columns 1:2"
    )


def _counters(rows: list[list[str]], first: list[str]) -> list[int]:
    """Return the indices of the columns that number the rows, which are as wide as the first: whole numbers
    that rise in every row.
    """
    if len(rows) < COUNTED or {len(row) for row in rows} != {len(first)}:
        return []
    return [index for index, cells in enumerate(zip(*rows, strict=True)) if _rises(cells)]


def _rises(cells: Sequence[str]) -> bool:
    numbers = [int(cell) for cell in cells if cell.strip().isdecimal() and len(cell) < 20]
    return len(numbers) == len(cells) and all(before < after for before, after in pairwise(numbers))


def _cells_at(rows: list[list[str]], index: int) -> list[str]:
    return [row[index] for row in rows if len(row) > index]


def _are_symbols(cells: list[str], *, strict: bool = False) -> bool:
    """Return whether cells hold features: no spaces, and separators or few distinct names; strict: both."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if not filled or any(" " in cell for cell in filled):
        return False
    names = [name for cell in filled for name in symbols_in(cell)]
    separated = 2 * sum(";" in cell or "|" in cell for cell in filled) >= len(filled)
    repeated = len(filled) >= 6 and 3 * len(set(names)) <= len(names)
    return separated and (repeated or len(filled) < 6) if strict else separated or repeated


def _kind(column: ColumnSelector, number: int, cells: list[str]) -> FieldKind:
    """Return the requested kind. By default the first column is text, and the others are detected."""
    if column.kind != "unspecified":
        return column.kind
    return "symbols" if number and _are_symbols(cells) else "text"


def _json_columns(found: FileFormat, filled: list[str], place: Place, options: FormatOptions) -> FileFormat:
    first = parse_object(filled[0], place)
    objects = [first]
    for line in filled[1:]:
        with suppress(InputError):
            objects.append(parse_object(line, place))
    if (columns := options.requested) is not None:
        reason = f"keys {options.columns}: {options.evidence}"
        for key in columns.keys:
            # a line that cannot be parsed may have the key; reading reports the line
            if len(objects) == len(filled) and all(value_under(each, key) is MISSING for each in objects):
                wrong = unknown_name("key", key, names_in(first))
                raise InputError(f"{place.file}: {wrong}; name others, as in --columns question:answer")
    else:
        columns = _guess_keys(first, place)
        reason = f"keys {columns}: the first object has them"
    kinds = [_kind(column, k, _json_cells(column.key, objects)) for k, column in enumerate(columns.source)]
    return found.because(reason, columns=columns.with_kinds(kinds))


def _guess_keys(first: dict[str, Any], place: Place) -> PairColumns:
    texts = [key for key, value in first.items() if isinstance(value, str)]
    lowered = {key.lower(): key for key in texts}
    known = ([lowered[name] for name in pair] for pair in _NAME_PAIRS if lowered.keys() >= set(pair))
    found = next(known, texts)
    if len(found) == 2 and all(len(key) <= MOST and key.isprintable() for key in found):
        source, target = found
        return PairColumns((ColumnSelector(source),), ColumnSelector(target))
    names = names_in(first)
    nested = "" if names == list(first) else "; a dot leads into an object"
    way_out = f"choose the source and the target, as in --columns question:answer{nested}"
    if "text" in names:
        way_out += "; to learn the texts alone, add --task language_modeling"
    raise InputError(f"{place}: the keys are {shorten_list(names)}; {way_out}")


def _json_cells(key: str, objects: list[dict[str, Any]]) -> list[str]:
    values = [value_under(value, key) for value in objects]
    lists = [value for value in values if isinstance(value, list)]
    symbols = [";".join(each) for each in lists if all(isinstance(symbol, str) for symbol in each)]
    return symbols + [value for value in values if isinstance(value, str)]

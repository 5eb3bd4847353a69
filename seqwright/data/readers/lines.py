"""Bytes to lines: decoding and cleaning, in blocks and bounded memory.

Only "\\n" ends a line, so the number of lines is that of `wc -l` (plus a last line without "\\n").
`str.splitlines` would also break lines at U+2028, U+0085, vertical tabs and form feeds.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NoReturn

from seqwright.data.fields import FIELD, REPLACEMENT, SYMBOL
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.files import BLOCK, Input
from seqwright.errors import ConfigError, InputError, brief
from seqwright.files import uncompressed

OnBadBytes = Literal["error", "replace"]

BEGINNING = 4096  # bytes that show whether a file is text
MOST_RETURNS = 20  # carriage returns in a line; more of them are line ends
_DOCUMENTS = dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "CSV")
_DOCUMENTS |= dict.fromkeys((".pdf", ".docx", ".doc", ".odt", ".rtf", ".epub"), "plain text (.txt)")
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})  # an escape may change the character set

# UTF-32 first: its little-endian mark begins with that of UTF-16
_WIDE_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_WIDE_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_UNCLEAN = re.compile(f"[\r\n\0{FIELD}{SYMBOL}\ud800-\udfff]")
_SEPARATOR = re.compile(r'"?sep=."?[,;\t]*\r?')  # the first line of CSV that spreadsheets write or expect
_CHANGES = (
    (re.compile(r"\r\n|[\r\n]"), " ", Reason.LINE_BREAK),
    (re.compile("[\ud800-\udfff]"), REPLACEMENT, Reason.SURROGATE),
    (re.compile(f"[{FIELD}{SYMBOL}]"), REPLACEMENT, Reason.NONCHARACTER),
)


class LongLineError(InputError):
    """A line has more bytes than `data.max_line`."""


@dataclass(frozen=True)
class Decoding:
    """The encoding of a file, what to do with bytes that it cannot decode, and the longest line in bytes."""

    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "error"
    max_line: int = 10_000_000

    def __post_init__(self) -> None:
        try:
            "\n".encode(self.encoding)  # `hex` is a codec, too, but not of text
        except (LookupError, ValueError) as error:
            message = f"encoding {brief(self.encoding)} is unknown; try utf-8, cp1252 or gb18030"
            raise ConfigError(message) from error
        if self.on_bad_bytes not in ("error", "replace"):
            raise ConfigError(f"on_bad_bytes is {self.on_bad_bytes!r}; it can be 'error' or 'replace'")


def read_blocks(source: Input, decoding: Decoding, report: ReadReport) -> Iterator[tuple[int, list[str]]]:
    """Yield clean lines in blocks: (number of the first line, lines)."""
    number, offset = 1, 0
    for data in _whole_lines(source.blocks(), source.name, decoding):
        _check_lines(data, source.name, number, decoding.max_line)
        lines = _decoded(data, source.name, number, offset, decoding, report).split("\n")
        if data.endswith(b"\n"):
            lines.pop()
        if number == 1 and lines[0].startswith("\ufeff"):
            lines[0] = lines[0][1:]
            report.add(Reason.BYTE_ORDER_MARK, Place(source.name, 1))
        yield number, lines
        number += len(lines)
        offset += len(data)


def table_lines(source: Input, decoding: Decoding, report: ReadReport) -> tuple[int, Iterator[str]]:
    """Return the number of the first clean line of a table, and the lines; `sep=;` in CSV is not one."""
    blocks = read_blocks(source, decoding, report)
    number, lines = next(blocks, (1, list[str]()))
    if lines and _is_separator(lines[0], source.name):
        report.add(Reason.SEPARATOR_LINE, Place(source.name, 1))
        number, lines = 2, lines[1:]
    return number, chain(lines, (line for _, block in blocks for line in block))


def _is_separator(line: str, name: str) -> bool:
    return ".csv" in name.lower() and _SEPARATOR.fullmatch(line) is not None


def read_text(source: Input, decoding: Decoding, report: ReadReport) -> Iterator[tuple[int, str]]:
    """Yield clean text with its line ends in blocks: (number of the first line, text).

    A line may be of any length: where a block has no line end, it ends before a space.
    """
    number, offset = 1, 0
    for data in _cut_blocks(_as_utf8(source.blocks(), source.name, decoding)):
        text = _decoded(data, source.name, number, offset, decoding, report)
        if offset == 0 and text.startswith("\ufeff"):
            text = text[1:]
            report.add(Reason.BYTE_ORDER_MARK, Place(source.name, 1))
        yield number, text
        number += data.count(b"\n")
        offset += len(data)


def count_lines(source: Input, decoding: Decoding) -> int:
    """Return the number of lines that `read_blocks` yields, without decoding them."""
    count, lenient = 0, replace(decoding, on_bad_bytes="replace")
    for data in _whole_lines(source.blocks(), source.name, lenient):
        _check_lines(data, source.name, count + 1, decoding.max_line)
        count += data.count(b"\n") + (not data.endswith(b"\n"))
    return count


def first_lines(source: Input, decoding: Decoding, most: int = 1000) -> tuple[int, list[str]]:
    """Return the number of the first line that is not blank or `sep=;` in CSV, and the lines from it on.

    They are `most` lines, or fewer with BLOCK characters. Bad bytes are replaced; reading reports them.
    """
    encoding, lenient = _byte_encoding(decoding), replace(decoding, on_bad_bytes="replace")
    number, lines, blank, size = 1, list[str](), 0, 0
    for data in _whole_lines(source.peek(), source.name, lenient):
        _check_lines(data, source.name, number + len(lines), decoding.max_line)
        found = data.decode(encoding, "replace").removesuffix("\n").split("\n")
        if not lines:
            found[0] = found[0] if blank else found[0].removeprefix("\ufeff")
            if not blank and _is_separator(found[0], source.name):
                found[0] = ""
            first = next((row for row, line in enumerate(found) if line.strip()), len(found))
            number, found, blank = number + first, found[first:], blank + len(data)
        lines += (line.removesuffix("\r") for line in found)
        size += sum(map(len, found))
        if len(lines) >= most or size >= BLOCK:
            break
        if not lines and blank > decoding.max_line:
            message = f"{source.name} begins with more than {decoding.max_line:,} bytes of blank lines"
            raise InputError(f"{message}; remove them, or raise data.max_line")
    else:
        if len(lines) == 1 and lines[0].count("\r") > 1:
            _refuse_carriage_returns(source.name, lines[0].count("\r"))
    return number, lines[:most]


def cleaned(text: str, place: Place, on_bad_bytes: OnBadBytes, report: ReadReport) -> str:
    """Return the text of a line or cell without characters that a line cannot hold; `report` counts them."""
    if not _UNCLEAN.search(text):
        return text
    if text.endswith("\r"):
        text = text[:-1]
        report.add(Reason.CARRIAGE_RETURN, place)
    if "\0" in text:
        if on_bad_bytes == "error":
            raise InputError(
                f"{place}: a NUL character at position {text.index(chr(0)) + 1}; text has none. "
                "Is the file binary or UTF-16? Convert it, or set data.on_bad_bytes=replace"
            )
        text = text.replace("\0", " ")
        report.add(Reason.NUL, place)
    for pattern, new, reason in _CHANGES:
        text, changes = pattern.subn(new, text)
        if changes:
            report.add(reason, place)
    return text


def guess_encoding(data: bytes) -> str:
    """Return a likely encoding of bytes that are not UTF-8: single high bytes, and two inside of a word of
    Latin letters, look western; runs do not.
    """
    runs = re.findall(rb"[\x80-\xff]+", data)
    inside = len(re.findall(rb"(?<=[A-Za-z])[\x80-\xff]{2}(?=[A-Za-z])", data))
    if 2 * (sum(len(run) == 1 for run in runs) + inside) >= len(runs):
        return "cp1252" if re.search(rb"[\x80-\x9f]", data) else "latin-1"
    high = b"".join(runs)
    if sum(byte >= 0xC0 for byte in high) > 0.9 * len(high) and any(len(run) % 2 for run in runs):
        return "cp1251"
    for name in ("gb18030", "shift_jis", "euc-kr"):
        with suppress(UnicodeDecodeError):
            data.decode(name)
            return name
    return "cp1252"


def is_wide(encoding: str) -> bool:
    """Return whether the byte 10 can be a part of another character than the line end."""
    return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


def _whole_lines(blocks: Iterator[bytes], name: str, decoding: Decoding) -> Iterator[bytes]:
    """Yield the same bytes, cut after line ends; a line that is longer than the limit ends them, incomplete.

    The beginning of a line waits in a list, so its cost is linear.
    """
    waiting, size = list[bytes](), 0
    for block in _as_utf8(blocks, name, decoding):
        end = block.rfind(b"\n") + 1
        rest = block.find(b"\n") if end else len(block)  # of the line that waits
        size += rest
        if size > decoding.max_line:
            yield b"".join((*waiting, block[:rest]))
            return
        if not end:
            waiting.append(block)
            continue
        yield b"".join((*waiting, block[:end]))
        waiting, size = [block[end:]], len(block) - end
    if data := b"".join(waiting):
        yield data


def _cut_blocks(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in blocks that end after a line end, before a space, or between characters."""
    rest = b""
    for block in blocks:
        data = rest + block
        end = data.rfind(b"\n") + 1 or max(data.rfind(b" "), 0) or _between_characters(data)
        if end:
            yield data[:end]
        rest = data[end:]
    if rest:
        yield rest


def _between_characters(data: bytes) -> int:
    """Return the last place in UTF-8 that does not divide a character."""
    end = len(data)
    while end > max(len(data) - 4, 0) and data[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if end and data[end - 1] >= 0xC0 else len(data)


def _check_lines(data: bytes, name: str, number: int, limit: int) -> None:
    """Raise InputError for a line that is too long, and for carriage returns as line ends."""
    returns = data.count(b"\r") if b"\r" in data else 0  # counting takes ten times as long as searching
    if returns > MOST_RETURNS and returns - data.count(b"\r\n") > MOST_RETURNS:
        for row, line in enumerate(data.split(b"\n"), number):
            if (count := line.count(b"\r")) > MOST_RETURNS:
                _refuse_carriage_returns(str(Place(name, row)), count)
    if data.endswith(b"\n"):
        return
    if number == 1 and returns > 1:
        _refuse_carriage_returns(name, returns)
    if len(data) > limit:
        rule = f"the line has more than {limit:,} bytes; shorten it, or raise data.max_line"
        raise LongLineError(f"{Place(name, number)}: {rule}")


def _refuse_carriage_returns(where: str, count: int) -> NoReturn:
    raise InputError(
        f"{where} has {count:,} carriage returns and no line feed, so it would be read as one line; convert "
        "its line ends, for example with tr '\\r' '\\n'"
    )


def _byte_encoding(decoding: Decoding) -> str:
    """Return the encoding of what `_as_utf8` yields."""
    return "utf-8" if is_wide(decoding.encoding) else decoding.encoding


def _as_utf8(blocks: Iterator[bytes], name: str, decoding: Decoding) -> Iterator[bytes]:
    """Yield blocks in an encoding in which the byte 10 is always a line end."""
    # Enough bytes to recognise a byte order mark, and no more: a short line from a terminal is complete.
    first = next(blocks, b"")
    while first and any(mark.startswith(first) for mark in _WIDE_MARKS) and (more := next(blocks, b"")):
        first += more
    if not is_wide(decoding.encoding):
        _refuse_non_text(first, name)
        yield from chain([first], blocks)
        return
    errors = "strict" if decoding.on_bad_bytes == "error" else "replace"
    decoder, position = codecs.getincrementaldecoder(decoding.encoding)(errors), 0
    try:
        for block in chain([first], blocks):
            yield decoder.decode(block).encode()
            position += len(block)
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        message = f"{name}: bytes near {position:,} are not {decoding.encoding}: {error.reason}"
        raise InputError(message) from error


def _refuse_non_text(first: bytes, name: str) -> None:
    """Raise InputError for wide or binary files. A single NUL in a text is reported with its line later."""
    for mark, encoding in _WIDE_MARKS.items():
        if first.startswith(mark):
            raise InputError(f"{name} looks like {encoding.upper()}; set data.encoding={encoding}")
    beginning = first[:BEGINNING]
    controls = len(beginning) - len(beginning.translate(None, _CONTROLS))
    if b"\0" in beginning and controls >= max(8, len(beginning) / 20):
        order = "le" if beginning[1::2].count(0) > beginning[::2].count(0) else "be"
        if form := _DOCUMENTS.get(uncompressed(name).suffix.lower()):
            raise InputError(
                f"{name} is a document of another program; export it as {form} and name that file"
            )
        raise InputError(
            f"{name} is not text: {controls:,} of its first {len(beginning):,} bytes are NUL or other "
            f"control characters; name a text file, or set data.encoding=utf-16-{order} if it is UTF-16 "
            "without a byte order mark"
        )


def _decoded(data: bytes, name: str, number: int, offset: int, decoding: Decoding, report: ReadReport) -> str:
    wide, encoding = is_wide(decoding.encoding), _byte_encoding(decoding)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if decoding.on_bad_bytes == "error":
            at = number + data.count(b"\n", 0, error.start)
            byte, guess = data[error.start], guess_encoding(data[error.start : error.start + BLOCK])
            raise InputError(
                f"{name}:{at}: byte 0x{byte:02x} at offset {offset + error.start:,} is not {encoding}; "
                f"it may be {guess}: set data.encoding={guess}, or data.on_bad_bytes=replace"
            ) from error
        lines = []
        for row, raw in enumerate(data.split(b"\n"), number):
            try:
                lines.append(raw.decode(encoding))
            except UnicodeDecodeError:
                lines.append(raw.decode(encoding, "replace"))
                report.add(Reason.BAD_BYTES, Place(name, row))
        text = "\n".join(lines)
    if wide and decoding.on_bad_bytes == "replace" and REPLACEMENT in text:
        for row, line in enumerate(text.split("\n"), number):
            if REPLACEMENT in line:
                report.add(Reason.BAD_BYTES, Place(name, row))
    if not ("\r" in text or "\0" in text or FIELD in text or SYMBOL in text):
        return text
    rows = enumerate(text.split("\n"), number)
    return "\n".join(cleaned(line, Place(name, row), decoding.on_bad_bytes, report) for row, line in rows)

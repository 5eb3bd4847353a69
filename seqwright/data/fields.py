"""Sources of several fields in one string: lemma and features, question and context.

Two Unicode noncharacters, which the standard reserves for use inside a program (Unicode 15, section 23.7),
mark the fields. Readers replace them in text from outside, so no text can pass for a marker:

    source = text (FIELD text | SYMBOL name)*        "gehen" + V;PST;3  ->  gehen⟨SYMBOL⟩V⟨SYMBOL⟩PST⟨SYMBOL⟩3

A tokenizer encodes each text separately, FIELD as one id, and SYMBOL with its name as one id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

FIELD = "\ufdd0"
SYMBOL = "\ufdd1"
REPLACEMENT = "\ufffd"

_MARKERS = re.compile(f"[{FIELD}{SYMBOL}]")
_PARTS = re.compile(f"({FIELD}|{SYMBOL}[^{FIELD}{SYMBOL}]*)")
_BETWEEN_SYMBOLS = re.compile(r"[;|\s]+")


class JoinedFields(str):
    """A source whose fields are joined already; it may still contain no marker."""

    __slots__ = ()


def has_fields(source: str) -> bool:
    return FIELD in source or SYMBOL in source


def is_blank(source: str) -> bool:
    """Return whether a source has neither text nor symbols."""
    return not source or source.isspace() or (FIELD in source and not source.replace(FIELD, "").strip())


def has_blank_field(source: str) -> bool:
    """Return whether the text of a field is blank, in a source without symbols."""
    return any(not field or field.isspace() for field in source.split(FIELD))


def plain(text: str) -> str:
    """Return a text from outside without characters that would be read as markers."""
    return _MARKERS.sub(REPLACEMENT, text) if has_fields(text) else text


def symbols_in(cell: str) -> list[str]:
    """Return the names in a cell of features: `V;PST` (UniMorph), `Case=Nom|Number=Sing` (CoNLL-U)."""
    return [name for name in _BETWEEN_SYMBOLS.split(cell) if name]


def join_fields(fields: Iterable[str | list[str]]) -> JoinedFields:
    """Return one source: a string is a text, a list holds the names of symbols."""
    parts: list[str] = []
    for number, field in enumerate(fields):
        if isinstance(field, list):
            parts += [SYMBOL + name for name in field]
        else:
            parts += [FIELD, field] if number else [field]
    return JoinedFields("".join(parts))


def join_texts(texts: Sequence[str]) -> str:
    """Return texts as the fields of one source; if all of them are blank, an empty one."""
    return join_fields(texts) if any(text.strip() for text in texts) else ""


def split_parts(source: str) -> list[str]:
    """Return texts at even indices and markers at odd ones; joined, they are the source."""
    return _PARTS.split(source) if has_fields(source) else [source]


def places_read(ids: Sequence[int], limit: int, separator: int | None = None) -> Sequence[int]:
    """Return the places of the ids that are read, at most `limit`: the first ones. Of two fields with this
    separator the longer one is cut first, so that two long ones keep halves.
    """
    if separator is None or separator not in ids:
        return range(min(limit, len(ids)))
    middle, room = ids.index(separator), limit - 1
    left = min(middle, max(room - (len(ids) - middle - 1), (room + 1) // 2))
    return [*range(left), *range(middle, min(middle + 1 + room - left, len(ids)))]


def as_line(source: str) -> str:
    """Return a source as a line of input: tabs between fields, `;` between the names of symbols."""
    line, *rest = split_parts(source)
    separator = "\t" if line else ""  # before a symbol
    for marker, text in zip(rest[::2], rest[1::2], strict=True):
        if marker == FIELD:
            line, separator = f"{line}\t{text}", "\t"
        else:
            line, separator = f"{line}{separator}{marker[1:]}{text}", ";"
    return line

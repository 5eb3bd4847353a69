"""Sources of several fields in one string: lemma and features, question and context.

Two Unicode noncharacters, which the standard reserves for use inside a program (Unicode 15, section 23.7),
mark the fields; reading replaces them wherever they come from outside, so text can never pose as a marker:

    source = text (FIELD text | SYMBOL name)*        "gehen" + V;PST;3  ->  gehen⟨SYMBOL⟩V⟨SYMBOL⟩PST⟨SYMBOL⟩3

A tokenizer encodes each text on its own, FIELD as one id, and SYMBOL with its name as one id of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FIELD = "\ufdd0"
SYMBOL = "\ufdd1"
REPLACEMENT = "\ufffd"

_MARKS = re.compile(f"[{FIELD}{SYMBOL}]")
_PARTS = re.compile(f"({FIELD}|{SYMBOL}[^{FIELD}{SYMBOL}]*)")
_BETWEEN_SYMBOLS = re.compile(r"[;|\s]+")


class Joined(str):
    """A source whose fields were put together: to be read as it is, also if none of them left a marker."""

    __slots__ = ()


def has_fields(source: str) -> bool:
    return FIELD in source or SYMBOL in source


def is_blank(source: str) -> bool:
    """Whether there is neither text nor a symbol in it."""
    return not source or source.isspace() or (FIELD in source and not source.replace(FIELD, "").strip())


def plain(text: str) -> str:
    """Text from outside, so that none of it reads as a marker."""
    return _MARKS.sub(REPLACEMENT, text) if has_fields(text) else text


def symbols_in(cell: str) -> list[str]:
    """The names in a cell of features: `V;IND;PST` (UniMorph), `Case=Nom|Number=Sing` (CoNLL-U), `V PST`."""
    return [name for name in _BETWEEN_SYMBOLS.split(cell) if name]


def join_fields(fields: Iterable[str | list[str]]) -> Joined:
    """One source from plain fields: a string is text, a list holds the names of symbols."""
    parts: list[str] = []
    for number, field in enumerate(fields):
        if isinstance(field, list):
            parts += [SYMBOL + name for name in field]
        else:
            parts += [FIELD, field] if number else [field]
    return Joined("".join(parts))


def split_parts(source: str) -> list[str]:
    """Texts at even places and markers at odd ones; put together they are the source."""
    return _PARTS.split(source) if has_fields(source) else [source]


def as_line(source: str) -> str:
    """A source as a line of input has it, as far as its markers tell: tabs between fields, `;` between names
    of symbols.
    """
    line, *rest = split_parts(source)
    before = "\t" if line else ""  # a symbol
    for marker, text in zip(rest[::2], rest[1::2], strict=True):
        if marker == FIELD:
            line, before = f"{line}\t{text}", "\t"
        else:
            line, before = f"{line}{before}{marker[1:]}{text}", ";"
    return line

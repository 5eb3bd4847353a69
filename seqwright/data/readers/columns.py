"""Column choices of a table: `1,3:2` names the columns of the source and the column of the target."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from seqwright.config.registry import unknown
from seqwright.data.text_display import MOST, shorten_list
from seqwright.errors import ConfigError, InputError

FieldKind = Literal["text", "symbols", "unspecified"]

_KINDS: dict[str, FieldKind] = {"+": "symbols", "=": "text"}
_SIGNS = {"symbols": "+", "text": "=", "unspecified": ""}


@dataclass(frozen=True)
class ColumnSelector:
    """A column by number (from 1) or by name. The reader detects a kind that is not specified."""

    key: str
    kind: FieldKind = "unspecified"

    def __str__(self) -> str:
        return self.key + _SIGNS[self.kind]

    def index(self, names: list[str] | None, width: int, where: str) -> int:
        """Return the index of the column in a row, from 0."""
        if names and self.key in names:
            return names.index(self.key)
        if self.key.isdecimal() and 1 <= int(self.key) <= width:
            return int(self.key) - 1
        if self.key.isdecimal():
            raise InputError(f"{where} has {width} columns and no column {self.key}; count from 1")
        if names is None:
            raise InputError(
                f"{where} has no header, so column {self.key!r} cannot be found by name; use numbers, as in "
                "1:2, or set data.header=true"
            )
        raise InputError(f"{where}: {unknown_name('column', self.key, names)}")


@dataclass(frozen=True)
class PairColumns:
    """The columns of a pair: in `1,3+:2` columns 1 and 3 make the source and column 2 is the target.

    A sign sets the kind of a source column: `+` for symbols (split at `;`, `|` and spaces), `=` for text.
    """

    source: tuple[ColumnSelector, ...]
    target: ColumnSelector

    def __str__(self) -> str:
        return f"{','.join(map(str, self.source))}:{self.target.key}"

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the source columns, then that of the target."""
        return [column.key for column in (*self.source, self.target)]

    @property
    def kinds(self) -> tuple[FieldKind, ...]:
        return tuple(column.kind for column in self.source)

    def indices(self, names: list[str] | None, width: int, where: str) -> list[int]:
        """Return the indices of the source columns in a row, then that of the target."""
        found = [column.index(names, width, where) for column in (*self.source, self.target)]
        _refuse_repeated(found, self.keys, str(self))
        return found

    def with_kinds(self, kinds: Sequence[FieldKind]) -> PairColumns:
        pairs = zip(self.source, kinds, strict=True)
        return replace(self, source=tuple(replace(column, kind=kind) for column, kind in pairs))


def parse_columns(text: str) -> PairColumns:
    left, colon, right = text.rpartition(":")
    if not colon:
        raise ConfigError(f"columns {text!r} have no colon before the target; write them as in 1:2 or 1,3+:2")
    source = tuple(_parse_column(part, text) for part in left.split(","))
    columns = PairColumns(source, _parse_column(right, text))
    if "," in right or columns.target.kind != "unspecified":
        raise ConfigError(f"columns {text!r} must be sources, a colon and one target, as in 1:2 or 1,3+:2")
    _refuse_repeated(columns.keys, columns.keys, text)
    return columns


def unknown_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the message about a column or key that a file does not have; files can have very many."""
    compared = [each for each in known[:1000] if len(each) <= MOST and each.isprintable()]
    near = difflib.get_close_matches(name, compared, n=1, cutoff=0.5)
    return unknown(kind, name, [shorten_list(known)], *near)


def _refuse_repeated(positions: Sequence[object], keys: Sequence[str], text: str) -> None:
    """Raise ConfigError if a column is used twice; the last position is that of the target."""
    for number, position in enumerate(positions):
        first = positions.index(position)
        if first == number:
            continue
        name = " = ".join(dict.fromkeys((keys[first], keys[number])))  # a header can make 1 and word equal
        if number == len(positions) - 1:
            raise ConfigError(f"columns {text!r} use {name} as source and as target; choose another source")
        raise ConfigError(f"columns {text!r} use {name} twice in the source; name each column once")


def _parse_column(part: str, whole: str) -> ColumnSelector:
    part = part.strip()
    kind = _KINDS.get(part[-1:], "unspecified")
    key = part if kind == "unspecified" else part[:-1]
    if not key or (key.isdecimal() and int(key) == 0):
        rule = "each column is a number from 1 or a name, as in 1,3+:2"
        raise ConfigError(f"columns {whole!r} contain {part!r}; {rule}")
    return ColumnSelector(key, kind)

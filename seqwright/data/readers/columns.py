"""Which columns are the source and which is the target: "1,3:2" as the command line gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seqwright.config.registry import unknown
from seqwright.errors import ConfigError, InputError

Role = Literal["text", "symbols", "unsaid"]

_ROLES: dict[str, Role] = {"+": "symbols", "=": "text"}
_SIGNS = {"symbols": "+", "text": "=", "unsaid": ""}


@dataclass(frozen=True)
class Column:
    """A column by number (from 1) or by name; a role may be left open for sniffing."""

    key: str
    role: Role = "unsaid"

    def __str__(self) -> str:
        return self.key + _SIGNS[self.role]

    def index(self, names: list[str] | None, width: int, where: str) -> int:
        """Its place in a row, from 0."""
        if names and self.key in names:
            return names.index(self.key)
        if self.key.isdecimal() and 1 <= int(self.key) <= width:
            return int(self.key) - 1
        if self.key.isdecimal():
            raise InputError(f"{where} has {width} columns and no column {self.key}; count from 1")
        if names is None:
            raise InputError(
                f"{where} has no header to find column {self.key!r} in; use numbers, as in 1:2, "
                "or give data.header=true"
            )
        raise InputError(f"{where}: {unknown('column', self.key, names)}")


@dataclass(frozen=True)
class Columns:
    """`1,3+:2` reads: column 1 and the symbols of column 3 are the source, column 2 is the target.

    A sign after a column gives its role: `+` symbols (features, split at `;`, `|` and spaces), `=` text as it
    is.
    """

    source: tuple[Column, ...]
    target: Column

    def __str__(self) -> str:
        return f"{','.join(map(str, self.source))}:{self.target.key}"

    def indices(self, names: list[str] | None, width: int, where: str) -> list[int]:
        """The places of the sources and of the target in a row, from 0."""
        wanted = (*self.source, self.target)
        found = [column.index(names, width, where) for column in wanted]
        _refuse_repeated(found, wanted, str(self))
        return found

    def with_roles(self, roles: list[Role]) -> Columns:
        return replace(
            self, source=tuple(replace(c, role=r) for c, r in zip(self.source, roles, strict=True))
        )


def parse_columns(text: str) -> Columns:
    left, colon, right = text.rpartition(":")
    if not colon:
        raise ConfigError(
            f"columns {text!r} have no colon, after which the target stands, as in 1:2 or 1,3+:2"
        )
    source = tuple(_parse_column(part, text) for part in left.split(","))
    target = _parse_column(right, text)
    if "," in right or target.role != "unsaid":
        raise ConfigError(f"columns {text!r} must be sources, a colon and one target, as in 1:2 or 1,3+:2")
    _refuse_repeated([column.key for column in (*source, target)], (*source, target), text)
    return Columns(source, target)


def _refuse_repeated(places: Sequence[object], columns: Sequence[Column], text: str) -> None:
    """One place for each column, the target's last."""
    for number, place in enumerate(places):
        first = places.index(place)
        if first == number:
            continue
        named = " = ".join(dict.fromkeys((columns[first].key, columns[number].key)))  # 1 = word, by a header
        if number == len(places) - 1:
            raise ConfigError(
                f"columns {text!r} use {named} as source and as target; the target would be given away"
            )
        raise ConfigError(f"columns {text!r} use {named} twice in the source; name each column once")


def _parse_column(part: str, whole: str) -> Column:
    part = part.strip()
    role = _ROLES.get(part[-1:], "unsaid")
    key = part if role == "unsaid" else part[:-1]
    if not key or (key.isdecimal() and int(key) == 0):
        raise ConfigError(
            f"columns {whole!r} have {part!r} where a number from 1 or a name should be, as in 1,3+:2"
        )
    return Column(key, role)

"""Pairs, the places they come from, and a tally of everything that reading left out or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

PLACES_KEPT = 5
EXAMPLES_KEPT = 2


class Place(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Pair(NamedTuple):
    """A source, its target (None for an input without one), and their place in a file."""

    source: str
    target: Any
    place: Place


class Reason(StrEnum):
    """Why a line was left out or is not byte for byte what the file holds."""

    BLANK_SOURCE = "skipped: blank source"
    BLANK_TARGET = "skipped: blank target"
    BLANK_PAIR = "skipped: blank line"
    TOO_LONG = "skipped: too long"
    BAD_ROW = "skipped: bad row"
    BYTE_ORDER_MARK = "changed: byte order mark removed"
    CARRIAGE_RETURN = "changed: carriage return at the end of the line removed"
    LINE_BREAK = "changed: carriage return or line break inside became a space"
    BAD_BYTES = "changed: bytes that are not text became U+FFFD"
    NUL = "changed: NUL became a space"
    SURROGATE = "changed: unpaired surrogate became U+FFFD"
    NONCHARACTER = "changed: reserved noncharacter became U+FFFD"


@dataclass
class Count:
    """How often, where first, what stood there, and what was said of the first where that differs."""

    count: int = 0
    places: list[Place] = field(default_factory=list)
    examples: list[Pair] = field(default_factory=list)
    fault: str = ""

    def add(self, place: Place, pair: Pair | None = None) -> None:
        self.count += 1
        if len(self.places) < PLACES_KEPT:
            self.places.append(place)
        if pair is not None and len(self.examples) < EXAMPLES_KEPT:
            self.examples.append(pair)


class Tally:
    """Counts by reason. Reading needs one: nothing is dropped, cut or changed without standing here."""

    def __init__(self) -> None:
        self.counts: dict[Reason, Count] = {}

    def add(self, reason: Reason, place: Place, fault: str = "") -> None:
        self.counts.setdefault(reason, Count(fault=fault)).add(place)

    def __getitem__(self, reason: Reason) -> int:
        return self.counts[reason].count if reason in self.counts else 0

    def __iter__(self) -> Iterator[tuple[Reason, Count]]:
        return iter(self.counts.items())

    @property
    def skipped(self) -> int:
        return sum(found.count for reason, found in self if reason.startswith("skipped"))

    def summary(self) -> list[str]:
        """One line for each reason, with the first places."""
        lines = []
        for reason, found in self:
            more = ", …" if found.count > len(found.places) else ""
            lines.append(f"{found.count:,} {reason} ({', '.join(map(str, found.places))}{more})")
        return lines

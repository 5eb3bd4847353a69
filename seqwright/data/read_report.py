"""Pairs with their places in files, and the report of every line that reading skips or changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

PLACES_KEPT = 5
EXAMPLES_KEPT = 2


class Place(NamedTuple):
    """A line of a file, counted from 1; 0: the whole file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Pair(NamedTuple):
    """A source, its target (None for an input without one), and the line that they come from."""

    source: str
    target: Any
    place: Place


class TextRow(NamedTuple):
    """The texts of an example in the order of their columns, and the line that they come from."""

    texts: tuple[str, ...]
    place: Place


class Reason(StrEnum):
    """Why a line is skipped, or differs from the bytes of the file."""

    BLANK_SOURCE = "skipped: blank source"
    BLANK_TARGET = "skipped: blank target"
    BLANK_PAIR = "skipped: blank line"
    BLANK_TEXT = "skipped: blank text"
    BLANK_LABEL = "skipped: blank label"
    TOO_LONG = "skipped: too long"
    BAD_ROW = "skipped: bad row"
    UNANSWERED = "skipped: conversation without a reply"
    BLANK_TURN = "skipped: turn without text"
    NO_SPEAKER = "skipped: line without a speaker"
    MISSING_IMAGE = "skipped: the image does not exist"
    OUTSIDE_IMAGE = "skipped: the image is outside of the data folder"
    LARGE_IMAGE = "skipped: the image is too large"
    BAD_IMAGE = "skipped: the image is damaged, or is not an image"
    BYTE_ORDER_MARK = "changed: byte order mark removed"
    SEPARATOR_LINE = "changed: line sep=… at the beginning of CSV removed"
    CARRIAGE_RETURN = "changed: carriage return at the end of the line removed"
    LINE_BREAK = "changed: carriage return or line break inside a text replaced with a space"
    BAD_BYTES = "changed: undecodable bytes replaced with U+FFFD"
    NUL = "changed: NUL replaced with a space"
    SURROGATE = "changed: unpaired surrogate replaced with U+FFFD"
    DUPLICATE_TIME = "skipped: duplicate time; its last line counts"
    MISSING_STEP = "changed: a time step was missing after the line; it is added without values"
    MISSING_VALUE = "changed: a value is missing or infinite; models read the last one before it"
    UNSORTED = "changed: out of time order; sorted"
    OFF_GRID = "changed: the time is between two steps; moved to the nearest one"
    BROKEN_ENTITY = "changed: invalid BIO or IOBES tags; a tag that continues no entity begins one"
    NONCHARACTER = "changed: reserved noncharacter replaced with U+FFFD"


@dataclass
class Occurrences:
    """A count with its first places and examples; `fault` describes the first place."""

    count: int = 0
    places: list[Place] = field(default_factory=list)
    examples: list[TextRow] = field(default_factory=list)
    fault: str = ""

    @classmethod
    def starting_with(cls, rows: Sequence[TextRow], count: int) -> Occurrences:
        """Return `count` occurrences, of which `rows` are the first."""
        return cls(count, [row.place for row in rows[:PLACES_KEPT]], list(rows[:EXAMPLES_KEPT]))

    def add(self, place: Place, row: TextRow | None = None) -> None:
        self.count += 1
        if len(self.places) < PLACES_KEPT:
            self.places.append(place)
        if row is not None and len(self.examples) < EXAMPLES_KEPT:
            self.examples.append(row)


class ReadReport:
    """Counts by reason. Every reader requires one, so that nothing is skipped or changed silently."""

    def __init__(self) -> None:
        self.counts: dict[Reason, Occurrences] = {}

    def add(self, reason: Reason, place: Place, fault: str = "") -> None:
        self.counts.setdefault(reason, Occurrences(fault=fault)).add(place)

    def __getitem__(self, reason: Reason) -> int:
        return self.counts[reason].count if reason in self.counts else 0

    def __iter__(self) -> Iterator[tuple[Reason, Occurrences]]:
        return iter(self.counts.items())

    def summary(self) -> list[str]:
        """Return one line for each reason, with the first places."""
        lines = []
        for reason, found in self:
            more = ", …" if found.count > len(found.places) else ""
            lines.append(f"{found.count:,} {reason} ({', '.join(map(str, found.places))}{more})")
        return lines

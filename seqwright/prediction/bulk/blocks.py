"""Blocks of input lines that are predicted together, and shards of a file for several machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.conll import sentence_blocks
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, read_blocks
from seqwright.errors import ConfigError, Problem
from seqwright.prediction.predictor import BLOCK

T = TypeVar("T")

CHARACTERS = 1 << 22  # per block, approximately: bounds the memory that very long lines need


@dataclass(frozen=True)
class Shard:
    """One of `of` consecutive parts of a file, numbered from 1: "2/5"."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ConfigError(Problem("shard", text, "it must be i/n with i from 1 to n, as in 2/5"))
        return cls(int(number), int(of))

    def lines(self, count: int) -> range:
        """Return the lines of this shard, from 0, of a file of `count` lines.

        A file that is long enough is cut between blocks. Each block is then decoded as it is without shards,
        and all numbers are equal to the last digit.
        """
        unit = BLOCK if count >= BLOCK * self.of else 1
        units = -(-count // unit)
        first, last = (min(count, unit * (units * k // self.of)) for k in (self.number - 1, self.number))
        return range(first, last)

    def path(self, output: Path) -> Path:
        """Return the output file of this shard. File names sort in the order of the shards."""
        return output.with_name(f"{output.name}.{self.number:0{len(str(self.of))}}-of-{self.of}")


class Block(NamedTuple):
    """Lines that are predicted together; `first` is the number of the first line, from 0."""

    first: int
    lines: list[str]


def line_blocks(
    source: Input,
    decoding: Decoding,
    tally: ReadReport,
    requested: range | None = None,
    *,
    joined: bool = False,
) -> Iterator[Block]:
    """Yield the requested lines in blocks, blank lines included. joined: what stands between blank lines
    counts as one line, with its line ends.

    A block of a file ends at a multiple of BLOCK lines. A block of a pipe also ends when no more lines are
    ready, so that each line is answered without waiting for the next one.
    """
    requested = range(1 << 62) if requested is None else requested
    pending: list[str] = []
    characters = 0
    read = _joined_lines if joined else read_blocks
    for number, lines in read(source, decoding, tally):
        for row, line in enumerate(lines, number - 1):
            if row not in requested:
                continue
            pending.append(line)
            characters += len(line)
            if (row + 1) % BLOCK == 0 or characters > CHARACTERS:
                yield Block(row + 1 - len(pending), pending)
                pending, characters = [], 0
        end = number - 1 + len(lines)
        if pending and (source.single_pass or end >= requested.stop):
            yield Block(min(end, requested.stop) - len(pending), pending)
            pending, characters = [], 0
        if end >= requested.stop:
            return
    if pending:
        yield Block(end - len(pending), pending)


def row_blocks(rows: Iterable[T], requested: range | None = None) -> Iterator[tuple[int, list[T]]]:
    """Yield the requested inputs in blocks, each with the number of its first one, from 0. Like a block of
    lines, a block ends at a multiple of BLOCK.
    """
    first, last = (0, None) if requested is None else (requested.start, requested.stop)
    numbered = islice(enumerate(rows), first, last)
    for _, block in groupby(numbered, lambda each: each[0] // BLOCK):
        numbers, inputs = zip(*block, strict=True)
        yield numbers[0], list(inputs)


def _joined_lines(source: Input, decoding: Decoding, tally: ReadReport) -> Iterator[tuple[int, list[str]]]:
    """Yield what stands between blank lines: (its number, one text)."""
    lines = (
        (Place(source.name, row), line)
        for number, lines in read_blocks(source, decoding, tally)
        for row, line in enumerate(lines, number)
    )
    for number, block in enumerate(sentence_blocks(lines), start=1):
        yield number, ["".join(f"{line}\n" for _, line in block)]

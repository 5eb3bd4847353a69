"""The lines of an input in blocks that are answered together, and shares of a file for several machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from seqwright.data.read_report import Tally
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, read_blocks
from seqwright.errors import ConfigError
from seqwright.prediction.predictor import BLOCK

CHARACTERS = 1 << 22  # of a block, more or less: few lines that are very long must not fill the memory


@dataclass(frozen=True)
class Share:
    """The number-th of `of` parts of a file, that go one after the other: "2/5"."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Share:
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ConfigError(f"shard is {text!r}, it must be i/n with i from 1 to n, as in 2/5")
        return cls(int(number), int(of))

    def lines(self, count: int) -> range:
        """Its lines of `count`, from 0. Where there are enough, it is made of whole blocks: then each is
        decoded as it is without shares, and all numbers are the same to the last digit.
        """
        grain = BLOCK if count >= BLOCK * self.of else 1
        grains = -(-count // grain)
        first, last = (min(count, grain * (grains * k // self.of)) for k in (self.number - 1, self.number))
        return range(first, last)

    def path(self, output: Path) -> Path:
        """Named so that their alphabetical order is that of the shares."""
        return output.with_name(f"{output.name}.{self.number:0{len(str(self.of))}}-of-{self.of}")


class Block(NamedTuple):
    """Lines that are answered together; `first` is the number of the first one, from 0."""

    first: int
    lines: list[str]


def line_blocks(
    source: Input, decoding: Decoding, tally: Tally, wanted: range | None = None
) -> Iterator[Block]:
    """The wanted lines, blank ones too. A block of a file ends at a multiple of BLOCK lines, wherever it
    began; one of a pipe ends there or when no further line has come, so that whoever asks is answered.
    """
    wanted = range(1 << 62) if wanted is None else wanted
    waiting: list[str] = []
    characters = 0
    for number, lines in read_blocks(source, decoding, tally):
        for row, line in enumerate(lines, number - 1):
            if row not in wanted:
                continue
            waiting.append(line)
            characters += len(line)
            if (row + 1) % BLOCK == 0 or characters > CHARACTERS:
                yield Block(row + 1 - len(waiting), waiting)
                waiting, characters = [], 0
        after = number - 1 + len(lines)
        if waiting and (source.once or after >= wanted.stop):
            yield Block(min(after, wanted.stop) - len(waiting), waiting)
            waiting, characters = [], 0
        if after >= wanted.stop:
            return
    if waiting:
        yield Block(after - len(waiting), waiting)

"""The base of readers whose files are of one kind and are read one after the other."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, read_blocks

if TYPE_CHECKING:
    from seqwright.config import DataConfig


@dataclass(frozen=True)
class OpenedFiles(ABC):
    """Files in the order in which they are named, and the options to read them with."""

    paths: tuple[str, ...]
    data: DataConfig

    @property
    def name(self) -> str:
        return ", ".join(self.paths)

    @property
    def columns(self) -> str | None:
        return None

    @property
    def named_twice(self) -> str | None:
        real = [os.path.realpath(path) for path in self.paths]
        named = zip(self.paths, real, strict=True)
        return next((path for path, whole in named if real.count(whole) > 1), None)

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.data.encoding, self.data.on_bad_bytes, self.data.max_line)

    @property
    @abstractmethod
    def form(self) -> tuple[str, ...]: ...

    def lines(self, path: str, report: ReadReport) -> Iterator[tuple[Place, str]]:
        """Yield the clean lines of a file with their places."""
        file = Input(path)
        for number, lines in read_blocks(file, self.decoding, report):
            for row, line in enumerate(lines, number):
                yield Place(file.name, row), line

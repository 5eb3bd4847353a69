"""Where the outputs go: to standard output, or to a file that is whole or not there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

from seqwright.errors import WriteError
from seqwright.files import check_place, destination, is_stream, locked, reached, sync, write_json, writing

FORMAT = 1


class Output(Protocol):
    """A place for lines, of which `lines` are there already; opened and closed by `with`."""

    lines: int

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def write(self, lines: Sequence[bytes]) -> None: ...
    def finish(self) -> None: ...


class StandardOutput:
    """Bytes, so that no locale stands in between; a block is out when it is done."""

    lines = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """It stays open."""

    def write(self, lines: Sequence[bytes]) -> None:
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()

    def finish(self) -> None:
        """All is out."""


def check_output(path: Path, read: Iterable[str] = ()) -> None:
    """Refuses what cannot be a `PartFile`, before there is work to lose."""
    if is_stream(path):
        raise WriteError(
            f"{path} is a pipe, a device or standard output, and no file that can be gone on with; "
            "leave it out, and send standard output there"
        )
    names, place = list(read), destination(path)
    for each in (path, *_beside(place)):
        check_place(each, names)


def _beside(path: Path) -> tuple[Path, Path, Path]:
    """The lines, the note and the lock of a file in the making."""
    part = path.with_name(f"{path.name}.part")
    return part, part.with_name(f"{part.name}.json"), part.with_name(f"{part.name}.lock")


class PartFile:
    """A file in the making, that goes on where a killed process left it.

    The lines are in FILE.part; FILE.part.json says what they are the answers to (`bound`) and how many of
    them are safely there. Finished, it becomes FILE in one step. What is bound to nothing begins anew. If
    FILE is a link, all this is done where it leads to.
    """

    def __init__(self, path: Path, bound: Mapping[str, Any] | None):
        check_output(path)
        self.path, self.bound = destination(path), json.loads(json.dumps(bound))
        self.part, self.note, self._lock = _beside(self.path)
        self.lines = self.bytes = 0
        self._open: ExitStack
        self._file: BinaryIO

    def __enter__(self) -> Self:
        with writing(self.path), ExitStack() as opened:
            opened.enter_context(locked(self._lock, self.path))
            opened.callback(self._unlock)
            self._go_on()
            self._file = opened.enter_context(self.part.open("r+b" if self.lines else "wb"))
            self._file.truncate(self.bytes)
            self._file.seek(self.bytes)
            self._open = opened.pop_all()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def _unlock(self) -> None:
        """While it is still held: what is removed is our own."""
        with suppress(OSError):
            self._lock.unlink()

    def write(self, lines: Sequence[bytes]) -> None:
        """On the disk before they are counted: a kill in between leaves lines that are written again."""
        with writing(self.path):
            data = b"".join(lines)
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
            reached("predict:written")
            self.lines, self.bytes = self.lines + len(lines), self.bytes + len(data)
            known = {"format": FORMAT, "bound": self.bound, "lines": self.lines, "bytes": self.bytes}
            write_json(self.note, known, "predict:note")

    def finish(self) -> None:
        with writing(self.path):
            self._file.close()
            os.replace(self.part, self.path)
            reached("predict:renamed")
            self.note.unlink(missing_ok=True)
            sync(self.path.absolute().parent)

    def _go_on(self) -> None:
        """Takes up what is there and belongs to the same job; what belongs to another is not thrown away."""
        if self.bound is None or not self.part.exists():
            return
        try:
            known = json.loads(self.note.read_bytes())
            lines, size, bound = known["lines"], known["bytes"], known["bound"]
        except (OSError, ValueError, KeyError, TypeError):
            return  # killed before the first block was noted
        if bound != self.bound:
            old = bound if isinstance(bound, dict) else {}
            changed = ", ".join(name for name, value in self.bound.items() if old.get(name) != value)
            raise WriteError(
                f"{self.part} was begun with other {changed or 'options'}; "
                "remove it to begin anew, or choose another output"
            )
        if self.part.stat().st_size >= size:
            self.lines, self.bytes = lines, size

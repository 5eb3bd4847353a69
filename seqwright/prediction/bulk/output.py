"""Destinations of output lines: standard output, or a file that appears when it is complete."""

from __future__ import annotations

import json
import os
import re
import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from pydantic import BaseModel, NonNegativeInt, ValidationError

from seqwright.data.text_display import printable
from seqwright.errors import ModelError, WriteError
from seqwright.files import (
    check_place,
    destination,
    is_stream,
    locked,
    reached,
    read_bytes,
    sync,
    write_json,
    writing,
)

FORMAT = 1


class State(BaseModel):
    """The contents of FILE.part.json; `bound` is what the lines depend on."""

    lines: NonNegativeInt
    bytes: NonNegativeInt
    bound: dict[str, Any]


class Output(ExitStack):
    """Destination of lines, opened with `with`. `lines` is the number of lines that it contains."""

    lines = 0

    @abstractmethod
    def write(self, lines: Sequence[bytes]) -> None: ...

    def finish(self) -> None:
        """Complete the output after the last line."""


class StandardOutput(Output):
    """Standard output in bytes, independent of the locale. It is flushed after each block."""

    def write(self, lines: Sequence[bytes]) -> None:
        if sys.stdout.isatty():  # a terminal would obey control characters in an output
            parts = re.split("([\n\t])", b"".join(lines).decode())
            lines = ["".join(part if part in ("\n", "\t") else printable(part) for part in parts).encode()]
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()


def check_output(path: Path, read: Iterable[str] = ()) -> None:
    """Raise if `path` cannot be a `ResumableFile` or would replace one of the files that are `read`."""
    if is_stream(path):
        raise WriteError(
            f"{path} is a pipe, a device or standard output, which cannot be resumed; "
            "omit --output and redirect standard output instead"
        )
    names = list(read)
    for each in (path, *_working_files(destination(path))):
        check_place(each, names)


def _working_files(path: Path) -> tuple[Path, Path, Path]:
    """Return the files next to an unfinished output: its lines, its state and its lock."""
    part = path.with_name(f"{path.name}.part")
    return part, part.with_name(f"{part.name}.json"), part.with_name(f"{part.name}.lock")


class ResumableFile(Output):
    """File that a new process resumes after the last one was killed.

    FILE.part contains the lines. FILE.part.json contains the number of lines that are safely on disk and
    everything that they depend on (`depends_on`; None: never resume). The finished file is renamed to
    FILE in one step. If FILE is a symbolic link, its target is written.
    """

    def __init__(self, path: Path, depends_on: Mapping[str, Any] | None):
        super().__init__()
        check_output(path)
        self.path, self.depends_on = destination(path), json.loads(json.dumps(depends_on))
        self.part, self.state, self.lock = _working_files(self.path)
        self.bytes = 0
        self._file: BinaryIO

    def __enter__(self) -> Self:
        with writing(self.path), ExitStack() as stack:
            stack.enter_context(locked(self.lock, self.path))
            stack.callback(self._remove_lock)  # while the lock is still held
            self._resume()
            self._file = stack.enter_context(self.part.open("r+b" if self.lines else "wb"))
            self._file.truncate(self.bytes)
            self._file.seek(self.bytes)
            self.enter_context(stack.pop_all())
        return self

    def _remove_lock(self) -> None:
        with suppress(OSError):
            self.lock.unlink()

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines to disk, then count them. Lines that a kill leaves uncounted are written again."""
        with writing(self.path):
            data = b"".join(lines)
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
            reached("predict:written")
            self.lines, self.bytes = self.lines + len(lines), self.bytes + len(data)
            state = {"format": FORMAT, "bound": self.depends_on, "lines": self.lines, "bytes": self.bytes}
            write_json(self.state, state, "predict:note")

    def finish(self) -> None:
        with writing(self.path):
            self._file.close()
            os.replace(self.part, self.path)
            reached("predict:renamed")
            self.state.unlink(missing_ok=True)
            sync(self.path.absolute().parent)

    def _resume(self) -> None:
        """Count the lines that an earlier process wrote for this job; raise if they belong to another job."""
        if self.depends_on is None or not self.part.exists():
            return
        try:
            state = State.model_validate_json(read_bytes(self.state))
        except (ModelError, ValidationError):
            return  # killed before the first block was counted
        if state.bound != self.depends_on:
            old = state.bound
            changed = ", ".join(name for name, value in self.depends_on.items() if old.get(name) != value)
            begun = f"{self.part} was started with different {changed or 'options'}"
            raise WriteError(f"{begun}; delete it to start again, or choose another output")
        if self.part.stat().st_size >= state.bytes:
            self.lines, self.bytes = state.lines, state.bytes

"""Files, pipes and standard input as blocks of bytes, decompressed from gzip, bzip2, zstd and xz.

A block has at most BLOCK bytes, whatever a few compressed bytes expand to (zstd: 32 MiB more).
"""

from __future__ import annotations

import bz2
import hashlib
import logging
import lzma
import os
import select
import stat
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from seqwright.data.text_display import shorten_list, visible
from seqwright.errors import InputError
from seqwright.files import sha256, uncompressed

BLOCK = 1 << 20
COMPRESSED_BLOCK = 1 << 16
ZSTD_BLOCK = 1 << 10  # 4 bytes can hold 128 KiB, and the library returns the output of all its input at once
MEMORY = 1 << 27  # bytes for the window of a decompressor: zstd --ultra -22 needs all, xz -9 half
TEXTS = (".txt", ".text", ".md")  # the endings of files that hold running text
PATIENCE = 2  # seconds without data after which a message names the pipe

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
}

log = logging.getLogger(__name__)


class Input:
    """A file, a pipe, or "-" for standard input. Only a file can be read more than once."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        if "\0" in self.path:
            raise InputError(f"{self.path!r} cannot be opened: the name of a file has no NUL character")
        self.name = "standard input" if self.path == "-" else self.path
        reopened = os.path.isfile(self.path) or os.path.isdir(self.path) or not os.path.exists(self.path)
        self.single_pass = self.path == "-" or not reopened  # opening a missing file raises the error
        self._started: Iterator[bytes] | None = None
        self._peeked: deque[bytes] = deque()
        self._used = False

    @property
    def is_terminal(self) -> bool:
        """Whether it is standard input, and a person types it."""
        return self.path == "-" and sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of a file; of a folder, that of its files with their names."""
        if not os.path.isdir(self.path):
            return sha256(Path(self.path))
        whole = hashlib.sha256()
        for file in files_in([self.path]):
            whole.update(f"{file}\0{sha256(Path(file))}\0".encode("utf-8", "surrogateescape"))
        return whole.hexdigest()

    def peek(self) -> Iterator[bytes]:
        """Yield the decompressed bytes; `blocks` yields them again. Those of a pipe are kept in memory."""
        if not self.single_pass:
            yield from self._open_blocks()
            return
        self._check_unused()
        yield from self._peeked
        self._started = self._started or self._open_blocks()
        for block in self._started:
            self._peeked.append(block)
            yield block

    def blocks(self) -> Iterator[bytes]:
        """Yield the decompressed bytes."""
        if not self.single_pass:
            yield from self._open_blocks()
            return
        self._check_unused()
        self._used = True
        while self._peeked:
            yield self._peeked.popleft()
        yield from self._started or self._open_blocks()

    @contextmanager
    def as_file(self) -> Iterator[str]:
        """Yield the path of a file with these bytes: its own, or for a pipe that of a temporary copy. Errors
        call the copy by the name of the pipe.
        """
        if not self.single_pass:
            yield self.path
            return
        with tempfile.NamedTemporaryFile() as copy:
            copy.writelines(self.blocks())
            copy.flush()
            try:
                yield copy.name
            except InputError as error:
                raise InputError(str(error).replace(copy.name, self.name)) from error

    def _open_blocks(self) -> Iterator[bytes]:
        with open_input(self.path, self.name) as stream:
            try:
                yield from _decompressed(stream, self.name)
            except OSError as error:
                raise InputError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def _check_unused(self) -> None:
        if self._used:
            raise InputError(f"{self.name} is a pipe and can be read only once; save it to a file first")


class GivenLines(Input):
    """Lines in memory, such as the images that a command names."""

    def __init__(self, lines: Iterable[str], name: str = "input"):
        super().__init__("-")
        self.path = self.name = name
        self.single_pass = False
        self._content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    def _open_blocks(self) -> Iterator[bytes]:
        yield self._content

    def digest(self) -> str:
        return hashlib.sha256(self._content).hexdigest()


def files_in(paths: Iterable[str]) -> list[str]:
    """Return the files that the paths name; of a folder all files in it, sorted, hidden ones left out."""
    found = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        for home, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            found += [os.path.join(home, name) for name in sorted(names) if not name.startswith(".")]
    return found


def only_folder(path: str) -> str:
    """Return a folder; if all that it holds is another folder, that one, at any depth."""
    shown = [name for name in os.listdir(path) if not name.startswith((".", "__MACOSX"))]
    inside = os.path.join(path, shown[0]) if len(shown) == 1 else path
    return only_folder(inside) if inside != path and os.path.isdir(inside) else path


def is_text(file: str) -> bool:
    """Whether the name of a file, compressed or not, ends like that of a running text."""
    return uncompressed(file).suffix.lower() in TEXTS


def open_input(path: str, name: str) -> BinaryIO:
    """Open a file, a pipe or standard input for reading, unbuffered; `name` is its name in an error."""
    if path == "-":
        return _open_standard_input()
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return _open_pipe(path)
        return open(
            path, "rb", 0
        )  # unbuffered: bytes that have arrived are returned without waiting for more
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise InputError(f"{name} is a link to {os.readlink(path)}, which does not exist") from error
        raise InputError(f"{name} does not exist") from error
    except IsADirectoryError as error:
        if links := [each.name for each in os.scandir(path) if each.is_symlink() and each.is_dir()]:
            what = f"{name} has links to folders ({shorten_list(sorted(links))}), which are not followed"
            raise InputError(f"{what}; put copies of the folders in their place") from error
        raise InputError(f"{name} is a folder; name a file in it") from error
    except PermissionError as error:
        raise InputError(f"{name} cannot be read: permission denied") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error  # the whole message repeats the name
        raise InputError(f"{name} cannot be opened: {reason}") from error


def _open_standard_input() -> BinaryIO:
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0)
    except (AttributeError, OSError, ValueError) as error:  # Python has None for a closed descriptor
        raise InputError("standard input is closed; name a file, or redirect it from one") from error


def _open_pipe(path: str) -> BinaryIO:
    """Open a pipe and wait for the first data. A plain `open` waits for a writer without a word."""
    pipe, ready = os.open(path, os.O_RDONLY | os.O_NONBLOCK), select.poll()
    ready.register(pipe, select.POLLIN)  # and the end of the data, which is always reported
    if not ready.poll(1000 * PATIENCE):
        log.warning("waiting for data from the pipe %s", visible(path))
        ready.poll()
    os.set_blocking(pipe, True)
    return open(pipe, "rb", 0)


def _decompressed(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the content, with the compression recognised by the first bytes and not by the name."""
    data = more = stream.read(COMPRESSED_BLOCK)
    while more and any(magic.startswith(data) for magic in _MAGIC):  # a pipe can begin with a single byte
        data += (more := stream.read(COMPRESSED_BLOCK))
    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if kind is None:
        while data:
            yield data
            data = stream.read(BLOCK)
        return
    new_frame = _decompressor(kind, name)
    frame, position = new_frame(), len(data)
    while data:
        try:
            yield from filter(None, _output(frame, data))
        except Exception as error:  # zlib.error, LZMAError and ZstdError have no common base
            if "memory" in str(error).lower():
                rule = f"needs more than {MEMORY / 1e6:.0f} MB of memory; decompress it first"
                raise InputError(f"{name}: decompressing this {kind} archive {rule}") from error
            message = f"{name} is a damaged {kind} archive, near byte {position - len(data):,}: {error}"
            raise InputError(message) from error
        complete = frame.eof
        data = frame.unused_data.lstrip(b"\0") if complete else b""
        while not data and (more := stream.read(COMPRESSED_BLOCK)):
            position += len(more)
            data = more.lstrip(b"\0") if complete else more  # zeros may fill the space between two frames
        if complete:
            frame = new_frame()
    if not complete:
        raise InputError(f"{name} is a truncated {kind} archive: it ends at byte {position:,}; copy it again")


def _output(frame: Any, data: bytes) -> Iterator[bytes]:
    """Yield the output of a decompressor for some input, in blocks."""
    yield frame.decompress(data, BLOCK)
    while not (frame.eof or frame.needs_input):
        yield frame.decompress(b"", BLOCK)


def _decompressor(kind: str, name: str) -> Callable[[], Any]:
    """Return a constructor of objects with the interface of `lzma.LZMADecompressor`."""
    if kind == "gzip":
        return _Gzip
    if kind == "bzip2":
        return bz2.BZ2Decompressor
    if kind == "xz":
        return partial(lzma.LZMADecompressor, memlimit=MEMORY)
    try:
        import zstandard
    except ImportError as error:
        message = f"{name} is compressed with zstd; install seqwright[zstd], or decompress it first"
        raise InputError(message) from error
    return lambda: _Zstd(zstandard.ZstdDecompressor(max_window_size=MEMORY).decompressobj())


class _Gzip:
    def __init__(self) -> None:
        self.frame = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, most: int) -> bytes:
        return self.frame.decompress(self.frame.unconsumed_tail + data, most)

    @property
    def needs_input(self) -> bool:
        return not self.frame.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self.frame.eof

    @property
    def unused_data(self) -> bytes:
        return self.frame.unused_data


class _Zstd:
    def __init__(self, frame: Any) -> None:
        self.frame, self.waiting = frame, memoryview(b"")

    def decompress(self, data: bytes, most: int) -> bytes:
        self.waiting = memoryview(data) if data else self.waiting
        output, size = [], 0
        while self.waiting and size < most and not self.frame.eof:
            output.append(self.frame.decompress(self.waiting[:ZSTD_BLOCK]))
            self.waiting, size = self.waiting[ZSTD_BLOCK:], size + len(output[-1])
        return b"".join(output)

    @property
    def needs_input(self) -> bool:
        return not self.waiting

    @property
    def eof(self) -> bool:
        return bool(self.frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self.frame.unused_data) + bytes(self.waiting)

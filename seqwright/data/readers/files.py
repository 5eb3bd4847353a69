"""Files, pipes and standard input as blocks of bytes, plain or unpacked from gzip, zstd and xz."""

from __future__ import annotations

import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from seqwright.errors import InputError

BLOCK = 1 << 20
COMPRESSED_BLOCK = 1 << 16


class Input:
    """One file, a pipe, or "-" for standard input. A file can be read again and again, a pipe once."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        self.name = "standard input" if self.path == "-" else self.path
        self.once = self.path == "-" or not _is_regular(self.path)
        self._started: Iterator[bytes] | None = None
        self._head: list[bytes] = []
        self._used = False

    def head(self, size: int = BLOCK) -> bytes:
        """At least `size` bytes from the beginning, if there are so many; reading later still sees them."""
        if not self.once:
            return take(self._open_blocks(), size)
        if self._used:
            raise self._second_pass()
        if self._started is None:
            self._started = self._open_blocks()
        missing = size - sum(map(len, self._head))
        if missing > 0:
            self._head.append(take(self._started, missing))
        return b"".join(self._head)

    def blocks(self) -> Iterator[bytes]:
        """The decompressed bytes."""
        if not self.once:
            yield from self._open_blocks()
            return
        if self._used:
            raise self._second_pass()
        self._used = True
        yield from self._head
        yield from self._started or self._open_blocks()

    def _open_blocks(self) -> Iterator[bytes]:
        with _open(self.path, self.name) as stream:
            try:
                first = stream.read(COMPRESSED_BLOCK)
                yield from _unpacked(first, stream, self.name)
            except OSError as error:
                raise InputError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def _second_pass(self) -> InputError:
        return InputError(f"{self.name} is a pipe and can be read only once; save it to a file first")


def _is_regular(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return True  # opening it will say what is wrong
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _open(path: str, name: str) -> BinaryIO:
    if path == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0)
    try:
        return open(path, "rb", 0)  # without a buffer a pipe hands on what has come, and waits for no more
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise InputError(f"{name} is a link to {os.readlink(path)}, which does not exist") from error
        raise InputError(f"{name} does not exist") from error
    except IsADirectoryError as error:
        raise InputError(f"{name} is a folder; name a file in it") from error
    except PermissionError as error:
        raise InputError(f"{name} may not be read: permission denied") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{name} cannot be opened: {error}") from error


def take(blocks: Iterator[bytes], size: int) -> bytes:
    taken: list[bytes] = []
    missing = size
    while missing > 0 and (block := next(blocks, b"")):
        taken.append(block)
        missing -= len(block)
    return b"".join(taken)


def _unpacked(first: bytes, stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The content behind gzip, zstd or xz, told by the first bytes and not by the name."""
    for magic, kind, decompressor in _PACKINGS:
        if first.startswith(magic):
            yield from _decompressed(first, stream, name, kind, decompressor(name))
            return
    block = first
    while block:
        yield block
        block = stream.read(BLOCK)


def _decompressed(
    first: bytes, stream: BinaryIO, name: str, kind: str, decompressor: Callable[[], Any]
) -> Iterator[bytes]:
    """Frame after frame. All three libraries share `decompress`, `eof` and `unused_data`."""
    position, data, frame = 0, first, decompressor()
    while data:
        try:
            unpacked = frame.decompress(data)
        except Exception as error:  # zlib.error, LZMAError and ZstdError have no common base
            raise InputError(
                f"{name} is a damaged {kind} archive, near byte {position:,}: {error}"
            ) from error
        if unpacked:
            yield unpacked
        position += len(data) - (len(frame.unused_data) if frame.eof else 0)
        if frame.eof:
            data = frame.unused_data.lstrip(b"\0") or stream.read(COMPRESSED_BLOCK).lstrip(b"\0")
            if not data:
                return
            frame = decompressor()
        else:
            data = stream.read(COMPRESSED_BLOCK)
    raise InputError(
        f"{name} is a truncated {kind} archive: it breaks off at byte {position:,}; copy it again"
    )


def _gzip(_name: str) -> Callable[[], Any]:
    return lambda: zlib.decompressobj(wbits=31)


def _xz(_name: str) -> Callable[[], Any]:
    return lzma.LZMADecompressor


def _zstd(name: str) -> Callable[[], Any]:
    try:
        import zstandard
    except ImportError as error:
        raise InputError(
            f"{name} is packed with zstd; install seqwright[zstd], or unpack it first"
        ) from error
    return lambda: zstandard.ZstdDecompressor().decompressobj()


_PACKINGS: tuple[tuple[bytes, str, Callable[[str], Callable[[], Any]]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
    (b"\xfd7zXZ\x00", "xz", _xz),
)

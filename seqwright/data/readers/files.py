"""Files, pipes and standard input as blocks of bytes, decompressed from gzip, zstd and xz."""

from __future__ import annotations

import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

from seqwright.errors import InputError

BLOCK = 1 << 20
COMPRESSED_BLOCK = 1 << 16
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}


class Input:
    """A file, a pipe, or "-" for standard input. Only a file can be read more than once."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        self.name = "standard input" if self.path == "-" else self.path
        reopened = os.path.isfile(self.path) or os.path.isdir(self.path) or not os.path.exists(self.path)
        self.single_pass = self.path == "-" or not reopened  # opening a missing file raises the error
        self._started: Iterator[bytes] | None = None
        self._head = b""
        self._used = False

    def head(self, size: int) -> bytes:
        """Return at least the first `size` bytes, or all if there are fewer; `blocks` still yields them."""
        if not self.single_pass:
            return _take(self._open_blocks(), size)
        self._check_unused()
        self._started = self._started or self._open_blocks()
        self._head += _take(self._started, size - len(self._head))
        return self._head

    def blocks(self) -> Iterator[bytes]:
        """Yield the decompressed bytes."""
        if not self.single_pass:
            yield from self._open_blocks()
            return
        self._check_unused()
        self._used = True
        if self._head:
            yield self._head
        yield from self._started or self._open_blocks()

    def _open_blocks(self) -> Iterator[bytes]:
        with _open(self.path, self.name) as stream:
            try:
                yield from _decompressed(stream, self.name)
            except OSError as error:
                raise InputError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def _check_unused(self) -> None:
        if self._used:
            raise InputError(f"{self.name} is a pipe and can be read only once; save it to a file first")


def _open(path: str, name: str) -> BinaryIO:
    if path == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0)
    try:
        return open(path, "rb", 0)  # unbuffered: a pipe returns the bytes that have arrived without waiting
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise InputError(f"{name} is a link to {os.readlink(path)}, which does not exist") from error
        raise InputError(f"{name} does not exist") from error
    except IsADirectoryError as error:
        raise InputError(f"{name} is a folder; name a file in it") from error
    except PermissionError as error:
        raise InputError(f"{name} cannot be read: permission denied") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{name} cannot be opened: {error}") from error


def _take(blocks: Iterator[bytes], size: int) -> bytes:
    taken: list[bytes] = []
    while size > 0 and (block := next(blocks, b"")):
        taken.append(block)
        size -= len(block)
    return b"".join(taken)


def _decompressed(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the content, with the compression recognised by the first bytes and not by the name."""
    data = stream.read(COMPRESSED_BLOCK)
    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if kind is None:
        while data:
            yield data
            data = stream.read(BLOCK)
        return
    new_frame = _decompressor(kind, name)
    position, frame = 0, new_frame()
    while data:  # all three libraries share `decompress`, `eof` and `unused_data`
        try:
            content = frame.decompress(data)
        except Exception as error:  # zlib.error, LZMAError and ZstdError have no common base
            message = f"{name} is a damaged {kind} archive, near byte {position:,}: {error}"
            raise InputError(message) from error
        if content:
            yield content
        position += len(data) - (len(frame.unused_data) if frame.eof else 0)
        if frame.eof:
            data = frame.unused_data.lstrip(b"\0") or stream.read(COMPRESSED_BLOCK).lstrip(b"\0")
            if not data:
                return
            frame = new_frame()
        else:
            data = stream.read(COMPRESSED_BLOCK)
    raise InputError(f"{name} is a truncated {kind} archive: it ends at byte {position:,}; copy it again")


def _decompressor(kind: str, name: str) -> Callable[[], Any]:
    if kind != "zstd":
        return lzma.LZMADecompressor if kind == "xz" else partial(zlib.decompressobj, wbits=31)
    try:
        import zstandard
    except ImportError as error:
        message = f"{name} is compressed with zstd; install seqwright[zstd], or decompress it first"
        raise InputError(message) from error
    return zstandard.ZstdDecompressor().decompressobj

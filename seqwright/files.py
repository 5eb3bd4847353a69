"""Atomic files and folders, locks, JSON: a file is complete or absent, whatever happens while it is written.

Data is written under a temporary name, synced to disk (fsync) and renamed; then the parent folder is synced.
Some file systems need each of these steps (Pillai et al. 2014, "All File Systems Are Not Created Equal",
OSDI). What a killed process leaves behind has its pid in its name.

A file that a user names for output may be a symbolic link, a pipe or a device (`follow`). A run folder may
come from another person: a link in it is replaced and never written through, and only regular files are read.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import logging
import math
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from seqwright.errors import ConfigError, ModelError, WriteError, brief

try:
    import fcntl
except ImportError:  # Windows has no flock: two processes must not write one folder at the same time
    fcntl = None  # type: ignore[assignment]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # file systems without locks: some Lustre, NFS
TRASH = ".trash."
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
MOST_JSON = 16 << 20  # bytes of a JSON document of a run
DEEPEST = 100  # levels of a JSON document of a run
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has neither of these two
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opens a pipe without waiting for its writer

hook: Callable[[str], None] | None = None  # set by tests, to kill the process or raise at a named point

log = logging.getLogger(__name__)
_held: set[int] = set()  # descriptors of the locks of this process


def reached(point: str) -> None:
    """Mark a point of a protocol, right after the step that it names: "save:renamed"."""
    if hook is not None:
        hook(point)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn system errors in this block into a WriteError for `path`, except a closed pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        refused = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
        way_out = "choose another folder" if error.errno in refused else "free space or choose another folder"
        if error.errno == errno.ENOENT:
            way_out = "create its folder first, or choose another one"
        if error.errno == errno.ELOOP:
            raise WriteError(f"{path} cannot be written through a link; remove the link") from error
        raise WriteError(f"{path} cannot be written: {error.strerror or error}; {way_out}") from error
    except MemoryError as error:
        raise WriteError(f"{path} cannot be written: out of memory; close other programs") from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn system errors in this block into a ModelError for `path`."""
    try:
        yield
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one. A pipe or a device is an OSError, without waiting for it."""
    descriptor = os.open(path, os.O_RDONLY | NO_WAIT | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, most: int = MOST_JSON) -> bytes:
    """Return the content of a file of a run; one with more than `most` bytes is a ModelError."""
    with reading(path), open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ModelError(f"{path} has more than {most:,} bytes; such a file is not part of a run")
    return data


def check_place(path: Path, read: Iterable[str] = ()) -> None:
    """Check, before work starts, that `path` can be written and is not one of the files to `read`."""
    if is_stream(path):
        return
    place = destination(path)
    folder = place.absolute().parent
    if not folder.is_dir():
        raise WriteError(f"{path} cannot be written: the folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WriteError(f"{path} cannot be written: no write permission in {folder}; choose another folder")
    for name in read:  # "-" is standard input, which may be redirected from a file
        if _is_open(0, path) if name == "-" else os.path.realpath(name) == os.path.realpath(path):
            raise ConfigError(f"{path} is one of the input files; choose another name for the output")


def _is_open(descriptor: int, path: Path) -> bool:
    """Whether a descriptor is open and refers to `path`."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def uncompressed(name: str) -> Path:
    """Return the name of a file without a compression suffix."""
    path = Path(name)
    return path.with_suffix("") if path.suffix in COMPRESSED else path


def is_stream(path: Path) -> bool:
    """Whether `path` cannot be replaced: a pipe, a character device, or standard output or error."""
    with suppress(OSError):
        mode = os.stat(path).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or _standard(path) is not None
    return False


def _standard(path: Path) -> int | None:
    """Return the descriptor of standard output or error if `path` names it, as /dev/stdout does."""
    return next((descriptor for descriptor in (1, 2) if _is_open(descriptor, path)), None)


def destination(path: Path) -> Path:
    """Resolve the links of `path` and check that its target is a regular file or does not exist."""
    with writing(path):
        place = Path(os.path.realpath(path)) if path.is_symlink() else path
        if place.is_dir():
            raise WriteError(f"{path} is a folder; pass a file name in it")
        if place.is_symlink() or (place.exists() and not place.is_file()):  # a link to itself, a socket
            raise WriteError(f"{path} is not a regular file; choose another name")
        return place


def sync(folder: Path) -> None:
    """Sync the names in a folder to disk. Windows cannot open folders and does not need it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def atomic_file(path: Path, label: str | None = None, *, follow: bool = False) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` if the block succeeds.

    With `follow`, for a file that a user names, a link is followed and a stream is written to directly.
    """
    if follow and is_stream(path):
        descriptor = _standard(path)  # its copy continues at the current position; a new one starts at 0
        with writing(path), open(path if descriptor is None else os.dup(descriptor), "wb") as file:
            yield file
        return
    place, label = destination(path) if follow else path, label or path.name
    fresh = place.with_name(f".{place.name}.tmp.{os.getpid()}")
    try:
        with writing(path):
            with open(fresh, "wb") as file:
                yield file
                _settle(file, label)
            os.replace(fresh, place)
            reached(f"{label}:renamed")
            sync(place.parent)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, label: str | None = None) -> Iterator[Path]:
    """Create a folder that becomes `path`, a new one, if the block succeeds. `HashedFile` syncs its files."""
    label = label or path.name
    fresh = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        with writing(path):
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            reached(f"{label}:begun")
            yield fresh
            sync(fresh)
            reached(f"{label}:synced")
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(fresh, path)
            reached(f"{label}:renamed")
            sync(path.parent)
            reached(f"{label}:settled")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


class HashedFile:
    """A file that is hashed while it is written; `finish` syncs it and returns its size and SHA-256."""

    def __init__(self, path: Path, label: str | None = None):
        self.name, self.label, self.file = path.name, label or path.name, path.open("wb")
        self.size, self.hash = 0, hashlib.sha256()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: bytes | memoryview) -> None:
        self.file.write(data)
        self.hash.update(data)
        self.size += len(data)
        reached(f"{self.label}:writing")

    def finish(self) -> dict[str, Any]:
        _settle(self.file, self.label)
        self.file.close()
        return {"bytes": self.size, "sha256": self.hash.hexdigest()}


def _settle(file: BinaryIO, label: str) -> None:
    file.flush()
    reached(f"{label}:written")
    os.fsync(file.fileno())
    reached(f"{label}:synced")


def write_text(path: Path, text: str, label: str | None = None, *, follow: bool = False) -> None:
    with atomic_file(path, label, follow=follow) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any, label: str | None = None) -> None:
    with atomic_file(path, label) as file:
        file.write(encode_json(value, indent=1))


def encode_json(value: Any, indent: int | None = None) -> bytes:
    """Encode a value and a newline. A lone surrogate, which UTF-8 lacks, becomes its JSON escape."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def strict(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not have, by None, and objects by their `to_json`."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value.to_json() if hasattr(value, "to_json") else value


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a run; anything else is a ModelError."""
    try:
        value = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON ({error}); restore it from a copy") from error
    if is_deeper(value, DEEPEST):
        raise ModelError(f"{path} has more than {DEEPEST} levels; restore it from a copy")
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds a {type(value).__name__}, not an object; restore it from a copy")
    return value


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value has more levels; code that walks it recursively would exceed the stack."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        inner = (each.values() if isinstance(each, dict) else each for each in containers)
        containers = [child for each in inner for child in each if isinstance(child, dict | list)]
        if not containers:
            return False
    return True


class NewerFormatError(ModelError):
    """A file of a format that only a later version reads."""


def check_format(path: Path, written: Any, known: int) -> None:
    """Raise ModelError unless a file has the format number that this version reads."""
    if not isinstance(written, int):
        raise ModelError(f"{path} has no format number (it has {brief(written)}); restore it from a copy")
    other = f"{path} has format {written}, but this version reads format {known}"
    if written > known:
        raise NewerFormatError(f"{other}; upgrade Seqwright")
    if written < known:
        raise ModelError(f"{other}; use the Seqwright version that wrote it")


def sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_space(folder: Path, size: int) -> None:
    """Raise WriteError if the disk has fewer than `size` bytes free."""
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if free < size:
        needed = f"{folder} has {free / 1e6:,.1f} MB free, but {size / 1e6:,.1f} MB are needed"
        raise WriteError(f"{needed}; free space or choose another folder")


def discard(path: Path, label: str) -> None:
    """Remove a folder. It is renamed first, so that a kill never leaves half of it under its name."""
    trash = path.with_name(f"{TRASH}{path.name}")
    shutil.rmtree(trash, ignore_errors=True)
    os.rename(path, trash)
    reached(f"{label}:moved")
    shutil.rmtree(trash)
    reached(f"{label}:deleted")


def remove_leftovers(folder: Path) -> None:
    """Remove the discarded and unfinished files and folders of killed processes; not while writing there."""
    for path in folder.iterdir() if folder.is_dir() else ():
        unfinished = re.search(r"\.tmp\.(\d+)$", path.name)
        if path.name.startswith(TRASH) or (unfinished and not _is_running(int(unfinished[1]))):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_running(pid: int) -> bool:
    """Whether another process has this pid. In containers a dead process often had that of this one."""
    if os.name != "posix":
        return True  # on Windows os.kill with signal 0 would kill it
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid != os.getpid()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait for the lock file `path` and hold it. The lock ends with its process, even if that is killed."""
    with _lock_file(path, path.parent) as descriptor:
        _flock(descriptor, path, wait=True)
        yield


@contextmanager
def locked(path: Path, of: Path | None = None) -> Iterator[None]:
    """Hold the lock file `path`, or raise WriteError with its holder; errors name `of`, or its folder."""
    of = of or path.parent
    with _lock_file(path, of) as descriptor:
        try:
            _flock(descriptor, path, wait=False)
        except BlockingIOError as error:
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            message = f"{of} is in use by {holder}; wait for it, stop it, or choose another folder"
            raise WriteError(message) from error
        if _is_open(descriptor, path):
            with writing(of):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            yield
            return
    with locked(path, of):  # the last holder removed the file after we opened it: lock the new one
        yield


@contextmanager
def _lock_file(path: Path, of: Path) -> Iterator[int]:
    with writing(of):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | NO_WAIT, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, f"{path.name} is not a regular file")
    _held.add(descriptor)
    try:
        yield descriptor
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _flock(descriptor: int, path: Path, wait: bool) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        log.warning("%s cannot be locked (%s): let no second process write there", path, error.strerror)


def _release_after_fork() -> None:
    """Close the locks in a forked worker, so that only its parent, which keeps them, holds them."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_after_fork)

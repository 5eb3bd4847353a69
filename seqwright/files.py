"""Files and folders that are whole or not there, whatever happens while they are written.

A thing is written beside its place, brought to the disk (fsync) and renamed; then the folder that holds its
name is brought to the disk as well. Each of these steps is needed on some file system (Pillai et al. 2014,
"All File Systems Are Not Created Equal", OSDI). What a killed process leaves behind has its pid in its name.

Its place is behind the links that lead there, which stay; a pipe or a device is written to as it is.
"""

from __future__ import annotations

import errno
import hashlib
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
from types import TracebackType
from typing import Any, BinaryIO

from seqwright.errors import ConfigError, ModelError, WriteError

try:
    import fcntl
except ImportError:  # Windows has no flock: there, two processes must not write one folder at the same time
    fcntl = None  # type: ignore[assignment]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # file systems without locks: some Lustre, NFS
TRASH = ".trash."
COMPRESSED = (".gz", ".xz", ".zst")

hook: Callable[[str], None] | None = None  # set by tests, to kill the process or raise at a named point

log = logging.getLogger(__name__)
_held: set[int] = set()  # descriptors of the locks of this process


def reached(point: str) -> None:
    """Names a point of a protocol, just after what the name says was done: "save:renamed"."""
    if hook is not None:
        hook(point)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A failure of the system in this block is a failure to write `path`; a reader who left is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror or error}; {_way_out(error)}") from error
    except MemoryError as error:
        raise WriteError(f"{path} cannot be written: no memory is left; end other programs") from error


def _way_out(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "make its folder first, or name another one"
    refused = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
    return "choose another folder" if error.errno in refused else "free space or choose another folder"


def check_place(path: Path, read: Iterable[str] = ()) -> None:
    """Refuses to begin work whose result could not be written, or would replace what is `read` for it."""
    if is_stream(path):
        return
    place = destination(path)
    if not place.parent.is_dir():
        raise WriteError(f"{path} cannot be written: there is no folder {place.parent}; make it first")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        folder = place.absolute().parent
        raise WriteError(f"{path} cannot be written: nothing may be added to {folder}; choose another folder")
    if any(_is_same(name, path) for name in read):
        raise ConfigError(f"{path} is one of the files that are read; give what is written another name")


def _is_same(name: str, path: Path) -> bool:
    """Whether a file that is read is `path`; "-" is standard input, which may come from a file, too."""
    if name != "-":
        return os.path.realpath(name) == os.path.realpath(path)
    try:
        return os.path.samestat(os.fstat(0), os.stat(path))
    except OSError:
        return False


def uncompressed(name: str) -> Path:
    """The name of a file without the ending of what compressed it."""
    path = Path(name)
    return path.with_suffix("") if path.suffix in COMPRESSED else path


def is_stream(path: Path) -> bool:
    """Whether what is written to `path` flows away and cannot be replaced: into a pipe, a terminal or another
    device of characters, or into the standard output or error of this process, be that sent to a file.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or _standard(path) is not None


def _standard(path: Path) -> int | None:
    """The descriptor of standard output or error that `path` is a name of, as /dev/stdout is."""
    for descriptor in (1, 2):
        with suppress(OSError):  # it may be closed
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
    return None


def _open_stream(path: Path) -> BinaryIO:
    """Where the process writes already, it goes on at the same place: opened anew, a file begins at 0."""
    descriptor = _standard(path)
    return open(path, "wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb")


def destination(path: Path) -> Path:
    """Where the file stands that `path` leads to, or will stand; what is there must be one."""
    with writing(path):
        place = Path(os.path.realpath(path)) if path.is_symlink() else path
        if place.is_dir():
            raise WriteError(f"{path} is a folder; name a file in it")
        if place.is_symlink() or (place.exists() and not place.is_file()):  # a link to itself, a socket
            raise WriteError(f"{path} is no file and cannot become one; choose another name")
        return place


def sync(folder: Path) -> None:
    """Make the names in a folder last. Windows cannot open a folder, and writes its names through."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path, label: str | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and vanishes when it does not.

    A stream takes what is written as it comes.
    """
    if is_stream(path):
        with writing(path), _open_stream(path) as file:
            yield file
        return
    place, label = destination(path), label or path.name
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
    """A folder that becomes `path` when the block ends well, and vanishes when it does not.

    `path` must not exist. The files must be on the disk when the block ends: write them with `HashedFile`.
    """
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
    """A file that is on the disk, and knows its size and SHA-256, when it is finished."""

    def __init__(self, path: Path, label: str | None = None):
        self.name, self.label, self.file = path.name, label or path.name, path.open("wb")
        self.size, self.hash = 0, hashlib.sha256()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
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


def write_text(path: Path, text: str, label: str | None = None) -> None:
    with atomic_file(path, label) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any, label: str | None = None) -> None:
    with atomic_file(path, label) as file:
        file.write(encode_json(value, indent=1))


def encode_json(value: Any, indent: int | None = None) -> bytes:
    """A value and a line end. A lone surrogate, which UTF-8 cannot say, becomes its JSON escape."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def strict(value: Any) -> Any:
    """The value with null in the place of every number that JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list | tuple) else value


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of a run; anything else is a ModelError."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON ({error}); restore it from a copy") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds {type(value).__name__} instead of an object; restore it from a copy")
    return value


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_space(folder: Path, size: int) -> None:
    """Refuses to begin what the disk has no room for."""
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if free < size:
        raise WriteError(
            f"{folder} has {free / 1e6:,.1f} MB free and {size / 1e6:,.1f} MB are needed; "
            "free space or choose another folder"
        )


def discard(path: Path, label: str) -> None:
    """Remove a folder, first from sight in one step: a kill leaves no half of it under its name."""
    trash = path.with_name(f"{TRASH}{path.name}")
    shutil.rmtree(trash, ignore_errors=True)
    os.rename(path, trash)
    reached(f"{label}:moved")
    shutil.rmtree(trash)
    reached(f"{label}:deleted")


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder: discarded things, and unfinished ones of the dead.

    An unfinished thing with the pid of this process was left by a dead one of the same pid, as is common in
    containers; so do not call it while writing.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        unfinished = re.search(r"\.tmp\.(\d+)$", path.name)
        if path.name.startswith(TRASH) or (unfinished and not _lives_elsewhere(int(unfinished[1]))):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _lives_elsewhere(pid: int) -> bool:
    if os.name != "posix":
        return True  # there, os.kill with signal 0 does not ask but kill
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Waits for the lock file `path` and holds it. The lock goes with its process, also a killed one."""
    with _lock_file(path, path.parent) as descriptor:
        _flock(descriptor, path, wait=True)
        yield


@contextmanager
def locked(path: Path, of: Path | None = None) -> Iterator[None]:
    """Holds the lock file `path`, or raises WriteError naming the process that holds it.

    It is the lock `of` that place, which errors name: of its folder if none is said.
    """
    of = of or path.parent
    with _lock_file(path, of) as descriptor:
        try:
            _flock(descriptor, path, wait=False)
        except BlockingIOError as error:
            raise WriteError(
                f"{of} is in use by {_holder(path)}; wait for it, stop it or choose another folder"
            ) from error
        if _stands_at(path, descriptor):
            with writing(of):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            yield
            return
    with locked(path, of):  # its last holder removed it after we had opened it: others would take a new one
        yield


@contextmanager
def _lock_file(path: Path, of: Path) -> Iterator[int]:
    with writing(of):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
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
        log.warning("%s cannot be locked: %s; let no second process write there", path, error.strerror)


def _stands_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace") or "another process"
    return "another process"


def _let_go_after_fork() -> None:
    """A forked worker must not hold the lock on when its parent is killed. Closing a copy unlocks nothing."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_after_fork)

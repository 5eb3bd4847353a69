"""Files are complete or absent; a lock has one holder and ends with its process."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty import in_child, names
from hypothesis import given
from hypothesis import strategies as st

from seqwright import files
from seqwright.errors import ConfigError, ModelError, WriteError

ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO]
FILE_POINTS = ["a.json:written", "a.json:synced", "a.json:renamed"]
FOLDER_POINTS = ["f:begun", "x:writing", "x:written", "x:synced", "f:synced", "f:renamed", "f:settled"]


def kill_at(point: str) -> Callable[[str], None]:
    return lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == point else None


def fail_at(point: str, code: int) -> Callable[[str], None]:
    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(code, os.strerror(code))

    return fail


def write_file(folder: Path) -> None:
    files.write_json(folder / "a.json", {"new": "x" * 10_000})


def write_output(path: Path) -> None:
    """Write a file that a user named."""
    files.write_text(path, '{"new": 1}', follow=True)


def write_folder(folder: Path) -> None:
    with files.atomic_folder(folder / "f") as fresh, files.HashedFile(fresh / "x") as file:
        file.write(b"x" * 10_000)
        file.finish()


@pytest.mark.parametrize(("write", "points"), [(write_file, FILE_POINTS), (write_folder, FOLDER_POINTS)])
def test_writes_reach_these_points(tmp_path, monkeypatch, write, points):
    seen: list[str] = []
    monkeypatch.setattr(files, "hook", seen.append)
    write(tmp_path)
    assert seen == points


@pytest.mark.parametrize("point", FILE_POINTS)
def test_a_killed_write_leaves_the_old_file_or_the_new(tmp_path, monkeypatch, point):
    files.write_json(tmp_path / "a.json", {"old": 1})
    monkeypatch.setattr(files, "hook", kill_at(point))
    assert in_child(lambda: write_file(tmp_path)) == -signal.SIGKILL
    assert list(files.read_json(tmp_path / "a.json")) == ["new" if point.endswith("renamed") else "old"]
    files.remove_leftovers(tmp_path)
    assert names(tmp_path) == {"a.json"}


@pytest.mark.parametrize("point", FOLDER_POINTS)
def test_a_killed_folder_is_complete_or_absent(tmp_path, monkeypatch, point):
    monkeypatch.setattr(files, "hook", kill_at(point))
    assert in_child(lambda: write_folder(tmp_path)) == -signal.SIGKILL
    files.remove_leftovers(tmp_path)
    whole = point in ("f:renamed", "f:settled")
    assert names(tmp_path) == ({"f"} if whole else set())
    if whole:
        assert (tmp_path / "f" / "x").stat().st_size == 10_000


@pytest.mark.parametrize("code", ERRORS)
def test_a_failed_write_is_a_write_error_and_leaves_nothing(tmp_path, monkeypatch, code):
    files.write_json(tmp_path / "a.json", {"old": 1})
    for write, points in [(write_file, FILE_POINTS[:2]), (write_folder, FOLDER_POINTS[:5])]:
        for point in points:
            monkeypatch.setattr(files, "hook", fail_at(point, code))
            with pytest.raises(WriteError, match=f"cannot be written: {os.strerror(code)}") as caught:
                write(tmp_path)
            assert "\n" not in str(caught.value)
            assert names(tmp_path) == {"a.json"}
    assert files.read_json(tmp_path / "a.json") == {"old": 1}


def test_a_missing_folder_is_not_a_lack_of_space(tmp_path):
    place = tmp_path / "no" / "a.json"
    with pytest.raises(WriteError, match="create its folder first"):
        files.write_json(place, {})
    with pytest.raises(WriteError, match=f"the folder {place.parent} does not exist; create it first"):
        files.check_place(place)
    files.check_place(tmp_path / "a.json")
    (tmp_path / "b").mkdir()
    for refuse in (files.check_place, write_output):
        with pytest.raises(WriteError, match="b is a folder; pass a file name in it"):
            refuse(tmp_path / "b")


@pytest.fixture
def linked(tmp_path) -> tuple[Path, Path]:
    """Return a link and its target in another folder."""
    link, place = tmp_path / "a.json", tmp_path / "far" / "b.json"
    place.parent.mkdir()
    place.write_text('{"old": 1}')
    link.symlink_to("far/b.json")
    return link, place


def test_a_link_stays_and_its_target_is_replaced(tmp_path, linked):
    link, place = linked
    for _ in ("a file that is there", "a file that is not"):
        write_output(link)
        assert link.is_symlink()
        assert list(files.read_json(place)) == ["new"]
        assert (names(tmp_path), names(place.parent)) == ({"a.json", "far"}, {"b.json"})
        place.unlink()
    place.parent.rmdir()
    with pytest.raises(WriteError, match=f"the folder {place.parent} does not exist; create it first"):
        files.check_place(link)


@pytest.mark.parametrize("point", FILE_POINTS)
def test_a_killed_write_through_a_link_leaves_the_old_file_or_the_new(tmp_path, linked, monkeypatch, point):
    monkeypatch.setattr(files, "hook", kill_at(point))
    assert in_child(lambda: write_output(linked[0])) == -signal.SIGKILL
    assert list(files.read_json(linked[1])) == ["new" if point.endswith("renamed") else "old"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for place in (pipe, tmp_path / "link"):
        files.check_place(place)
        reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
        reader.start()
        files.write_text(place, "text", follow=True)
        reader.join(10)
    assert got == ["text", "text"]
    assert pipe.is_fifo()
    assert names(tmp_path) == {"pipe", "link"}


def test_a_closed_pipe_is_not_a_write_error(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: os.close(os.open(tmp_path / "pipe", os.O_RDONLY)), daemon=True)
    reader.start()
    with pytest.raises(BrokenPipeError):
        files.write_text(tmp_path / "pipe", "text" * 1_000_000, follow=True)  # more than the pipe holds


def test_standard_output_to_a_file_continues_at_its_position(tmp_path):
    """Replacing the file would lose other output; opening it again would start at position 0."""
    log = tmp_path / "log"

    def say_and_write() -> None:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 1)
        os.write(1, b"before ")
        files.write_text(log, "outputs", follow=True)
        os.write(1, b" after")

    assert in_child(say_and_write) == 0
    assert log.read_text() == "before outputs after"


def test_other_kinds_of_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        Path("loop").symlink_to("loop")
        for name in ("socket", "loop"):
            for refuse in (files.check_place, write_output):
                with pytest.raises(WriteError, match=f"{name} is not a regular file"):
                    refuse(Path(name))
        assert Path("socket").is_socket()
        assert Path("loop").is_symlink()


def test_input_files_are_not_overwritten(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("text")
    (tmp_path / "link").symlink_to(path)
    for place in (path, tmp_path / "link", tmp_path / "x" / ".." / "in.txt"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match="is one of the input files; choose"):
            files.check_place(place, ["other", str(path)])
    files.check_place(tmp_path / "out.txt", [str(path), "-"])


def test_standard_input_may_be_the_file_that_would_be_written(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("text")

    def read_and_write(name: str) -> None:
        os.dup2(os.open(path, os.O_RDONLY), 0)
        files.check_place(tmp_path / name, ["-"])

    assert in_child(lambda: read_and_write("in.txt")) == 1
    assert in_child(lambda: read_and_write("out.txt")) == 0


def test_a_folder_without_write_permission_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda *_: False)  # root may write everywhere
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WriteError, match=f"^a cannot be written: no write permission in {tmp_path};"):
        files.check_place(Path("a"))

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files.os, "open", refuse)
    for lock, named in (
        (files.locked(tmp_path / ".lock"), tmp_path),
        (files.locked(Path("l"), Path("a")), "a"),
    ):
        with pytest.raises(WriteError, match=f"^{named} cannot be written: Permission denied; choose"), lock:
            pass


def test_an_error_of_the_writer_keeps_the_old_file(tmp_path):
    def broken(folder: Path) -> None:
        with files.atomic_file(folder / "a") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        broken(tmp_path)
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == {"a"}


def test_no_memory_is_a_write_error(tmp_path):
    with pytest.raises(WriteError, match="out of memory"), files.writing(tmp_path):
        raise MemoryError


def test_a_folder_is_never_replaced(tmp_path):
    write_folder(tmp_path)
    with pytest.raises(WriteError, match="exists"):
        write_folder(tmp_path)
    assert names(tmp_path) == {"f"}


def test_a_hashed_file_returns_its_hash(tmp_path):
    with files.HashedFile(tmp_path / "x") as file:
        file.write(b"one")
        file.write(memoryview(b"two"))
        known = file.finish()
    assert (tmp_path / "x").read_bytes() == b"onetwo"
    assert known == {"bytes": 6, "sha256": files.sha256(tmp_path / "x")}


any_text = st.text(st.characters(), max_size=5)  # lone surrogates included
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@given(value=any_json)
def test_json_round_trips_as_one_line_of_utf8(value):
    line = files.encode_json(value)
    assert json.loads(line.decode("utf-8")) == value
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    ("content", "rule"),
    [(b"", "not JSON"), (b"\xff{}", "not JSON"), (b"[" * 100_000, "not JSON"), (b"[]", "list, not")],
)
def test_json_that_is_not_an_object_is_refused(tmp_path, content, rule):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ModelError, match=rf"a\.json.*{rule}"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(ModelError, match="No such file"):
        files.read_json(tmp_path / "b.json")


def test_a_lack_of_space_is_reported_before_writing(tmp_path):
    files.check_space(tmp_path, 1)
    with pytest.raises(WriteError, match=r"MB free, but 1,000,000,000,000\.0 MB are needed"):
        files.check_space(tmp_path, 10**18)


def test_only_leftovers_of_dead_processes_are_removed(tmp_path):
    dead = os.fork() or os._exit(0)
    os.waitpid(dead, 0)
    living = {f"b.tmp.{os.getppid()}", "c.tmp.x", "step_1", "tmp.5"}
    for name in living | {f"d.tmp.{dead}", f"e.tmp.{os.getpid()}", ".trash.step_3", f"g.tmp.{10**30}"}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "inside").touch()
    (tmp_path / f".LATEST.tmp.{dead}").touch()
    files.remove_leftovers(tmp_path)
    assert names(tmp_path) == living


def test_a_lock_names_its_holder(tmp_path):
    lock = tmp_path / ".lock"
    with files.locked(lock):
        here = f"{tmp_path} is in use by process {os.getpid()} on {socket.gethostname()};"
        with pytest.raises(WriteError, match=here), files.locked(lock):
            pass
        assert in_child(lambda: files.locked(lock).__enter__()) == 1
    with files.locked(lock):
        pass


def test_a_removed_lock_file_is_locked_again(tmp_path, monkeypatch):
    """When the holder removes its lock file, a process that had opened it holds a lock on no file."""
    lock, take = tmp_path / ".lock", files._flock

    def removed_before(descriptor: int, path: Path, wait: bool) -> None:
        monkeypatch.setattr(files, "_flock", take)
        path.unlink()
        take(descriptor, path, wait)

    monkeypatch.setattr(files, "_flock", removed_before)
    with files.locked(lock):
        assert lock.read_text().startswith(f"process {os.getpid()} ")
        with pytest.raises(WriteError, match="is in use by"), files.locked(lock):
            pass


def holding(lock: Path, then: Callable[[], object]) -> int:
    """Start a child that holds the lock and then runs `then`; return its pid."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with files.locked(lock):
                then()
                os.write(writer, b"!")
                time.sleep(60)
        finally:
            os._exit(1)
    os.close(writer)
    assert os.read(reader, 1) == b"!"
    os.close(reader)
    return child


def test_a_lock_ends_with_its_killed_process(tmp_path):
    for _ in range(20):
        child = holding(tmp_path / ".lock", lambda: None)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with files.locked(tmp_path / ".lock"):
            pass


def test_a_worker_does_not_hold_the_lock_of_its_killed_parent(tmp_path):
    def fork_a_worker() -> None:
        if (worker := os.fork()) == 0:
            try:
                time.sleep(60)
            finally:
                os._exit(0)
        (tmp_path / "worker").write_text(str(worker))

    child = holding(tmp_path / ".lock", fork_a_worker)
    with pytest.raises(WriteError, match="in use"), files.locked(tmp_path / ".lock"):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        with files.locked(tmp_path / ".lock"):
            pass
    finally:
        os.kill(int((tmp_path / "worker").read_text()), signal.SIGKILL)


def test_a_waiting_process_gets_the_lock(tmp_path):
    def wait_and_note() -> None:
        with files.alone(tmp_path / ".lock"):
            (tmp_path / "noted").touch()

    with files.alone(tmp_path / ".lock"):
        if (child := os.fork()) == 0:
            try:
                wait_and_note()
            finally:
                os._exit(0)
        time.sleep(0.1)
        assert not (tmp_path / "noted").exists()
    os.waitpid(child, 0)
    assert (tmp_path / "noted").exists()


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def unable(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files.fcntl, "flock", unable)
    with files.locked(tmp_path / ".lock"):
        assert "cannot be locked" in caplog.text

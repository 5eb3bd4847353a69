"""Checkpoints are complete under any fault, and nothing else is ever loaded."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from faulty import in_child, names
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import seqwright
from seqwright import files
from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError
from seqwright.runs import checkpoint as checkpoint_module
from seqwright.runs.checkpoint import Checkpoints
from seqwright.runs.tensors import CODES, load_tensors, write_tensors

GOLDEN = Path(__file__).parent.parent / "golden" / "checkpoints_1"
FILES = ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]
POINTS = [
    "save:begun",
    *(f"save:{name}:{what}" for name in FILES for what in ("writing", "written", "synced")),
    "save:synced",
    "save:renamed",
    "save:settled",
    *(f"save:{name}:{what}" for name in ("BEST", "LATEST") for what in ("written", "synced", "renamed")),
    "retention:moved",
    "retention:deleted",
]
LANDED = POINTS.index("save:LATEST:renamed")


def tensors_of(step: int) -> dict[str, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(step)
    weight = torch.randn(30, 7, generator=generator)
    moments = {"moment": torch.randn(30, 7, generator=generator), "count": torch.tensor(step)}
    return {"model": {"weight": weight, "tied": weight}, "optimizer": moments}


def save(checkpoints: Checkpoints, step: int, **options: Any) -> Path:
    return checkpoints.save(step, tensors_of(step), {"step": step, "loss": 1 / (step + 1)}, **options)


def check(checkpoints: Checkpoints, step: int, **options: Any) -> None:
    """Check that everything saved at a step is loaded."""
    loaded = checkpoints.load(**options)
    assert loaded is not None
    assert (loaded.step, loaded.state) == (step, {"step": step, "loss": 1 / (step + 1)})
    for part, expected in tensors_of(step).items():
        assert loaded.tensors[part].keys() == expected.keys()
        assert all(same(loaded.tensors[part][name], expected[name]) for name in expected)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    def bits(tensor: torch.Tensor) -> list[int]:
        return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()

    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


@pytest.fixture
def logged() -> list[str]:
    return []


@pytest.fixture
def two(tmp_path, logged) -> Checkpoints:
    """Checkpoints of steps 1 and 2; a third one will remove the first."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", "mine", keep=2, log=logged.append)
    save(checkpoints, 1, metric=0.1)
    save(checkpoints, 2, metric=0.2)
    return checkpoints


# Faults while saving


def test_a_save_reaches_these_points(two, monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(files, "hook", seen.append)
    save(two, 3, metric=0.3)
    assert list(dict.fromkeys(seen)) == POINTS


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_nothing_is_renamed_before_it_is_synced(two, monkeypatch):
    """Each new name is synced before the next is made, so that a power cut keeps their order."""
    events: list[tuple[str, str]] = []

    def fsync(descriptor: int) -> None:
        events.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))

    def moving(rename: Callable) -> Callable:
        def move(old: Path, new: Path) -> None:
            inside = [path.name for path in old.iterdir()] if old.is_dir() else []
            events.append(("rename", new.name))
            if not new.name.startswith(".trash"):
                assert {("sync", name) for name in (old.name, *inside)} <= set(events)
            rename(old, new)

        return move

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", moving(os.rename))
    monkeypatch.setattr(os, "replace", moving(os.replace))
    save(two, 3, metric=0.3)
    names_made = [name for kind, name in events if kind == "rename"]
    assert names_made == ["step_00000003", "BEST", "LATEST", ".trash.step_00000001"]
    for name in names_made[:-1]:
        assert events[events.index(("rename", name)) + 1] == ("sync", "checkpoints")


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_the_old_checkpoint_or_the_new(two, monkeypatch, logged, point):
    def kill(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(files, "hook", kill)
    assert in_child(lambda: save(two, 3, metric=0.3)) == -signal.SIGKILL
    monkeypatch.setattr(files, "hook", None)
    check(two, 3 if POINTS.index(point) >= LANDED else 2)
    files.remove_leftovers(two.folder)
    save(two, 3, metric=0.3)  # a resumed training saves the same step again
    save(two, 4, metric=0.0)
    check(two, 4)
    assert two.steps() == [3, 4]
    assert two.read(two.best()).step == 3
    assert len(names(two.folder)) <= 5  # BEST, LATEST, two kept ones, and BEST's if the step was saved twice
    assert logged == []


@pytest.mark.parametrize("point", POINTS)
def test_a_failed_save_changes_nothing_and_can_be_repeated(two, monkeypatch, logged, point):
    def refuse(reached: str) -> None:
        if reached == point:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "hook", refuse)
    if point.startswith("retention"):
        save(two, 3, metric=0.3)
        assert "not removed" in logged.pop()
    else:
        with pytest.raises(WriteError, match="No space left"):
            save(two, 3, metric=0.3)
    assert not [name for name in names(two.folder) if ".tmp." in name]
    check(two, 3 if POINTS.index(point) >= LANDED else 2)
    monkeypatch.setattr(files, "hook", None)
    save(two, 3, metric=0.3)
    check(two, 3)
    assert logged == []


def test_a_file_larger_than_allowed_keeps_the_old_checkpoint(two):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(WriteError, match="too large"):
            two.save(3, {"model": {"large": torch.zeros(10_000)}}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    check(two, 2)
    assert names(two.folder) == {"LATEST", "BEST", "step_00000001", "step_00000002"}


def test_free_space_is_checked_before_writing(two, monkeypatch):
    usage = shutil.disk_usage(two.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=500))
    points: list[str] = []
    monkeypatch.setattr(files, "hook", points.append)
    with pytest.raises(WriteError, match="are needed"):
        save(two, 3)
    assert points == []


def test_a_file_in_place_of_the_folder_is_a_write_error(tmp_path):
    (tmp_path / "checkpoints").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        save(Checkpoints(tmp_path / "checkpoints", "mine"), 1)


def test_a_removed_folder_is_created_again(two):
    shutil.rmtree(two.folder)
    save(two, 3)
    check(two, 3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and limits the address space")
def test_no_memory_to_copy_a_tensor_is_a_write_error(two):
    def save_within_limits() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        wide = torch.zeros(1, dtype=torch.int32).expand(100_000_000)  # 400 MB, once it is made contiguous
        with pytest.raises(WriteError, match="wide cannot be written"):
            two.save(3, {"model": {"wide": wide}}, {})
        with pytest.raises(WriteError, match="model cannot be written"):
            two.save(3, {"model": {"wide": wide.view(torch.float32)}}, {})
        save(two, 4)

    assert in_child(save_within_limits) == 0
    check(two, 4)
    assert two.steps() == [2, 4]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["model", "optimizer"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_non_finite_values_are_not_saved(two, part, value, dtype):
    tensors = tensors_of(3)
    tensors[part]["bad"] = torch.ones(5, 2, dtype=dtype)
    tensors[part]["bad"][3, 1] = value
    with pytest.raises(DivergedError, match=f"{part} bad is not finite; .* step_00000002"):
        two.save(3, tensors, {})
    assert two.steps() == [1, 2]


def test_finite_numbers_are_saved_up_to_the_largest(two):
    extremes = torch.tensor([torch.finfo(torch.float16).max] * 9, dtype=torch.float16)
    two.save(3, {"model": {"large": extremes, "small": -extremes}}, {})
    assert two.load().step == 3


# Faults found while loading


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero_the_tail(path: Path) -> None:
    """Zero the pages that a power cut would lose."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def flip_a_bit(path: Path) -> None:
    """Flip a bit of the last letter or digit; in the manifest that is its hash."""
    data = bytearray(path.read_bytes())
    place = max(place for place, byte in enumerate(data) if chr(byte).isalnum())
    data[place] ^= 1
    path.write_bytes(data)


def point_to_lfs(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


@pytest.mark.parametrize("harm", [cut, empty, zero_the_tail, flip_a_bit, point_to_lfs, Path.unlink])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_is_skipped_and_named(two, logged, name, harm):
    harm(two.folder / "step_00000002" / name)
    check(two, 1)
    (line,) = logged
    assert "step_00000002 is skipped" in line
    assert name in line
    assert "\n" not in line
    save(two, 2)  # training saves the damaged step again
    check(two, 2)
    assert not any("skipped" in line for line in logged[1:])


def test_every_flipped_bit_of_a_manifest_is_found(two):
    path = two.folder / "step_00000002" / "manifest.json"
    data = path.read_bytes()
    before = json.loads(data)
    for place in range(0, 8 * len(data), 11):  # 11 and 8 have no common factor: every bit and position is hit
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = two.read(two.folder / "step_00000002")
        except ModelError:
            continue
        assert found.step == 2
        assert json.loads(bytes(damaged)) == before  # white space turned into other white space


def test_without_hashes_sizes_are_still_checked(two, logged):
    flip_a_bit(two.folder / "step_00000002" / "optimizer.safetensors")
    assert two.load(verify=False).step == 2
    cut(two.folder / "step_00000002" / "optimizer.safetensors")
    check(two, 1, verify=False)


def test_no_checkpoint_is_none_but_only_damaged_ones_are_an_error(tmp_path, two, logged):
    assert Checkpoints(tmp_path / "nowhere", "mine").load() is None
    for step in (1, 2):
        cut(two.folder / f"step_0000000{step}" / "state.json")
    with pytest.raises(ModelError, match="none of the 2 checkpoints"):
        two.load()
    assert len(logged) == 2
    for step in (1, 2):
        shutil.rmtree(two.folder / f"step_0000000{step}")
    with pytest.raises(ModelError, match="none of the 1"):
        two.load()  # LATEST shows that there was one


@pytest.mark.parametrize("content", [b"", b"\0" * 14, b"../../step_00000001", b"step_00000009\n", b"\xff"])
def test_an_invalid_pointer_is_logged(two, logged, content):
    (two.folder / "LATEST").write_bytes(content)
    (two.folder / "BEST").write_bytes(content)
    check(two, 2)
    assert "LATEST" in logged[0] or "step_00000009" in logged[0]
    assert two.best().name == "step_00000002"
    (two.folder / "LATEST").unlink()
    check(two, 2)


def test_a_damaged_best_is_replaced_by_the_best_of_the_others(two, logged):
    save(two, 3, metric=0.15)
    assert two.best().name == "step_00000002"
    cut(two.folder / "step_00000002" / "model.safetensors")
    assert two.best().name == "step_00000003"
    assert "BEST names step_00000002" in logged[0]


def test_non_finite_values_are_not_loaded(two, logged, monkeypatch):
    with monkeypatch.context() as blind:
        blind.setattr(checkpoint_module, "not_finite", lambda _: None)
        two.save(3, {"model": {"bad": torch.tensor([math.nan])}}, {})
    check(two, 2)
    assert "non-finite value in bad" in logged[0]


# What is kept


@settings(max_examples=40)
@given(
    keep=st.integers(1, 3),
    better=st.sampled_from(["higher", "lower"]),
    saves=st.lists(
        st.tuples(
            st.integers(-2, 3), st.sampled_from([None, math.nan, math.inf, 0.1, 0.2, 0.3]), st.booleans()
        ),
        min_size=1,
        max_size=9,
    ),
)
def test_retention_keeps_the_latest_the_best_and_the_last_few(keep, better, saves):
    """Steps increase, repeat, or decrease, as after a return to an earlier checkpoint."""
    with tempfile.TemporaryDirectory() as scratch:
        checkpoints, step, best = Checkpoints(Path(scratch), "mine", keep), 5, None
        left: set[str] = set()
        for stride, metric, kept in saves:
            step = max(0, step + stride)
            weights = {"model": {"x": torch.tensor(step)}}
            latest = checkpoints.save(step, weights, {}, metric, better, kept=kept)
            sign = 1 if better == "higher" else -1
            number = metric is not None and math.isfinite(metric)
            if kept or (number and (best is None or best[0] is None or sign * metric > sign * best[0])):
                best = metric if number else None, latest
            assert checkpoints.load().path == latest
            assert checkpoints.best() == (best and best[1])
            before = sorted(name for name in left if name < latest.name)
            left = {*[*before, latest.name][-keep:], *([best[1].name] if best else [])}
            assert names(Path(scratch)) - {"LATEST", "BEST"} == left


def test_best_is_a_pointer_and_can_be_moved(two):
    assert (two.folder / "BEST").read_text() == "step_00000002\n"
    (two.folder / "BEST").write_text("step_00000001\n")
    assert two.best() == two.folder / "step_00000001"


def test_checkpoints_of_another_run_are_neither_loaded_nor_removed(two, tmp_path, logged):
    save(two, 1000, metric=9.0)
    new = Checkpoints(two.folder, "another", keep=1, log=logged.append)
    with pytest.raises(ModelError, match="none of the 2"):
        new.load()
    assert "belongs to run mine" in logged[0]
    for step in (10, 20, 1000):
        save(new, step, metric=0.5)
        check(new, step)
    assert new.best().name == "step_00000010"
    assert new.steps() == [10, 1000]
    assert two.steps() == [2, 1000]


def test_saving_a_step_again_keeps_the_first(two, monkeypatch):
    first = two.folder / "step_00000002"
    seen: list[bool] = []
    monkeypatch.setattr(
        files, "hook", lambda point: seen.append(point.startswith("retention") or first.exists())
    )
    assert save(two, 2).name == "step_00000002.2"
    assert all(seen)
    assert two.load().path.name == "step_00000002.2"


def test_later_checkpoints_go_after_a_return_to_an_earlier_one(two):
    save(two, 3)
    (two.folder / "LATEST").write_text("step_00000002")
    check(two, 2)
    (two.folder / "BEST").unlink()
    save(two, 2)
    assert two.steps() == [2]


def test_at_least_one_is_kept(tmp_path):
    with pytest.raises(ConfigError, match="keep is 0"):
        Checkpoints(tmp_path, "mine", keep=0)


def test_parts_can_be_read_alone(two):
    cut_path = two.folder / "step_00000002" / "optimizer.safetensors"
    assert two.read(two.folder / "step_00000002", parts=["model"]).tensors.keys() == {"model"}
    flip_a_bit(cut_path)
    assert two.read(two.folder / "step_00000002", parts=["model"]).tensors.keys() == {"model"}
    with pytest.raises(ModelError, match="no part 'average'; it has: model, optimizer"):
        two.read(two.folder / "step_00000002", parts=["average"])


# Formats


def test_a_checkpoint_of_format_1_still_loads():
    loaded = Checkpoints(GOLDEN, "golden").load()
    assert loaded.step == 7
    assert loaded.state == {"epoch": 2, "loss": 0.5, "text": "é"}
    assert loaded.tensors["model"]["weight"].tolist() == [[0.0, 0.5], [-1.0, 3.0]]
    assert loaded.tensors["model"]["tied"] is loaded.tensors["model"]["weight"]
    assert same(loaded.tensors["optimizer"]["count"], torch.tensor(7))
    assert same(loaded.tensors["optimizer"]["half"], torch.tensor([1.5, -2.0], dtype=torch.bfloat16))


def test_an_older_format_is_named(two, logged):
    for folder in two.folder.glob("step_*"):
        manifest = folder / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
    with pytest.raises(ModelError, match="none of the 2 checkpoints"):
        two.load()
    assert "format 0, but this version reads format 1; use the Seqwright version" in logged[0]


def test_a_newer_format_is_not_skipped(two):
    path = two.folder / "step_00000002" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    with pytest.raises(ModelError, match="format 2, but this version reads format 1; upgrade Seqwright"):
        two.load()


@pytest.mark.parametrize("name", ["model.pt", "../../elsewhere.safetensors", "/etc/passwd", "config.json"])
def test_a_manifest_names_nothing_but_the_files_of_a_checkpoint(two, name):
    path = two.folder / "step_00000002"
    fields = json.loads((path / "manifest.json").read_text())
    fields["files"][name] = fields["files"]["state.json"]
    (path / "manifest.json").write_text(json.dumps(checkpoint_module._sealed(fields)))
    with pytest.raises(ModelError, match="a checkpoint has only safetensors"):
        two.read(path)


# Tensors in files


shapes = st.lists(st.integers(0, 3), max_size=3)


@settings(max_examples=40)
@given(kinds=st.lists(st.tuples(st.sampled_from(list(CODES)), shapes, st.booleans()), max_size=5))
def test_tensors_round_trip_bit_for_bit(kinds):
    tensors = {}
    for number, (dtype, shape, turned) in enumerate(kinds):
        tensor = (torch.randn(shape) * 9).to(dtype)
        tensors[f"näme {number}"] = tensor.transpose(0, -1) if turned and shape else tensor
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "a.safetensors")
        with path.open("wb") as file:
            write_tensors(file, tensors)
        for found in (load_tensors(path), load_file(path)):
            assert found.keys() == tensors.keys()
            assert all(same(found[name], tensor) for name, tensor in tensors.items())


def test_tied_tensors_are_saved_once_and_tied_again(tmp_path):
    weight = torch.randn(100, 100)
    tensors = {"a": weight, "b": weight, "c": weight[1:], "d": weight.t(), "e": weight.clone()}
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        write_tensors(file, tensors)
    assert path.stat().st_size < 4 * weight.nbytes + 1000
    found = load_tensors(path)
    assert all(same(found[name], tensor) for name, tensor in tensors.items())
    found["a"].zero_()
    assert found["b"].count_nonzero() == 0
    assert same(found["e"], weight)


def test_loaded_tensors_have_memory_of_their_own(tmp_path):
    path, tensors = tmp_path / "a.safetensors", {name: torch.randn(5000) for name in "abc"}
    with path.open("wb") as file:
        write_tensors(file, tensors)
    found = load_tensors(path)
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert all(same(found[name], tensor) for name, tensor in tensors.items())
    assert all(tensor.data_ptr() % 64 == 0 for tensor in found.values())


def test_an_unsupported_dtype_is_named(two):
    with pytest.raises(WriteError, match=r"wave has dtype torch\.complex64"):
        two.save(3, {"model": {"wave": torch.ones(2, dtype=torch.complex64)}}, {})
    check(two, 2)


def stored(header: Any, numbers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\1\2\3",
        (2**63).to_bytes(8, "little") + b"{}",
        (2**64 - 1).to_bytes(8, "little"),
        stored(b"{not json}"),
        stored(b"[" * 100_000),
        stored({"a": entry()}),
        stored({"a": entry()}, b"123"),
        stored({"a": entry()}, b"12345"),
        stored({"a": entry(dtype="F33")}, b"1234"),
        stored({"a": entry(dtype="F64")}, b"1234"),
        stored({"a": entry(shape=[2])}, b"1234"),
        stored({"a": entry(shape=[2**62, 8])}, b"1234"),
        stored({"a": entry(data_offsets=[4, 0])}, b"1234"),
        stored({"a": entry(), "b": entry()}, b"1234"),
        stored({"a": entry(), "b": entry(data_offsets=[8, 12])}, b"123412341234"),
        stored({"a": entry(), "__metadata__": {"tied": '{"b": "c"}'}}, b"1234"),
        stored({"a": entry(), "__metadata__": {"tied": "[1]"}}, b"1234"),
        stored({"a": entry(), "__metadata__": {"tied": "?"}}, b"1234"),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
    ],
)
def test_an_incomplete_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"a\.safetensors is") as caught:
        load_tensors(path)
    assert "\n" not in str(caught.value)


class Bomb:
    """Creates a file when unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["a.pt", "a.bin", "a.ckpt", "a.pkl", "a.safetensors"])
@pytest.mark.parametrize("kind", ["torch", 0, 2, 5])
def test_a_pickle_is_refused_and_does_nothing(tmp_path, name, kind):
    path, crater = tmp_path / name, tmp_path / "crater"
    torch.save(Bomb(crater), path) if kind == "torch" else path.write_bytes(pickle.dumps(Bomb(crater), kind))
    with pytest.raises(ModelError, match=r"pickle" if kind else r"pickle|not a valid"):
        load_tensors(path)
    assert not crater.exists()
    bomb = io.BytesIO(path.read_bytes())
    torch.load(bomb, weights_only=False) if kind == "torch" else pickle.load(bomb)
    assert crater.exists()  # it was a bomb


def test_no_part_of_seqwright_unpickles():
    sources = list(Path(seqwright.__file__).parent.rglob("*.py"))
    assert len(sources) > 10
    for path in sources:
        for word in (
            "import pickle",
            "from pickle",
            "torch.load(",
            "torch.save(",
            "joblib",
            "allow_pickle=True",
        ):
            assert word not in path.read_text(encoding="utf-8"), path

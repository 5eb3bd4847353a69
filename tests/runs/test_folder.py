"""Run folders: identification, the lock, the log under faults, the weights."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import shutil
import signal
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqwright import files
from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError
from seqwright.runs import folder as run_module
from seqwright.runs.folder import Run, check_order, differences

CONFIG = {"model": {"layers": 2, "size": 8}, "training": {"rate": 0.003, "betas": (0.9, 0.98)}, "name": "é"}
READ = {**CONFIG, "training": {"rate": 0.003, "betas": [0.9, 0.98]}}


@pytest.fixture
def run(tmp_path) -> Run:
    return Run.create(tmp_path / "run", CONFIG)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_created_run_can_be_opened(tmp_path):
    created = Run.create(tmp_path / "deep" / "run", CONFIG)
    opened = Run.open(tmp_path / "deep" / "run")
    assert created.config == opened.config == READ
    assert created.id == opened.id
    assert len(opened.id) == 16
    assert opened.path("data", "x") == tmp_path / "deep" / "run" / "data" / "x"
    assert Run.create(tmp_path / "other", CONFIG).id != opened.id
    assert names(opened.folder) == {"config.json", ".lock"}


def test_a_configuration_is_replaced_but_not_the_id(run):
    run.configure({"model": {"layers": 3}})
    opened = Run.open(run.folder)
    assert opened.config == {"model": {"layers": 3}}
    assert opened.id == run.id


def test_reserved_keys_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'run'"):
        Run.create(tmp_path / "run", {"run": 1})
    assert not (tmp_path / "run").exists()


def test_other_folders_are_not_touched(tmp_path, run):
    (tmp_path / "thesis").mkdir()
    for number in range(5):
        (tmp_path / "thesis" / f"chapter {number}").touch()
    with pytest.raises(
        WriteError, match=r"not a run: it contains chapter 0, chapter 1, chapter 2 and 2 more;"
    ):
        Run.create(tmp_path / "thesis", CONFIG)
    assert len(names(tmp_path / "thesis")) == 5
    with pytest.raises(WriteError, match=r"already has a config\.json"):
        Run.create(run.folder, {})
    assert Run.open(run.folder).config == READ
    with pytest.raises(WriteError, match="is a file; choose another folder"):
        Run.create(tmp_path / "thesis" / "chapter 1", CONFIG)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_is_reported_at_once(tmp_path, monkeypatch, code):
    def refuse(_: str) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "hook", refuse)
    with pytest.raises(WriteError, match=os.strerror(code)):
        Run.create(tmp_path / "run", CONFIG)
    monkeypatch.setattr(files, "hook", None)
    assert not Run.exists(tmp_path / "run")
    assert Run.create(tmp_path / "run", CONFIG).config == READ


def test_a_full_disk_is_reported_at_once(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(WriteError, match="MB free"):
        Run.create(tmp_path / "run", CONFIG)


@pytest.mark.parametrize("point", ["run:config:written", "run:config:synced"])
def test_a_killed_creation_can_be_repeated(tmp_path, monkeypatch, point):
    def kill(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(files, "hook", kill)
    if (child := os.fork()) == 0:
        try:
            Run.create(tmp_path / "run", CONFIG)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.setattr(files, "hook", None)
    run = Run.create(tmp_path / "run", CONFIG)
    with run.lock():
        assert names(run.folder) == {"config.json", ".lock"}


def test_of_two_creations_at_once_one_succeeds(tmp_path, monkeypatch):
    """The second starts while the first holds the lock."""
    failures: list[str] = []

    def meddle(_: str) -> None:
        monkeypatch.setattr(files, "hook", None)
        with pytest.raises(WriteError) as caught:
            Run.create(tmp_path / "run", {"other": 1})
        failures.append(str(caught.value))

    monkeypatch.setattr(files, "hook", meddle)
    Run.create(tmp_path / "run", CONFIG)
    assert f"in use by process {os.getpid()}" in failures[0]
    assert Run.open(tmp_path / "run").config == READ


def test_a_late_creation_does_not_overwrite(tmp_path, monkeypatch):
    """Another creation finishes between the first check of the folder and the lock."""
    locked = files.locked

    def late(path: Path) -> AbstractContextManager[None]:
        monkeypatch.setattr(files, "locked", locked)
        Run.create(tmp_path / "run", CONFIG)
        return locked(path)

    monkeypatch.setattr(files, "locked", late)
    with pytest.raises(WriteError, match=r"already has a config\.json"):
        Run.create(tmp_path / "run", {"other": 1})
    assert Run.open(tmp_path / "run").config == READ


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "not JSON"),
        ('{"format": 1, "run', "not JSON"),
        ("[]", "list, not"),
        ("{}", "not the configuration of a run"),
        ('{"model_type": "bert"}', "not the configuration of a run"),
        ('{"format": 1}', "not the configuration of a run"),
        ('{"format": 2, "run": "0"}', "format 2, but this version reads format 1; upgrade Seqwright"),
        ('{"format": 0, "run": "0"}', "format 0, but this version reads format 1; use the Seqwright"),
    ],
)
def test_an_invalid_configuration_is_reported_in_one_line(tmp_path, content, rule):
    with pytest.raises(ModelError, match=r"is not a run: it has no config\.json"):
        Run.open(tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=rule) as caught:
        Run.open(tmp_path)
    assert "config.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_run_is_reported_with_a_suggestion(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Run.create("runs/g2p", {})
    (tmp_path / "words.txt").write_text("a\n")
    for name, message in (
        (
            "runs/g3p",
            r"^the folder runs/g3p does not exist; did you mean runs/g2p\? pass a run folder .*$",
        ),
        ("g2p", r"^the folder g2p does not exist; did you mean runs/g2p\? pass"),
        ("nothing/like/it", r"^the folder nothing/like/it does not exist; pass a run"),
        ("words.txt", r"^words.txt is a file, not a run; pass a run"),
        ("x" * 5000, r"^the folder x+ does not exist; pass a run"),
    ):
        with pytest.raises(ModelError, match=message):
            Run.open(name)


def test_a_run_folder_must_come_first(tmp_path):
    run, other = str(Run.create(tmp_path / "run", {}).folder), str(tmp_path / "words.txt")
    check_order(run, other)
    check_order(run, run)
    check_order(other, "", other)  # no run at all: opening it reports that
    with pytest.raises(
        ConfigError, match=r"run is a run folder and .*words\.txt is not; pass the run folder first"
    ):
        check_order(other, run)


def test_the_lock_admits_one_process_and_removes_leftovers(run):
    again = Run.open(run.folder)
    run.checkpoints().save(1, {"model": {"x": torch.ones(1)}}, {})
    run.path("checkpoints", f"step_00000002.tmp.{os.getpid()}").mkdir()
    run.path("checkpoints", ".trash.step_00000000").mkdir()
    run.path(f".config.json.tmp.{os.getpid()}").touch()
    with run.lock():
        assert names(run.folder) == {"config.json", "checkpoints", ".lock"}
        assert names(run.path("checkpoints")) == {"LATEST", "step_00000001"}
        with pytest.raises(WriteError, match=f"in use by process {os.getpid()} on "), again.lock():
            pass
    with again.lock():
        assert again.checkpoints(keep=1).load().step == 1


# The log


def test_records_round_trip_as_strict_json(run):
    assert list(run.records()) == []
    run.log({"step": 1, "loss": math.nan, "deep": {"list": [math.inf, 1.5, "é\n"]}})
    run.log({"step": 2, "loss": 0.5})
    assert list(run.records()) == [
        {"step": 1, "loss": None, "deep": {"list": [None, 1.5, "é\n"]}},
        {"step": 2, "loss": 0.5},
    ]
    assert "NaN" not in run.path("metrics.jsonl").read_text(encoding="utf-8")


@given(cut=st.integers(0, 60), step=st.integers(0, 4))
def test_a_rewound_log_has_complete_records_up_to_the_step(cut, step):
    with tempfile.TemporaryDirectory() as scratch:
        run = Run.create(scratch, {})
        run.log({"note": "begin"})
        for number in range(1, 4):
            run.log({"step": number})
        path = run.path("metrics.jsonl")
        data = path.read_bytes()[: -cut or None]
        path.write_bytes(data)
        whole = [json.loads(line) for line in data.split(b"\n")[:-1]]
        assert list(run.records()) == whole
        run.rewind_log(step)
        kept = [record for record in whole if record.get("step", 0) <= step]
        assert list(run.records()) == kept
        run.log({"step": step + 1})
        assert list(run.records()) == [*kept, {"step": step + 1}]
        assert names(Path(scratch)) == {"config.json", ".lock", "metrics.jsonl"}


def test_a_damaged_line_is_skipped_with_a_warning(run, caplog):
    run.log({"step": 1})
    with run.path("metrics.jsonl").open("ab") as file:
        file.write(b"\0\0\0\n[]\n\xff\n")
    run.log({"step": 2})
    assert list(run.records()) == [{"step": 1}, {"step": 2}]
    assert "metrics.jsonl:2" in caplog.text
    run.rewind_log(9)
    assert run.path("metrics.jsonl").read_bytes() == b'{"step": 1}\n{"step": 2}\n'


def test_a_full_disk_delays_the_log_and_warns_once(run, monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run.log({"step": 1})
    with monkeypatch.context() as fault:
        fault.setattr(run_module, "_append", full)
        for step in range(2, 5):
            run.log({"step": step})
    assert len(run._pending) == 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    run.log({"step": 5})
    assert len(run._pending) == 0
    assert [record["step"] for record in run.records()] == [1, 2, 3, 4, 5]


def test_a_failed_append_leaves_no_partial_line(run):
    resource = pytest.importorskip("resource")
    run.log({"step": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        run.log({"step": 2, "text": "x" * 50})
        assert run.path("metrics.jsonl").read_bytes() == b'{"step": 1}\n'
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    run.log({"step": 3})
    assert [record["step"] for record in run.records()] == [1, 2, 3]


def test_logging_survives_a_removed_folder(run):
    shutil.rmtree(run.folder)
    run.log({"step": 1})
    assert len(run._pending) == 1


# The weights


def test_weights_round_trip_with_metadata(run):
    weight = torch.randn(3, 2)
    run.save_weights({"a": weight, "b": weight}, {"metric": "0.5"})
    run.check_weights({"a": (3, 2), "b": [3, 2]})
    found = run.load_weights()
    assert torch.equal(found["a"], weight)
    assert found["a"] is found["b"]
    assert run.weights_metadata() == {"metric": "0.5"}
    run.save_weights({"a": weight + 1})
    assert torch.equal(run.load_weights()["a"], weight + 1)
    assert names(run.folder) == {"config.json", ".lock", "model.safetensors"}


@pytest.mark.parametrize(
    ("expected", "rule"),
    [
        ({"a": (2, 3)}, r"a has the shape \[3, 2\] instead of \[2, 3\]"),
        ({"a": (3, 2), "b": (1,)}, "b is missing"),
        ({}, "a is not in this model"),
        (dict.fromkeys("bcdefg", (1,)), "b is missing; c is missing; d is missing and 4 more"),
    ],
)
def test_weights_of_another_model_are_refused(run, expected, rule):
    run.save_weights({"a": torch.ones(3, 2)})
    with pytest.raises(ModelError, match=rf"model\.safetensors does not fit the model: {rule}"):
        run.check_weights(expected)


def test_missing_and_non_finite_weights_are_refused(run):
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read: No such file"):
        run.load_weights()
    with pytest.raises(DivergedError, match="a is not finite"):
        run.save_weights({"a": torch.tensor([math.nan])})
    assert not run.path("model.safetensors").exists()


# Differences of configurations


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (CONFIG, []),
        (READ, []),
        ({**CONFIG, "model": {"layers": 2, "size": 16}}, ["model.size: 8 -> 16"]),
        ({**CONFIG, "model": {"layers": 2}}, ["model.size: 8 -> absent"]),
        (
            {**CONFIG, "model": "large"},
            ['model: absent -> "large"', "model.layers: 2 -> absent", "model.size: 8 -> absent"],
        ),
        (
            {**CONFIG, "training": {"rate": 0.001, "betas": [0.9]}},
            ["training.betas: [0.9, 0.98] -> [0.9]", "training.rate: 0.003 -> 0.001"],
        ),
        ({**CONFIG, "name": "ä"}, ['name: "é" -> "ä"']),
        ({**CONFIG, "extra": {}}, ["extra: absent -> {}"]),
    ],
)
def test_differences_are_named_by_key(new, expected):
    assert differences(CONFIG, new) == expected


values = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
configs = st.recursive(
    st.dictionaries(st.sampled_from("xyz"), values, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), values | inner, max_size=3),
    max_leaves=4,
)


@given(old=configs, new=configs)
def test_no_difference_means_the_same_configuration(old, new):
    assert (differences(old, new) == []) == (
        json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    )
    assert len(differences(old, new)) == len(differences(new, old))

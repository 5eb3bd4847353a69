"""A run folder from another person: it runs no code, writes nothing elsewhere, and never hangs."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tiny_runs import make_run

from seqwright import cli, files, load
from seqwright.errors import ModelError, SeqwrightError, WriteError
from seqwright.prediction.verification import verify
from seqwright.runs.card import write_card
from seqwright.runs.folder import MovedError, Run
from seqwright.runs.report import write_report
from seqwright.training import run as training_run

PAYLOAD = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nclass X: pass\n"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("healthy") / "run")


@pytest.fixture
def folder(healthy, tmp_path) -> Path:
    return Path(shutil.copytree(healthy, tmp_path / "run"))


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "config.json"
    table = json.loads(path.read_bytes())
    change(table)
    path.write_text(json.dumps(table))


# Code


NAMES = [
    ("task", lambda table: table.update(task="payload:X")),
    ("model.encoder.score", lambda table: table["model"].update(encoder={"score": "payload:X"})),
    ("model.kind", lambda table: table["model"].update(kind="payload:X")),
    ("training.optimizer", lambda table: table["training"].update(optimizer="payload:X")),
    ("training.schedule.kind", lambda table: table["training"].update(schedule={"kind": "payload:X"})),
    ("training.metric", lambda table: table["training"].update(metric="payload:X")),
    ("tokenizer.source", lambda table: table["tokenizer"].update(source="payload:X")),
]


@pytest.fixture
def importable(folder, monkeypatch) -> Path:
    """Put a module into the run folder that could be imported and marks that it ran."""
    (folder / "payload.py").write_text(PAYLOAD)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "payload", raising=False)
    return folder


@pytest.mark.parametrize(("key", "change"), NAMES, ids=[key for key, _ in NAMES])
def test_no_code_of_a_run_is_imported(importable, capsys, key, change):
    edit(importable, change)
    run, text = str(importable), "ab"
    with pytest.raises(ModelError, match=rf"names code outside of Seqwright \({key} is 'payload:X'\)"):
        load(importable)
    for command in (
        ["predict", run],
        ["evaluate", run],
        ["look", run, text],
        ["verify", run],
        ["report", run],
    ):
        assert cli.main(command) == 3
        printed = capsys.readouterr()
        assert "pass --trust-code" in printed.err + printed.out
    pairs = tiny.reversals(importable.parent / "pairs.tsv")
    for command in (
        ["train", str(pairs), "--out", run],
        ["train", str(pairs), f"start={run}", "--steps", "1"],
    ):
        assert cli.main(command) in (2, 3, 4)
    assert not (importable / "ran").exists()
    assert "payload" not in sys.modules


def test_trusted_code_is_imported_once_the_user_says_so(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_scores.py").write_text(
        "from seqwright.nn.scores import ScaledDot\nclass Mine(ScaledDot): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_scores", raising=False)
    expected = load(folder)("abc")
    for part in ("encoder", "decoder"):
        edit(folder, lambda table, part=part: table["model"].update({part: {"score": "own_scores:Mine"}}))
    with pytest.raises(ModelError, match="trusted=True"):
        load(folder)
    inputs = tmp_path / "in.txt"
    inputs.write_text("abc\n")
    assert cli.main(["predict", str(folder), str(inputs), "--trust-code"]) == 0
    assert capsys.readouterr().out == f"{expected}\n"
    sys.modules.pop("own_scores")
    trusted = load(folder, trusted=True)
    assert trusted("abc") == expected
    assert trusted.look("abc").output == expected  # opens the folder again
    assert load(folder)("abc") == expected  # imported by now: it cannot run again


def test_a_module_that_the_command_names_may_be_named_by_the_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_parts.py").write_text(
        "from seqwright.nn.scores import ScaledDot\nclass Mine(ScaledDot): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    small = [f"model.{key}" for key in ("layers=1", "size=16", "hidden=16", "heads=2")]
    score = "model.encoder.score=own_parts:Mine"
    command = ["train", str(pairs), "--out", str(tmp_path / "run"), "--steps", "2", "--quiet", *small]
    assert cli.main([*command, score]) == 0, capsys.readouterr().err
    sys.modules.pop("own_parts")
    assert cli.main(command) == 3
    assert "names code outside of Seqwright" in capsys.readouterr().err
    assert cli.main([*command, score]) == 0
    sys.modules.pop("own_parts")
    assert cli.main([*command, "--trust-code"]) == 0


# Links, pipes and devices


@pytest.mark.parametrize("write", [write_report, write_card])
@pytest.mark.parametrize("name", ["report.html", "README.md"])
def test_a_link_in_a_run_folder_is_replaced_and_not_followed(folder, tmp_path, write, name):
    private = tmp_path / "private"
    private.write_text("mine")
    (folder / name).symlink_to(private)
    write(folder)
    assert private.read_text() == "mine"


def test_the_lock_of_a_run_is_never_a_link(folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("mine")
    (folder / ".lock").unlink(missing_ok=True)
    (folder / ".lock").symlink_to(keys)
    with pytest.raises(WriteError, match="link"), Run.open(folder).lock():
        pass
    assert keys.read_text() == "mine"


@pytest.mark.parametrize("name", ["checkpoints", "data", "traces", "metrics.jsonl", "data/inputs.json"])
def test_training_refuses_a_run_folder_with_links(tmp_path, capsys, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "inputs.json").write_text("{}")
    pairs, run = tiny.reversals(tmp_path / "pairs.tsv"), tmp_path / "run"
    config = tiny.configuration(pairs, "training.steps=1")
    Run.create(run, config.to_dict())
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(elsewhere / "inputs.json" if "." in name else elsewhere)
    with pytest.raises(WriteError, match=f"{name} is a link"):
        training_run.train(config, run)
    assert (elsewhere / "inputs.json").read_text() == "{}"
    assert sorted(os.listdir(elsewhere)) == ["inputs.json"]


def test_the_log_is_not_appended_to_through_a_link(folder, tmp_path):
    private = tmp_path / "private"
    private.write_text("mine")
    (folder / "metrics.jsonl").symlink_to(private)
    Run.open(folder).log({"step": 1})
    assert private.read_text() == "mine"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_not_read(folder, kind):
    """They would wait for ever, or fill the memory."""
    code = f"""
    import os, shutil, signal, sys
    from pathlib import Path
    from seqwright import cli, load
    from seqwright.errors import SeqwrightError
    for name in ("config.json", "model.safetensors", "tokenizer.source.json", "evaluation.json", "data.json",
                 "metrics.jsonl", "examples.json"):
        folder = Path(shutil.copytree({str(folder)!r}, {str(folder)!r} + "." + name))
        place = folder / name
        place.unlink(missing_ok=True)
        os.mkfifo(place) if {kind!r} == "pipe" else place.symlink_to("/dev/zero")
        signal.alarm(5)
        try:
            load(folder)("ab")
        except SeqwrightError:
            pass
        for command in ("verify", "report"):
            assert cli.main([command, str(folder)]) in (0, 3)
    """
    done = in_little_memory(code)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]


def in_little_memory(
    code: str, gigabytes: float = 3, seconds: float = 30
) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own with limited address space, most of which torch reserves."""
    limit = int(gigabytes * 2**30)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=seconds,
        preexec_fn=limited,
        env=environment,
    )


def test_a_json_file_has_a_limit(folder, monkeypatch):
    monkeypatch.setattr(files, "MOST_JSON", 1000)
    monkeypatch.setattr(files.read_bytes, "__defaults__", (1000,))
    (folder / "config.json").write_bytes(b" " * 1001)
    with pytest.raises(ModelError, match="has more than 1,000 bytes"):
        Run.open(folder)


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_deep_documents_are_refused(folder, depth):
    (folder / "config.json").write_text('{"model": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(ModelError, match=r"levels|is not JSON"):
        load(folder)


# Sizes and types


@pytest.mark.parametrize(
    "sizes",
    [
        {"layers": 1_000_000},
        {"size": 10**9, "heads": 1},
        {"hidden": 10**12},
        {"size": 10**18},
        {"layers": 10**400},
        {"members": 10**6, "kind": "ensemble"},
    ],
)
def test_absurd_sizes_are_refused_before_they_fill_the_memory(folder, sizes):
    edit(folder, lambda table: table["model"].update(sizes))
    code = f"""
    import resource, time
    from seqwright import load
    from seqwright.errors import SeqwrightError
    import seqwright.prediction.predictor
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        load({str(folder)!r})
    except SeqwrightError as error:
        print(error)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000, grown
    assert time.monotonic() - began < 5
    """
    done = in_little_memory(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert len(done.stdout) < 2000


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_weights_must_be_floating_point_numbers(folder, dtype):
    tensors = load_file(folder / "model.safetensors")
    name = next(iter(tensors))
    save_file(tensors | {name: tensors[name].to(dtype)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=f"{name} has the type"):
        load(folder)


@pytest.mark.parametrize("noted", ["abc", "-1", "1e9", "9" * 5000, "²"])
def test_a_wrong_note_of_the_longest_source_is_ignored(folder, noted):
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, folder / "model.safetensors", {"longest_source": noted})
    assert load(folder).trained_length == load(folder).config.data.max_length


@pytest.mark.parametrize("preset", [3, [], {"encoder": 3}, {"encoder": {"kind": []}}, {"kind": {}}, "x"])
def test_a_pinned_preset_of_a_wrong_type_is_one_line(folder, preset):
    edit(folder, lambda table: table["model"].update(preset_model=preset))
    with pytest.raises(SeqwrightError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


# Folders that move


def test_a_folder_that_moves_during_training_stays_whole(tmp_path):
    pairs, run, moved = tiny.reversals(tmp_path / "pairs.tsv"), tmp_path / "run", tmp_path / "moved"
    config = tiny.configuration(pairs, "training.steps=30")
    whole = tmp_path / "whole"
    tiny.train(config, whole)

    def move(report: object) -> None:
        if run.exists():
            run.rename(moved)

    with pytest.raises(MovedError, match="was moved or replaced during the training"):
        tiny.train(config, run, listener=move)
    assert not run.exists()
    assert tiny.train(config, moved).finished
    assert tiny.digest(moved) == tiny.digest(whole)


# Verification


@pytest.mark.parametrize(
    "change", [{"examples": []}, {"weights": ""}, {"weights": None}, {"examples": [{}]}, {"examples": "abc"}]
)
def test_verify_does_not_pass_without_examples_or_hash(folder, change):
    from seqwright.prediction.examples import write_examples

    write_examples(folder, load(folder), ["ab", "abc"])
    assert all(check.passed for check in verify(folder))
    path = folder / "examples.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    assert [check.passed for check in verify(folder)] == [True, True, True, False]

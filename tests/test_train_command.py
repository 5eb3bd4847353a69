"""`seqwright train`: conflicts that are refused before any data is read, and the plan."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from seqwright import cli
from seqwright.commands.train import with_flags

SMALL = [f"model.{option}" for option in ("layers=1", "size=16", "hidden=32", "heads=2")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{a}{b}{c}\t{c}{b}{a}\n" for a in "abcdef" for b in "ghijkl" for c in "mnop"]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "c.toml").write_text('data.train = ["pairs.tsv"]\ntraining.steps = 2\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "3", "training.steps=5"], "--steps and training.steps=5 set the same option"),
        (["--seed", "3", "seed=4"], "--seed and seed=4"),
        (["--valid", "v.tsv", 'data.valid=["w.tsv"]'], "--valid and data.valid="),
        (["c.toml"], "c.toml is a configuration"),
        (["model.foo=1"], "unknown option of the model 'foo'"),
    ],
)
def test_conflicts_are_refused_before_data_is_read(home, capsys, arguments, message) -> None:
    assert cli.main(["train", "pairs.tsv", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "144 pairs" not in error


def test_a_file_is_not_a_run_folder(home, capsys) -> None:
    assert cli.main(["train", "pairs.tsv", "--out", "pairs.tsv"]) == 4
    error = capsys.readouterr().err
    assert "pairs.tsv is a file; choose another folder" in error
    assert "144 pairs" not in error


def test_unknown_families_are_refused_before_data_is_read(home, capsys) -> None:
    assert cli.main(["compare", "--train", "pairs.tsv", "--families", "tiny,foo"]) == 2
    error = capsys.readouterr().err
    assert "unknown preset 'foo'" in error
    assert "144 pairs" not in error


def test_a_plan_refuses_what_training_refuses(home, capsys) -> None:
    assert cli.main(["train", "pairs.tsv", "--steps", "2", *SMALL]) == 0
    capsys.readouterr()
    for plan in ([], ["--plan"]):
        assert cli.main(["train", "pairs.tsv", "--valid", "pairs.tsv", "--steps", "3", *SMALL, *plan]) == 3
        assert "was started with another configuration" in capsys.readouterr().err
    assert cli.main(["train", "pairs.tsv", "--steps", "3", "--plan", *SMALL]) == 0


def test_other_data_in_a_folder_is_refused_before_it_is_read(home, capsys) -> None:
    assert cli.main(["train", "pairs.tsv", "--steps", "1", *SMALL, "--quiet"]) == 0
    Path("pairs.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X", "Y"]}\n' * 40)
    assert cli.main(["train", "pairs.jsonl", "--steps", "1"]) == 3
    error = capsys.readouterr().err
    assert "runs/pairs was started with other data (pairs.tsv, not pairs.jsonl)" in error
    assert "--out runs/pairs-2" in error


def test_flags_override_the_tables() -> None:
    flags = Namespace(task="text_to_text", steps=3, valid=["v.tsv"], test=[], seed=None)
    table = {"seed": 1, "data": {"train": ["t.tsv"]}, "training": {"steps": 9}}
    assert with_flags(table, flags) == {
        "task": "text_to_text",
        "seed": 1,
        "data": {"train": ["t.tsv"], "valid": ["v.tsv"]},
        "training": {"steps": 3},
    }


def test_a_flag_and_a_key_for_the_task_conflict(home, capsys) -> None:
    assert cli.main(["train", "pairs.tsv", "--task", "text_to_text", "task=text_to_text"]) == 2
    assert "--task and task=text_to_text set the same option" in capsys.readouterr().err

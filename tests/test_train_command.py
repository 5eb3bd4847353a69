"""What `seqwright train` refuses before it reads anything, and what its plan promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqwright import cli

SMALL = [f"model.{option}" for option in ("layers=1", "size=16", "hidden=32", "heads=2")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{a}{b}{c}\t{c}{b}{a}\n" for a in "abcdef" for b in "ghijkl" for c in "mnop"]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "c.toml").write_text('data.train = ["pairs.tsv"]\ntraining.steps = 2\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "3", "training.steps=5"], "--steps and training.steps=5 are about the same"),
        (["--seed", "3", "seed=4"], "--seed and seed=4"),
        (["--valid", "v.tsv", 'data.valid=["w.tsv"]'], "--valid and data.valid="),
        (["c.toml"], "c.toml is a configuration"),
        (["model.foo=1"], "unknown option of the model 'foo'"),
    ],
)
def test_what_clashes_is_refused_before_anything_is_read(home, capsys, arguments, words) -> None:
    assert cli.main(["train", "pairs.tsv", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "144 pairs" not in said


def test_a_file_is_no_run_folder(home, capsys) -> None:
    assert cli.main(["train", "pairs.tsv", "--out", "pairs.tsv"]) == 4
    said = capsys.readouterr().err
    assert "pairs.tsv is a file; choose another folder" in said
    assert "144 pairs" not in said


def test_families_are_refused_before_anything_is_read(home, capsys) -> None:
    assert cli.main(["compare", "--train", "pairs.tsv", "--families", "tiny,foo"]) == 2
    said = capsys.readouterr().err
    assert "unknown preset 'foo'" in said
    assert "144 pairs" not in said


def test_a_plan_promises_nothing_that_the_training_refuses(home, capsys) -> None:
    assert cli.main(["train", "pairs.tsv", "--steps", "2", *SMALL]) == 0
    capsys.readouterr()
    for plan in ([], ["--plan"]):
        assert cli.main(["train", "pairs.tsv", "--valid", "pairs.tsv", "--steps", "3", *SMALL, *plan]) == 3
        assert "was begun with another configuration" in capsys.readouterr().err
    assert cli.main(["train", "pairs.tsv", "--steps", "3", "--plan", *SMALL]) == 0

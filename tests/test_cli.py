"""The command line as somebody uses it: what it prints, what it leaves, and the codes it leaves with."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from seqwright import cli
from seqwright.run import Run

SMALL = [
    "model.layers=1",
    "model.size=16",
    "model.hidden=32",
    "model.heads=2",
    "training.decode=4",
    "threads=1",
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    words = [f"{a}{b}{c}" for a in "abcdef" for b in "ghijkl" for c in "mnop"]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{word}\t{' '.join(reversed(word))}\n" for word in words), encoding="utf-8")
    return path


def test_help_is_quick_and_loads_no_torch() -> None:
    code = "import sys\nfrom seqwright import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code + "assert 'torch' not in sys.modules"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < 2  # 0.04 s; a loaded machine may take longer
    assert all(verb in done.stdout for verb in cli.VERBS)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([verb, "--help"])
    assert left.value.code == 0
    assert f"seqwright {verb}" in capsys.readouterr().out


def test_from_pairs_to_predictions(pairs: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    assert cli.main(["train", str(pairs), "--out", str(out), "--steps", "8", *SMALL]) == 0
    said = capsys.readouterr().err
    assert "144 pairs" in said
    assert "symbols between spaces" in said
    assert "finished at step 8" in said
    assert len(validated := [line for line in said.splitlines() if "valid loss" in line]) == len(
        set(validated)
    )
    assert Run.open(out).load_weights()
    (tmp_path / "words.txt").write_text("agm\n\nfoo\u2028bar\nzzz", encoding="utf-8")
    assert cli.main(["predict", str(out), str(tmp_path / "words.txt"), "--beam", "2"]) == 0
    assert capsys.readouterr().out.count("\n") == 4  # one line out for each line in, whatever it holds


def test_the_same_command_finds_it_finished(pairs: Path, tmp_path: Path, capsys) -> None:
    command = ["train", str(pairs), "--out", str(tmp_path / "run"), "--steps", "2", "--quiet", *SMALL]
    assert cli.main(command) == 0
    weights = tmp_path / "run" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert cli.main(command) == 0
    assert weights.stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""


def test_a_printed_configuration_can_be_run(pairs: Path, tmp_path: Path, capsys) -> None:
    assert cli.main(["train", str(pairs), "--steps", "2", "--print-config", "--quiet", *SMALL]) == 0
    text = capsys.readouterr().out
    config = tmp_path / "config.toml"
    config.write_text(text, encoding="utf-8")
    assert cli.main(["train", str(config), "--print-config"]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["train", "nowhere.tsv"], 2, "nowhere.tsv does not exist"),
        (["train", "{pairs}", "modle.layers=2"], 2, "did you mean 'model'"),
        (["train", "{pairs}", "training.smoothing=3"], 2, "training.smoothing is 3"),
        (["train", "{pairs}", "--columns", "9:1"], 2, "9"),
        (["predict", "{tmp}"], 3, "is not a run"),
        (["train", "{pairs}", "--steps", "1", "--out", "{pairs}"], 4, "cannot be written"),
    ],
)
def test_an_error_is_one_line_and_a_code(arguments, code, part, pairs: Path, tmp_path: Path, capsys) -> None:
    filled = [text.format(pairs=pairs, tmp=tmp_path) for text in arguments]
    assert cli.main(filled if "predict" in filled else [*filled, "--quiet"]) == code
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1


def test_a_plan_is_a_product_and_a_training_is_none(pairs: Path, tmp_path: Path, capsys) -> None:
    assert (
        cli.main(["train", str(pairs), "--plan", "--out", str(tmp_path / "run"), "--steps", "8", *SMALL]) == 0
    )
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "144 pairs" in printed.out
    assert "parameters; " in printed.out.splitlines()[-1]
    assert not (tmp_path / "run").exists()

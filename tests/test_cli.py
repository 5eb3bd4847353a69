"""Command line: its output, its files and its exit codes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tiny_runs import make_run

from seqwright import cli
from seqwright.commands.demo import OF_KIND
from seqwright.config.presets import PRESETS
from seqwright.data import demos
from seqwright.data.task import TASKS
from seqwright.runs.folder import Run

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


def test_help_is_fast_and_does_not_import_torch() -> None:
    code = "import sys\nfrom seqwright import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code + "assert 'torch' not in sys.modules"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < 2  # 0.04 s; a loaded machine may take longer
    assert all(command in done.stdout for command in cli.COMMANDS)


@pytest.mark.parametrize(
    ("option", "hint"), [("--stepps", "; did you mean --steps?"), ("--zzz", ""), ("--treads=2", "--threads?")]
)
def test_a_wrong_option_is_named_with_the_nearest_one(option: str, hint: str, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "pairs.tsv", option, "3"])
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert hint in error
    assert ("did you mean" in error) == bool(hint)


def test_warnings_are_lines_of_the_command_and_few_of_a_kind(capsys, monkeypatch) -> None:
    def run(options: object) -> None:
        for number in (1, 1, 2, 3, 4, 5):
            logging.getLogger("seqwright.tasks").warning("text %d is odd", number)
        logging.getLogger("seqwright.tasks").warning("another")

    monkeypatch.setattr("seqwright.commands.presets.run", run)
    assert cli.main(["presets"]) == 0
    odd = [f"seqwright: text {number} is odd" for number in (1, 2, 3)]
    more = "seqwright: more warnings of this kind are not shown"
    assert capsys.readouterr().err.splitlines() == [*odd, more, "seqwright: another"]
    assert not logging.getLogger("seqwright").handlers


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([command, "--help"])
    assert left.value.code == 0
    assert f"seqwright {command}" in capsys.readouterr().out


def test_the_presets_are_listed_by_a_task_that_takes_them(capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["presets"]) == 0
    blocks = [block.splitlines() for block in capsys.readouterr().out.split("\n\n")]
    listed = {task: {line.split()[0] for line in lines if line[2:3].strip()} for task, *lines in blocks}
    assert {name for names in listed.values() for name in names} == PRESETS.keys()
    for task, names in listed.items():
        assert {PRESETS[name].kind for name in names} <= set(TASKS.get(task).models)


def test_from_pairs_to_predictions(pairs: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    assert cli.main(["train", str(pairs), "--out", str(out), "--steps", "8", *SMALL]) == 0
    error = capsys.readouterr().err
    assert "144 pairs" in error
    assert "symbols between spaces" in error
    assert "finished at step 8" in error
    validated = [line for line in error.splitlines() if "valid loss" in line]
    assert len(validated) == len(set(validated))
    assert Run.open(out).load_weights()
    (tmp_path / "words.txt").write_text("agm\n\nfoo\u2028bar\nzzz", encoding="utf-8")
    assert cli.main(["predict", str(out), str(tmp_path / "words.txt"), "--beam", "2"]) == 0
    assert capsys.readouterr().out.count("\n") == 4  # one line out for each line in, whatever it contains


def test_the_same_command_does_not_train_a_finished_run_again(pairs: Path, tmp_path: Path, capsys) -> None:
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
        (["train", "{pairs}", "--task", "translation"], 2, "did you mean 'text_to_text'"),
        (["train", "{pairs}", "--task", "NER"], 2, "did you mean 'token_classification'"),
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


FULL = "seqwright: standard output cannot be written: No space left on device; free space or redirect it\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("cli") / "run")


def with_full_output(arguments: list[str]) -> tuple[int, str]:
    """Run a command in a fork whose standard output is full; return its exit code and standard error."""
    with tempfile.TemporaryFile() as error:
        if (child := os.fork()) == 0:
            try:
                os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
                os.dup2(error.fileno(), 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
                os._exit(cli.main(arguments))
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        error.seek(0)
        return code, error.read().decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["train", "--help"],
        ["describe"],
        ["describe", "training", "--json"],
        ["presets"],
        ["doctor", "{pairs}"],
        ["doctor", "{pairs}", "--json"],
        ["train", "{pairs}", "--print-config", *SMALL],
        ["predict", "{run}", "{pairs}"],
        ["evaluate", "{run}", "{pairs}"],
        ["look", "{run}", "abc"],
        ["look", "{run}", "abc", "--json"],
        ["heads", "{run}", "--data", "{pairs}", "--pairs", "3"],
        ["verify", "{run}"],
    ],
)
def test_a_full_standard_output_is_one_line_and_exit_4(arguments, pairs: Path, model: Path) -> None:
    code, error = with_full_output([text.format(pairs=pairs, run=model) for text in arguments])
    assert (code, error) == (4, FULL)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["describe"]])
def test_a_full_standard_output_is_reported_once(arguments: list[str], unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "ignore", "-m", "seqwright", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
        )
    assert (done.returncode, done.stderr) == (4, FULL)


def test_the_order_of_other_output_is_kept() -> None:
    code = "from seqwright import cli\nprint('before')\ntry: cli.main(['--version'])\nfinally: print('after')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["before", "seqwright", "after"]


def test_a_closed_standard_output_is_not_an_error() -> None:
    command = f"'{sys.executable}' -m seqwright --version >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plan_is_printed_to_standard_output_and_trains_nothing(pairs: Path, tmp_path: Path, capsys) -> None:
    assert (
        cli.main(["train", str(pairs), "--plan", "--out", str(tmp_path / "run"), "--steps", "8", *SMALL]) == 0
    )
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "144 pairs" in printed.out
    assert "parameters; " in printed.out.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_the_demo_accepts_a_kind_of_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(demos.DEMOS, "pronounce", lambda: demos.reverse(300))
    assert cli.main(["demo", "--task", "text_to_text", "--minutes", "0.03", "--out", str(tmp_path)]) == 0
    assert Run.exists(tmp_path / "pronounce")


def test_demos_belong_to_kinds_of_tasks() -> None:
    assert OF_KIND.keys() <= set(TASKS.names())
    assert set(OF_KIND.values()) <= demos.DEMOS.keys()

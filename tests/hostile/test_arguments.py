"""Arguments of Python calls and of the command line: wrong ones are one line, never a bare exception."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tiny_runs import make_run

import seqwright
from seqwright import cli
from seqwright.data.text_display import printable
from seqwright.errors import SeqwrightError
from seqwright.prediction.bulk.output import StandardOutput

ESCAPES = "\x1b[31m\x07\r\u202e\u2066\u2028\x9b"
OBEYED = set(ESCAPES) - set("[31m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("arguments") / "run")


@pytest.fixture(scope="module")
def model(folder):
    return seqwright.load(folder)


WRONG = {
    "temperature": lambda model: model.predict("ab", temperature="x"),
    "no prefix": lambda model: model.predict("ab", prefix=None),
    "prefix": lambda model: model.predict("ab", prefix=3),
    "prefixes": lambda model: model.predict(["ab"], prefix=[3]),
    "n_best": lambda model: model.predict("ab", n_best=None),
    "sample": lambda model: model.predict("ab", sample="yes"),
    "options": lambda model: model.predict("ab", options=3),
    "beam of look": lambda model: model.look("ab", beam="x"),
    "reference": lambda model: model.look("ab", reference=3),
    "member": lambda model: model.look("ab", member="x"),
    "NUL in a path": lambda model: seqwright.load("a\0b"),
    "number for a path": lambda model: seqwright.load(3),
    "no path": lambda model: seqwright.load(None),
    "threads": lambda model: seqwright.load(model.folder, threads="x"),
    "no threads": lambda model: seqwright.load(model.folder, threads=0),
    "NUL in out": lambda model: seqwright.train([("a", "b")] * 30, out="a\0b"),
    "NUL in train": lambda model: seqwright.train("a\0b"),
    "NUL in valid": lambda model: seqwright.train(str(model.folder / "config.json"), valid="a\0b"),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_one_line(model, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SeqwrightError) as caught:
        call(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pairs", [[("a", "b")], [("a", "b"), ("a",)], [("a", 3)], []])
def test_a_refused_training_from_memory_leaves_no_files(tmp_path, monkeypatch, pairs):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SeqwrightError):
        seqwright.train(pairs, quiet=True)
    assert list(tmp_path.rglob("*")) == []


def test_a_refused_training_keeps_the_file_of_an_earlier_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_bytes(b'{"source": "a", "target": "b"}\n')
    with pytest.raises(SeqwrightError):
        seqwright.train([("a", "b")], out="run", quiet=True)
    assert Path("run.jsonl").exists()


def test_names_after_two_dashes_are_not_options(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("-x.txt").write_text("ab\n")
    assert cli.main(["predict", str(folder), "--", "-x.txt"]) == 0
    expected = capsys.readouterr().out
    assert cli.main(["predict", "--beam", "3", "--", str(folder), "-x.txt"]) == 0
    assert capsys.readouterr().out == expected
    Path("-x.tsv").write_text("ab\n")
    assert cli.main(["doctor", "--", "-x.tsv"]) == 2
    assert "-x.tsv" in capsys.readouterr().err
    assert cli.main(["train", "--", "--no.tsv"]) == 2
    assert capsys.readouterr().err == "seqwright: --no.tsv does not exist\n"


@pytest.mark.parametrize("descriptor", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_no_bug(folder, tmp_path, descriptor):
    inputs = tmp_path / "in.txt"
    inputs.write_text("ab\n")
    source = "" if "<" in descriptor else str(inputs)
    command = f"{sys.executable} -m seqwright predict {folder} {source} {descriptor}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if "<" in descriptor else 0), done.stderr


# The terminal


def test_a_printed_line_has_no_characters_that_a_terminal_obeys():
    shown = printable(f"a{ESCAPES}b é हिन्दी 👩‍👩‍👧 – ━")
    assert not OBEYED & set(shown)
    assert shown.startswith("a\\x1b[31m\\x07\\r\\u202e")
    assert shown.endswith("b é हिन्दी 👩‍👩‍👧 – ━")


def printed_by(capsys, *command: str) -> str:
    with suppress(SystemExit):
        cli.main(command)
    printed = capsys.readouterr()
    return printed.out + printed.err


def test_names_from_files_are_escaped_in_messages(folder, tmp_path, capsys):
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_bytes())
    (copy / "config.json").write_text(json.dumps({**config, "run": f"id{ESCAPES}"}))
    texts = [printed_by(capsys, "verify", str(copy))]  # the run id
    (copy / "config.json").write_text(json.dumps({**config, f"key{ESCAPES}": 1}))
    texts.append(printed_by(capsys, "predict", str(copy)))
    (copy / "config.json").write_text(json.dumps(config))
    tensors = load_file(copy / "model.safetensors")
    save_file(tensors | {f"name{ESCAPES}": torch.zeros(1)}, copy / "model.safetensors")
    texts.append(printed_by(capsys, "predict", str(copy)))
    texts.append(printed_by(capsys, "predict", str(folder), f"file{ESCAPES}"))
    texts.append(printed_by(capsys, "evaluate", str(folder), f"file{ESCAPES}.tsv"))
    texts.append(printed_by(capsys, f"command{ESCAPES}"))
    for text in texts:
        assert "\\x1b" in text, text
        assert not OBEYED & set(text), text


def test_the_next_commands_are_escaped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pairs = tiny.write_pairs(
        Path(f"x{ESCAPES}.tsv".replace("\r", "").replace("\u2028", "")),
        [(f"{word}\x1b\u202e", word) for word in tiny.words(120)],
    )
    small = [f"model.{key}" for key in ("layers=1", "size=16", "hidden=16", "heads=2")]
    assert cli.main(["train", str(pairs), "--steps", "1", "model.preset=tiny", *small]) == 0
    printed = capsys.readouterr().err
    assert "next:" in printed
    assert not OBEYED & set(printed)


def test_outputs_are_escaped_only_on_a_terminal(monkeypatch, capfdbinary):
    line = f"a{ESCAPES}b\n".encode()
    StandardOutput().write([line])
    assert capfdbinary.readouterr().out == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    StandardOutput().write([line])
    assert b"\x1b" not in capfdbinary.readouterr().out

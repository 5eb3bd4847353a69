"""`seqwright predict` as somebody uses it: one line in, one line out, whatever happens in between."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import make_run, words

from seqwright import cli, files
from seqwright.data.fields import SYMBOL
from seqwright.data.read_report import Tally
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding
from seqwright.errors import ConfigError
from seqwright.prediction import predictor as predicting
from seqwright.prediction.bulk import blocks
from seqwright.prediction.bulk.blocks import Share, line_blocks
from seqwright.prediction.predictor import load

NASTY = ["abc", "", "foo\u2028bar", " ", "\u0085\x0b\x0cabc", "☃", "a\tb", '"', "</s> <pad>", "fgh"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    return str(make_run(tmp_path_factory.mktemp("command") / "run"))


@pytest.fixture
def small_blocks(monkeypatch) -> int:
    for module in (blocks, predicting):
        monkeypatch.setattr(module, "BLOCK", 4)
    return 4


@pytest.fixture
def inputs(tmp_path) -> Path:
    return write(tmp_path / "in.txt", words(30))


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def predict(*arguments: object, code: int = 0) -> None:
    assert cli.main(["predict", *map(str, arguments)]) == code


# Lines ------------------------------------------------------------------------------------------------


def test_one_line_in_one_line_out(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", NASTY))
    lines = capsysbinary.readouterr().out.decode().split("\n")
    assert lines.pop() == ""
    assert lines == load(run)(NASTY)
    assert [bool(line) for line in lines[:4]] == [True, False, True, False]


def test_a_last_line_without_an_end_counts_and_packed_files_are_read(run, tmp_path, capsysbinary):
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress(b"abc\r\nfgh"))
    predict(run, packed)
    out, error = capsysbinary.readouterr()
    assert out.decode().split("\n") == [*load(run)(["abc", "fgh"]), ""]
    assert b"carriage return" in error  # no change of the input goes unsaid


def test_who_gives_a_text_for_a_file_is_told_where_texts_go(run, capsys):
    assert cli.main(["predict", str(run), "it's me"]) == 2
    said = capsys.readouterr().err
    command = said.split("by standard input: ")[1]
    assert shlex.split(command) == ["echo", "it's me", "|", "seqwright", "predict", str(run)]
    assert said.count("\n") == 1


def test_the_best_outputs_of_a_line_stand_on_it(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", ["abc", "", "dd"]), "--nbest", 3)
    lines = capsysbinary.readouterr().out.decode().split("\n")
    expected = load(run).predict(["abc", "", "dd"], n_best=3)
    assert lines == ["\t".join(each.text for each in found.all) for found in expected] + [""]


def test_json_has_one_object_for_each_line(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", NASTY), "--json", "--nbest", 2, "--beam", 4)
    objects = [json.loads(line) for line in capsysbinary.readouterr().out.decode().split("\n")[:-1]]
    assert [each["source"] for each in objects] == ["" if line.isspace() else line for line in NASTY]
    for each in (objects[0], *objects[0]["alternatives"]):
        assert sum(each["token_scores"]) == pytest.approx(each["log_prob"], abs=1e-5)
        assert each["finish_reason"] in ("end", "length")
        assert "".join(each["tokens"]) == each["output"]
    assert objects[5]["reading"] == {"tokens": 1, "unknown": 1, "unread": 0}


def test_a_prefix_and_a_length_are_kept(run, inputs, capsysbinary):
    predict(run, inputs, "--prefix", "HG", "--max-length", 3)
    lines = capsysbinary.readouterr().out.decode().split("\n")[:-1]
    assert all(line.startswith("HG") and len(line) <= 3 for line in lines)


def test_lines_of_other_encodings_are_read_or_refused_with_the_flag_to_give(run, tmp_path, capsysbinary):
    path = tmp_path / "in.txt"
    path.write_bytes("abc\nmäh\n".encode("latin-1"))
    predict(run, path, code=2)
    out, error = capsysbinary.readouterr()
    assert b"--encoding latin-1" in error
    assert out == b""  # found before anything was answered
    predict(run, path, "--encoding", "latin-1")
    assert capsysbinary.readouterr().out.count(b"\n") == 2


# Options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--beam", "0"], ["--beam is 0"]),
        (["--beam", "2", "--nbest", "3"], ["--nbest is 3, it must be at most --beam, 2"]),
        (["--sample", "--beam", "2"], ["--beam is 2, which is for a beam", "leave one of them out"]),
        (["--length-penalty", "11"], ["--length-penalty is 11"]),
        (["--beam", "0", "--top-p", "5"], ["--beam is 0, it must be a whole number from 1", "--top-p is 5"]),
        (["--nbest", "0", "--sample", "--max-length", "0"], ["--nbest is 0, it must", "--max-length is 0"]),
        (["--temperature", "nan"], ["temperature is nan"]),
        (["--temperature", "-1"], ["temperature is -1"]),
        (["--top-p", "0"], ["--top-p is 0"]),
        (
            ["--top-p", "1.1", "--top-k", "-2", "--threads", "0"],
            ["--top-p is 1.1", "--top-k is -2", "--threads is 0"],
        ),
        (["--shard", "3/2", "--encoding", "klingon"], ["--shard is '3/2'", "'klingon' is unknown"]),
        (["--seed", "1"], ["--seed is 1"]),
        (["--shard", "1/2"], ["standard input cannot be divided"]),
    ],
)
def test_58_bad_options_are_named_all_at_once(run, options, parts, capsys):
    predict(run, *options, code=2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(part in error for part in parts)


def test_temperature_zero_is_greedy(run, inputs, capsysbinary):
    predict(run, inputs, "--temperature", 0)
    cold = capsysbinary.readouterr().out
    predict(run, inputs, "--beam", 1)
    assert capsysbinary.readouterr().out == cold


def test_every_line_draws_for_itself(run, tmp_path, small_blocks, capsysbinary):
    """Also in another block: the same source again is not the same luck again."""
    predict(run, write(tmp_path / "in.txt", ["abcdef"] * 12), "--sample", "--seed", 7)
    lines = capsysbinary.readouterr().out.split(b"\n")[:-1]
    assert len({tuple(lines[k : k + 4]) for k in (0, 4, 8)}) == 3


# What must be said ------------------------------------------------------------------------------------


def test_21_foreign_input_is_remarked_once(run, tmp_path, small_blocks, capsysbinary):
    predict(run, write(tmp_path / "in.txt", ["日本語", "абв"] * 9))
    assert capsysbinary.readouterr().err.decode().count("100 % unknown symbols: wrong language") == 1
    predict(run, write(tmp_path / "in.txt", ["abcd日", "a"]))
    said = capsysbinary.readouterr().err.decode()
    assert "1 line has symbols that the model does not know, as “日” (" in said
    assert "in.txt:1" in said
    assert said.count("\n") == 1


def test_a_file_of_pairs_in_the_place_of_sources_is_remarked(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", ["ab\tba", "a", "cd\tdc"]))
    printed = capsysbinary.readouterr()
    assert printed.out.count(b"\n") == 3
    assert "2 lines have a tab but the model takes one text: is this a file of pairs?" in printed.err.decode()


def test_55_long_lines_are_counted_and_named(tmp_path, capsysbinary):
    position = {"kind": "learned", "length": 7}
    folder = make_run(tmp_path / "run", model={"position": position}, data={"max_length": 4})
    path = write(tmp_path / "in.txt", ["abcd", "abcdefgh", "abcde", "abcdefg"])
    predict(folder, path)
    out, error = capsysbinary.readouterr()
    assert out.count(b"\n") == 4
    said = error.decode().split("\n")
    assert (
        f"2 lines are longer than the 6 tokens that are read: the rest was left out ({path}:2, {path}:4)"
        in said[0]
    )
    assert "1 line is longer than any source in training, of 4 tokens at most: read whole, but" in said[1]
    assert f"({path}:3)" in said[1]


def test_fields_are_separated_by_tabs_and_missing_ones_named(tmp_path, capsysbinary):
    folder = make_run(tmp_path / "run", ending=f"{SYMBOL}V{SYMBOL}PST", data={"columns": "1,3+:2"})
    predict(folder, write(tmp_path / "in.txt", ["abc\tV;PST", "", "dd\tV"]))
    expected = load(folder)([("abc", "V;PST"), "", ("dd", "V")])
    assert capsysbinary.readouterr().out.decode().split("\n") == [*expected, ""]
    path = write(tmp_path / "in.txt", ["abc\tV;PST", "dd"])
    predict(folder, path, code=2)
    out, error = capsysbinary.readouterr()
    assert f"{path}:2: 1 field where the model takes 2 (text, symbols)" in error.decode()
    assert out == b""


# Shares -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 30, 31])
@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shares_cover_every_line_once(count, of, small_blocks):
    shares = [Share(number, of).lines(count) for number in range(1, of + 1)]
    assert [line for share in shares for line in share] == list(range(count))
    if count >= small_blocks * of:
        assert all(share.start % small_blocks == 0 for share in shares)
    else:
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("options", [["--json"], ["--sample", "--seed", "3", "--json"]])
def test_the_shards_in_order_are_the_whole(run, inputs, tmp_path, small_blocks, options):
    whole, out = tmp_path / "whole.txt", tmp_path / "out.txt"
    predict(run, inputs, "--output", whole, *options)
    for number in (2, 1, 3):
        predict(run, inputs, "--output", out, "--shard", f"{number}/3", *options)
    parts = [out.with_name(f"out.txt.{number}-of-3").read_bytes() for number in (1, 2, 3)]
    assert b"".join(parts) == whole.read_bytes()
    assert all(parts)
    assert (
        sorted(path.name for path in tmp_path.iterdir() if "part" in path.name or path.name.startswith("."))
        == []
    )


def test_the_names_of_shards_sort_as_the_shares_do():
    names = [Share(number, 12).path(Path("out")).name for number in range(1, 13)]
    assert names == sorted(names)
    assert Share(2, 3).path(Path("a/out.txt")) == Path("a/out.txt.2-of-3")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ConfigError, match="i/n"):
        Share.parse(text)


# Killed and run again ---------------------------------------------------------------------------------


def killed(arguments: list[str], point: str, times: int) -> None:
    """A copy of this process runs the command and kills itself when the point is reached so many times."""
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        left = times

        def hook(name: str) -> None:
            nonlocal left
            left -= name == point
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        files.hook = hook
        os._exit(cli.main(arguments))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.fixture
def answered(monkeypatch) -> Callable[[], int]:
    """How many sources the model was asked for."""
    asked: list[int] = []
    original = predicting.Predictor.stream

    def stream(self, texts, **options):
        asked.append(len(texts))
        return original(self, texts, **options)

    monkeypatch.setattr(predicting.Predictor, "stream", stream)
    return lambda: sum(asked)


@pytest.mark.parametrize(
    ("point", "times", "kept"),
    [
        ("predict:written", 1, 0),
        ("predict:written", 3, 8),
        ("predict:note:renamed", 2, 8),
        ("predict:note:written", 4, 12),
        ("predict:note:renamed", 8, 30),
    ],
)
def test_40_a_killed_job_goes_on_to_the_same_bytes(
    run, inputs, tmp_path, small_blocks, answered, point, times, kept
):
    whole, out = tmp_path / "whole.txt", tmp_path / "out.txt"
    predict(run, inputs, "--output", whole, "--json")
    killed(["predict", run, str(inputs), "--output", str(out), "--json"], point, times)
    assert not out.exists()
    with (tmp_path / "out.txt.part").open("ab") as torn:
        torn.write(b'{"source": "to')
    before = answered()
    predict(run, inputs, "--output", out, "--json")
    assert answered() - before == 30 - kept
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("out.txt.*"))


def test_a_job_killed_at_its_end_is_done_again_at_worst(run, inputs, tmp_path, small_blocks):
    out = tmp_path / "out.txt"
    killed(["predict", run, str(inputs), "--output", str(out)], "predict:renamed", 1)
    first = out.read_bytes()
    predict(run, inputs, "--output", out)
    assert out.read_bytes() == first


@pytest.mark.parametrize("change", ["options", "input", "weights"])
def test_what_was_begun_for_another_job_is_not_mixed(run, inputs, tmp_path, small_blocks, change, capsys):
    folder, out = shutil.copytree(run, tmp_path / "run"), tmp_path / "out.txt"
    killed(["predict", str(folder), str(inputs), "--output", str(out)], "predict:note:renamed", 2)
    if change == "input":
        write(inputs, words(30, seed=1))
    if change == "weights":
        (folder / "model.safetensors").write_bytes(changed_weights(tmp_path, folder))
    more = ["--beam", 2] if change == "options" else []
    predict(folder, inputs, "--output", out, *more, code=4)
    assert f"was begun with other {change};" in capsys.readouterr().err
    assert not (tmp_path / "out.txt.part.lock").exists()
    (tmp_path / "out.txt.part").unlink()
    predict(folder, inputs, "--output", out, *more)
    assert out.read_text().count("\n") == 30


def changed_weights(tmp_path: Path, folder: Path) -> bytes:
    from seqwright.runs.folder import Run

    weights = Run.open(folder).load_weights()
    other = Run.create(tmp_path / "other", {})
    other.save_weights({name: weight * 1.01 for name, weight in weights.items()})
    return (tmp_path / "other" / "model.safetensors").read_bytes()


def test_an_output_that_cannot_be_written_is_exit_4(run, inputs, tmp_path, capsys):
    predict(run, inputs, "--output", tmp_path, code=4)
    predict(run, inputs, "--output", inputs / "out.txt", code=4)
    assert capsys.readouterr().err.count("\n") == 2


def test_an_output_behind_a_link_is_made_and_gone_on_with_there(
    run, inputs, tmp_path, small_blocks, answered
):
    place, link = tmp_path / "far" / "out.txt", tmp_path / "link.txt"
    place.parent.mkdir()
    place.write_text("old")
    link.symlink_to(place)
    killed(["predict", run, str(inputs), "--output", str(link)], "predict:note:renamed", 2)
    assert place.read_text() == "old"
    predict(run, inputs, "--output", link)
    assert answered() == 30 - 8
    assert link.is_symlink()
    assert place.read_text().count("\n") == 30
    assert [path.name for path in place.parent.iterdir()] == ["out.txt"]


def test_a_pipe_can_be_no_output_that_is_gone_on_with(run, inputs, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        predict(run, inputs, "--output", tmp_path / name, code=4)
        assert (
            "is a pipe, a device or standard output, and no file that can be gone on with; leave it out"
            in (capsys.readouterr().err)
        )
    assert (tmp_path / "pipe").is_fifo()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("name", ["in.txt", "link", "in.txt.part", "in.txt.part.json"])
def test_an_output_never_takes_the_place_of_the_input(run, inputs, tmp_path, name, capsys):
    """Nor do the files beside it, while it is made."""
    (tmp_path / "link").symlink_to(inputs)
    source = shutil.copy(inputs, tmp_path / name) if ".part" in name else inputs
    output = inputs if ".part" in name else tmp_path / name
    content = inputs.read_text()
    predict(run, source, "--output", output, code=2)
    assert "is one of the files that are read" in capsys.readouterr().err
    assert inputs.read_text() == Path(source).read_text() == content
    predict(run, source, "--output", output, "--shard", "1/2")  # which has a name of its own
    assert inputs.read_text() == content


def test_a_place_where_nothing_can_be_is_refused_before_the_model_is_loaded(
    inputs, tmp_path, monkeypatch, capsys
):
    missing = tmp_path / "no" / "out.txt"
    predict("no run", inputs, "--output", missing, code=4)
    assert f"{missing} cannot be written: there is no folder {missing.parent}; make it first" in (
        capsys.readouterr().err
    )
    assert not missing.parent.exists()
    monkeypatch.setattr(files.os, "access", lambda *_: False)  # root may write everywhere
    predict("no run", inputs, "--output", tmp_path / "out.txt", code=4)
    said = capsys.readouterr().err
    assert f"nothing may be added to {tmp_path}; choose another folder" in said
    assert ".lock" not in said


def test_an_output_that_another_process_makes_is_named(run, inputs, tmp_path, capsys):
    out = tmp_path / "out.txt"
    with files.locked(tmp_path / "out.txt.part.lock"):
        predict(run, inputs, "--output", out, code=4)
    assert f"seqwright: {out} is in use by process {os.getpid()}" in capsys.readouterr().err


# Blocks and pipes -------------------------------------------------------------------------------------


def test_a_block_is_bounded_in_lines_and_in_characters(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(blocks, "CHARACTERS", 100)
    lines = ["a"] * 5 + ["b" * 101] + ["c"] * 5
    path = write(tmp_path / "in.txt", lines)
    found = list(line_blocks(Input(path), Decoding(), Tally()))
    assert [line for block in found for line in block.lines] == lines
    assert [(block.first, len(block.lines)) for block in found] == [(0, 4), (4, 2), (6, 2), (8, 3)]
    again = list(line_blocks(Input(path), Decoding(), Tally(), range(4, 9)))
    assert [(block.first, len(block.lines)) for block in again] == [(4, 2), (6, 2), (8, 1)]


def test_a_pipe_hands_on_what_has_come(tmp_path):
    """The next line of a slow writer need not come for the one before to be read, however short it is."""
    reader, writer = os.pipe()
    found = line_blocks(Input(f"/dev/fd/{reader}"), Decoding(), Tally())
    for number, line in enumerate(["a", "", "bc"]):
        os.write(writer, f"{line}\n".encode())
        assert next(found) == (number, [line])
    os.close(writer)
    assert list(found) == []
    os.close(reader)


def test_39_a_line_is_answered_as_it_comes_in_any_locale_and_a_closed_pipe_is_quiet(run):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "seqwright.cli", "predict", run, "--threads", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in ("a", "☃"):
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")  # before anything else is said
        process.stdout.close()
        process.stdin.write(b"abc\n")
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGPIPE
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()

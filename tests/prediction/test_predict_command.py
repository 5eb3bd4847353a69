"""`seqwright predict`: one line in, one line out, also after a kill and with odd input."""

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
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding
from seqwright.errors import ConfigError
from seqwright.prediction import predictor as predicting
from seqwright.prediction.bulk import blocks
from seqwright.prediction.bulk.blocks import Shard, line_blocks
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


def test_a_last_line_without_newline_counts_and_compressed_files_are_read(run, tmp_path, capsysbinary):
    compressed = tmp_path / "in.gz"
    compressed.write_bytes(gzip.compress(b"abc\r\nfgh"))
    predict(run, compressed)
    out, error = capsysbinary.readouterr()
    assert out.decode().split("\n") == [*load(run)(["abc", "fgh"]), ""]
    assert b"carriage return" in error  # every change of the input is reported


def test_a_text_with_a_space_is_an_input(run, capsys):
    assert cli.main(["predict", str(run), "ab cd"]) == 0
    assert capsys.readouterr().out == load(run)("ab cd") + "\n"


@pytest.mark.parametrize("name", ["it's", "my words.txt"])
def test_a_word_in_place_of_a_file_gets_a_hint(run, name, capsys):
    assert cli.main(["predict", str(run), name]) == 2
    error = capsys.readouterr().err
    command = error.split("on standard input: ")[1]
    assert shlex.split(command) == ["echo", name, "|", "seqwright", "predict", str(run)]
    assert error.count("\n") == 1


def test_nbest_outputs_are_on_one_line(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", ["abc", "", "dd"]), "--nbest", 3)
    lines = capsysbinary.readouterr().out.decode().split("\n")
    expected = load(run).predict(["abc", "", "dd"], n_best=3)
    assert lines == ["\t".join(each.text for each in found.all) for found in expected] + [""]


def test_json_has_one_object_per_line(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", NASTY), "--json", "--nbest", 2, "--beam", 4)
    objects = [json.loads(line) for line in capsysbinary.readouterr().out.decode().split("\n")[:-1]]
    assert [each["source"] for each in objects] == ["" if line.isspace() else line for line in NASTY]
    for each in (objects[0], *objects[0]["alternatives"]):
        assert sum(each["token_scores"]) == pytest.approx(each["log_prob"], abs=1e-5)
        assert each["finish_reason"] in ("end", "length")
        assert "".join(each["tokens"]) == each["output"]
    assert objects[5]["reading"] == {"tokens": 1, "unknown": 1, "unread": 0}


def test_prefix_and_max_length_hold(run, inputs, capsysbinary):
    predict(run, inputs, "--prefix", "HG", "--max-length", 3)
    lines = capsysbinary.readouterr().out.decode().split("\n")[:-1]
    assert all(line.startswith("HG") and len(line) <= 3 for line in lines)


def test_other_encodings_are_read_or_refused_with_the_flag_to_use(run, tmp_path, capsysbinary):
    path = tmp_path / "in.txt"
    path.write_bytes("abc\nmäh\n".encode("latin-1"))
    predict(run, path, code=2)
    out, error = capsysbinary.readouterr()
    assert b"--encoding latin-1" in error
    assert out == b""  # found before the first prediction
    predict(run, path, "--encoding", "latin-1")
    assert capsysbinary.readouterr().out.count(b"\n") == 2


# Options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--beam", "0"], ["--beam is 0"]),
        (["--beam", "2", "--nbest", "3"], ["--nbest is 3; it must be at most --beam, 2"]),
        (["--sample", "--beam", "2"], ["--beam is 2; it belongs to beam search", "leave one of them out"]),
        (["--length-penalty", "11"], ["--length-penalty is 11"]),
        (["--beam", "0", "--top-p", "5"], ["--beam is 0; it must be a whole number from 1", "--top-p is 5"]),
        (["--nbest", "0", "--sample", "--max-length", "0"], ["--nbest is 0; it must", "--max-length is 0"]),
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
def test_one_error_names_all_bad_options(run, options, parts, capsys):
    predict(run, *options, code=2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(part in error for part in parts)


def test_temperature_zero_is_greedy(run, inputs, capsysbinary):
    predict(run, inputs, "--temperature", 0)
    cold = capsysbinary.readouterr().out
    predict(run, inputs, "--beam", 1)
    assert capsysbinary.readouterr().out == cold


def test_every_line_is_sampled_independently(run, tmp_path, small_blocks, capsysbinary):
    """Equal sources in other blocks get other samples."""
    predict(run, write(tmp_path / "in.txt", ["abcdef"] * 12), "--sample", "--seed", 7)
    lines = capsysbinary.readouterr().out.split(b"\n")[:-1]
    assert len({tuple(lines[k : k + 4]) for k in (0, 4, 8)}) == 3


# Warnings ------------------------------------------------------------------------------------


def test_foreign_input_is_reported_once(run, tmp_path, small_blocks, capsysbinary):
    predict(run, write(tmp_path / "in.txt", ["日本語", "абв"] * 9))
    assert capsysbinary.readouterr().err.decode().count("100 % unknown symbols: wrong language") == 1
    predict(run, write(tmp_path / "in.txt", ["abcd日", "a"]))
    error = capsysbinary.readouterr().err.decode()
    assert "1 line with symbols that are unknown to the model, such as “日” (" in error
    assert "in.txt:1" in error
    assert error.count("\n") == 1


def test_a_file_of_pairs_in_place_of_sources_is_reported(run, tmp_path, capsysbinary):
    predict(run, write(tmp_path / "in.txt", ["ab\tba", "a", "cd\tdc"]))
    out, error = capsysbinary.readouterr()
    assert out.count(b"\n") == 3
    assert b"2 lines with a tab, but the model takes one text: is this a file of pairs?" in error


def test_long_lines_are_counted_and_named(tmp_path, capsysbinary):
    position = {"kind": "learned", "length": 7}
    folder = make_run(tmp_path / "run", model={"position": position}, data={"max_length": 4})
    path = write(tmp_path / "in.txt", ["abcd", "abcdefgh", "abcde", "abcdefg"])
    predict(folder, path)
    out, error = capsysbinary.readouterr()
    assert out.count(b"\n") == 4
    cut, long, _ = error.decode().split("\n")
    assert f"2 lines longer than the limit of 6 tokens: the rest was not read ({path}:2, {path}:4)" in cut
    assert "1 line longer than all training sources (4 tokens): read in full, outputs may" in long
    assert f"({path}:3)" in long


def test_fields_are_separated_by_tabs_and_missing_ones_named(tmp_path, capsysbinary):
    folder = make_run(tmp_path / "run", ending=f"{SYMBOL}V{SYMBOL}PST", data={"columns": "1,3+:2"})
    predict(folder, write(tmp_path / "in.txt", ["abc\tV;PST", "", "dd\tV"]))
    expected = load(folder)([("abc", "V;PST"), "", ("dd", "V")])
    assert capsysbinary.readouterr().out.decode().split("\n") == [*expected, ""]
    path = write(tmp_path / "in.txt", ["abc\tV;PST", "dd"])
    predict(folder, path, code=2)
    out, error = capsysbinary.readouterr()
    assert f"{path}:2: 1 field, but the model takes 2 (text, symbols)" in error.decode()
    assert out == b""


# Shards -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 30, 31])
@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_cover_every_line_once(count, of, small_blocks):
    shards = [Shard(number, of).lines(count) for number in range(1, of + 1)]
    assert [line for shard in shards for line in shard] == list(range(count))
    if count >= small_blocks * of:
        assert all(shard.start % small_blocks == 0 for shard in shards)
    else:
        assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("options", [["--json"], ["--sample", "--seed", "3", "--json"]])
def test_the_shards_in_order_equal_the_whole_output(run, inputs, tmp_path, small_blocks, options):
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


def test_shard_file_names_sort_in_order():
    names = [Shard(number, 12).path(Path("out")).name for number in range(1, 13)]
    assert names == sorted(names)
    assert Shard(2, 3).path(Path("a/out.txt")) == Path("a/out.txt.2-of-3")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_invalid_shards_are_refused(text):
    with pytest.raises(ConfigError, match="i/n"):
        Shard.parse(text)


# Kill and resume ---------------------------------------------------------------------------------


def killed(arguments: list[str], point: str, times: int) -> None:
    """Run the command in a fork that kills itself when it reaches the point for the n-th time."""
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
def predicted(monkeypatch) -> Callable[[], int]:
    """Count the inputs that the model received."""
    counts: list[int] = []
    original = predicting.Predictor.stream

    def stream(self, texts, **options):
        counts.append(len(texts))
        return original(self, texts, **options)

    monkeypatch.setattr(predicting.Predictor, "stream", stream)
    return lambda: sum(counts)


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
def test_a_killed_job_resumes_to_the_same_bytes(
    run, inputs, tmp_path, small_blocks, predicted, point, times, kept
):
    whole, out = tmp_path / "whole.txt", tmp_path / "out.txt"
    predict(run, inputs, "--output", whole, "--json")
    killed(["predict", run, str(inputs), "--output", str(out), "--json"], point, times)
    assert not out.exists()
    with (tmp_path / "out.txt.part").open("ab") as torn:
        torn.write(b'{"source": "to')
    before = predicted()
    predict(run, inputs, "--output", out, "--json")
    assert predicted() - before == 30 - kept
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("out.txt.*"))


def test_a_job_killed_at_its_end_gives_the_same_output_again(run, inputs, tmp_path, small_blocks):
    out = tmp_path / "out.txt"
    killed(["predict", run, str(inputs), "--output", str(out)], "predict:renamed", 1)
    first = out.read_bytes()
    predict(run, inputs, "--output", out)
    assert out.read_bytes() == first


@pytest.mark.parametrize("change", ["options", "input", "weights"])
def test_the_part_of_another_job_is_not_resumed(run, inputs, tmp_path, small_blocks, change, capsys):
    folder, out = shutil.copytree(run, tmp_path / "run"), tmp_path / "out.txt"
    killed(["predict", str(folder), str(inputs), "--output", str(out)], "predict:note:renamed", 2)
    if change == "input":
        write(inputs, words(30, seed=1))
    if change == "weights":
        (folder / "model.safetensors").write_bytes(changed_weights(tmp_path, folder))
    more = ["--beam", 2] if change == "options" else []
    predict(folder, inputs, "--output", out, *more, code=4)
    assert f"was started with different {change};" in capsys.readouterr().err
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


def test_an_output_behind_a_symbolic_link_is_resumed_at_its_target(
    run, inputs, tmp_path, small_blocks, predicted
):
    place, link = tmp_path / "far" / "out.txt", tmp_path / "link.txt"
    place.parent.mkdir()
    place.write_text("old")
    link.symlink_to(place)
    killed(["predict", run, str(inputs), "--output", str(link)], "predict:note:renamed", 2)
    assert place.read_text() == "old"
    predict(run, inputs, "--output", link)
    assert predicted() == 30 - 8
    assert link.is_symlink()
    assert place.read_text().count("\n") == 30
    assert [path.name for path in place.parent.iterdir()] == ["out.txt"]


def test_a_pipe_is_refused_as_output(run, inputs, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        predict(run, inputs, "--output", tmp_path / name, code=4)
        assert "is a pipe, a device or standard output, which cannot be resumed; omit --output" in (
            capsys.readouterr().err
        )
    assert (tmp_path / "pipe").is_fifo()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("name", ["in.txt", "link", "in.txt.part", "in.txt.part.json"])
def test_an_output_never_replaces_the_input(run, inputs, tmp_path, name, capsys):
    """Nor do the working files next to it."""
    (tmp_path / "link").symlink_to(inputs)
    source = shutil.copy(inputs, tmp_path / name) if ".part" in name else inputs
    output = inputs if ".part" in name else tmp_path / name
    content = inputs.read_text()
    predict(run, source, "--output", output, code=2)
    assert "is one of the input files" in capsys.readouterr().err
    assert inputs.read_text() == Path(source).read_text() == content
    predict(run, source, "--output", output, "--shard", "1/2")  # which has a name of its own
    assert inputs.read_text() == content


def test_an_output_that_cannot_be_created_is_refused_before_the_model_is_loaded(
    inputs, tmp_path, monkeypatch, capsys
):
    missing = tmp_path / "no" / "out.txt"
    predict("no run", inputs, "--output", missing, code=4)
    assert f"{missing} cannot be written: the folder {missing.parent} does not exist; create it first" in (
        capsys.readouterr().err
    )
    assert not missing.parent.exists()
    monkeypatch.setattr(files.os, "access", lambda *_: False)  # root may write everywhere
    predict("no run", inputs, "--output", tmp_path / "out.txt", code=4)
    error = capsys.readouterr().err
    assert f"no write permission in {tmp_path}; choose another folder" in error
    assert ".lock" not in error


def test_an_output_in_use_by_another_process_is_refused(run, inputs, tmp_path, capsys):
    out = tmp_path / "out.txt"
    with files.locked(tmp_path / "out.txt.part.lock"):
        predict(run, inputs, "--output", out, code=4)
    assert f"seqwright: {out} is in use by process {os.getpid()}" in capsys.readouterr().err


# Blocks and pipes -------------------------------------------------------------------------------------


def test_a_block_is_bounded_in_lines_and_in_characters(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(blocks, "CHARACTERS", 100)
    lines = ["a"] * 5 + ["b" * 101] + ["c"] * 5
    path = write(tmp_path / "in.txt", lines)
    found = list(line_blocks(Input(path), Decoding(), ReadReport()))
    assert [line for block in found for line in block.lines] == lines
    assert [(block.first, len(block.lines)) for block in found] == [(0, 4), (4, 2), (6, 2), (8, 3)]
    again = list(line_blocks(Input(path), Decoding(), ReadReport(), range(4, 9)))
    assert [(block.first, len(block.lines)) for block in again] == [(4, 2), (6, 2), (8, 1)]


def test_lines_of_a_pipe_are_handed_on_at_once(tmp_path):
    """A line of a slow writer does not wait for the next one, however short it is."""
    reader, writer = os.pipe()
    found = line_blocks(Input(f"/dev/fd/{reader}"), Decoding(), ReadReport())
    for number, line in enumerate(["a", "", "bc"]):
        os.write(writer, f"{line}\n".encode())
        assert next(found) == (number, [line])
    os.close(writer)
    assert list(found) == []
    os.close(reader)


def test_lines_are_predicted_at_once_in_any_locale_and_a_closed_pipe_is_quiet(run):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "seqwright", "predict", run, "--threads", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in ("a", "☃"):
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")  # before the next line is written
        process.stdout.close()
        process.stdin.write(b"abc\n")
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGPIPE
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_a_run_folder_is_described_and_is_not_data(run, capsys):
    assert cli.main(["describe", str(run)]) == 0
    assert 'task = "text_to_text"' in capsys.readouterr().out
    assert cli.main(["describe", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "text_to_text"
    assert cli.main(["doctor", str(run)]) == 2
    assert (
        f"{run} is a run folder, not data; check it with: seqwright verify {run}" in capsys.readouterr().err
    )

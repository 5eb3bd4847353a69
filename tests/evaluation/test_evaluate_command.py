"""`seqwright evaluate` and `seqwright compare`."""

from __future__ import annotations

import json
import os
import shutil
import threading

import pytest
from tiny_runs import make_run, words

from seqwright import cli
from seqwright.data.fields import SYMBOL


def test_evaluate_prints_a_panel_and_writes_the_outputs(run, test_file, tmp_path, capsys):
    out = tmp_path / "outputs.txt"
    assert cli.main(["evaluate", str(run), str(test_file), "--beam", "2", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "exact match ↑" in printed
    assert "beam 2" in printed
    assert len(out.read_text(encoding="utf-8").splitlines()) == 40


def test_outputs_go_through_links_and_into_pipes(run, test_file, tmp_path, capsys):
    place, link, pipe = (tmp_path / name for name in ("place", "link", "pipe"))
    link.symlink_to(place)
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    for out in (link, pipe):
        assert cli.main(["evaluate", str(run), str(test_file), "--output", str(out)]) == 0
    reader.join(10)
    assert got == [place.read_text()]
    assert got[0].count("\n") == 40
    assert link.is_symlink()
    assert pipe.is_fifo()


def test_outputs_never_replace_the_data(test_file, tmp_path, capsys):
    pairs = shutil.copy(test_file, tmp_path / "pairs.tsv")
    folder = make_run(tmp_path / "run", data={"train": [str(pairs)], "held_out": 0.2})
    for named in ([str(pairs)], []):  # the test split is read from the training file
        assert cli.main(["evaluate", str(folder), *named, "--output", str(pairs)]) == 2
        assert "pairs.tsv is one of the input files" in capsys.readouterr().err
    assert pairs.read_bytes() == test_file.read_bytes()
    assert cli.main(["evaluate", str(folder), "--output", str(tmp_path / "out.txt")]) == 0
    assert f"test part of {pairs}: " in capsys.readouterr().out


def test_evaluate_prints_one_document(run, test_file, capsys):
    assert cli.main(["evaluate", str(run), str(test_file), "--json", "--metrics", "exact_match,chrf"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["metrics"]) == ["exact_match", "chrf"]
    assert document["file"] == str(test_file)


def test_two_files_are_two_sides(run, test_file, tmp_path, capsys):
    rows = [line.split("\t") for line in test_file.read_text(encoding="utf-8").splitlines()]
    files = [tmp_path / "source.txt", tmp_path / "target.txt"]
    for side, file in enumerate(files):
        file.write_text("".join(row[side] + "\n" for row in rows), encoding="utf-8")
    documents = []
    for given in ([test_file], files):
        assert cli.main(["evaluate", str(run), *map(str, given), "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0]["metrics"] == documents[1]["metrics"]


def test_one_file_may_be_both_sides(run, tmp_path, capsys):
    """As for a model that copies; one side cannot name a file twice."""
    (tmp_path / "words.txt").write_text("ab\nbc\n", encoding="utf-8")
    assert cli.main(["evaluate", str(run), *[str(tmp_path / "words.txt")] * 2, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 2


def test_columns_of_the_file_can_be_named(run, tmp_path, capsys):
    (tmp_path / "x.tsv").write_text("AB\tignored\tab\n", encoding="utf-8")
    assert cli.main(["evaluate", str(run), str(tmp_path / "x.tsv"), "--columns", "3:1", "--json"]) == 0
    example = json.loads(capsys.readouterr().out)["examples"][-1]
    assert (example["source"], example["references"]) == ("ab", ["AB"])


def test_compare_a_run_with_its_copy_finds_no_difference(run, test_file, tmp_path, capsys):
    runs = [str(run), str(shutil.copytree(run, tmp_path / "copy"))]
    assert cli.main(["compare", *runs, str(test_file)]) == 0
    assert "No difference" in capsys.readouterr().out
    assert cli.main(["compare", *runs, str(test_file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {each["p_value"] for each in document["metrics"].values()} == {1}


def test_compare_uses_the_test_split_of_both_runs(test_file, tmp_path, capsys):
    """With any seeds; different splits cannot be compared."""
    data = {"train": [str(test_file)], "held_out": 0.2}
    one = make_run(tmp_path / "one", data=data, seed=1)
    other = make_run(tmp_path / "other", data=data, seed=2)
    elsewhere = make_run(tmp_path / "elsewhere", data={**data, "split": 2})
    assert cli.main(["compare", str(one), str(other), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    counted = document["wins"] + document["losses"] + document["ties"]
    assert cli.main(["evaluate", str(one), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == counted
    assert cli.main(["compare", str(one), str(elsewhere)]) == 2
    assert "not evaluated on the same items" in capsys.readouterr().err


def test_compare_finds_the_worse_one(run, other, test_file, capsys):
    command = ["compare", str(run), str(other), str(test_file), "--metrics", "symbol_error_rate", "--json"]
    assert cli.main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert f"{other} is worse than {run}" in document["verdict"]
    assert document["losses"] > document["wins"]


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["evaluate", "{run}", "nowhere.tsv"], 2, "nowhere.tsv does not exist"),
        (["evaluate", "{tmp}", "{file}"], 3, "is not a run"),
        (["evaluate", "{run}", "{file}", "--beam", "0"], 2, "beam"),
        (["evaluate", "{run}", "{file}", "--metrics", "blue"], 2, "did you mean 'bleu'"),
        (["evaluate", "{run}", "{file}", "--threads", "0"], 2, "--threads is 0"),
        (["evaluate", "{run}", "{file}", "--output", "{tmp}/no/such/folder"], 4, "cannot be written"),
        (["evaluate", "{file}", "{run}"], 2, "pass the run folder first"),
        (["compare", "{run}", "{file}", "{run}"], 2, "pass the run folder first"),
        (["compare", "{run}", "{tmp}", "{file}"], 3, "is not a run"),
        (["compare", "{run}"], 2, "1 run folder given; pass two"),
        (["compare", "{run}", "{file}"], 3, "test.tsv is a file, not a run"),
        (["compare", "{run}", "{other}"], 2, "has no test split"),
        (["compare", "{run}", "{run}/../run", "{file}"], 2, "are the same run; pass two different runs"),
        (
            ["compare", "{run}", "{run}", "{file}", "--seed", "0", "--out", "x"],
            2,
            "--out and --seed can only be used with --train",
        ),
        (["compare", "{run}", "{other}", "-"], 2, "standard input is a pipe, which cannot be read twice"),
        (
            ["compare", "{run}", "{run}", "{file}", "--paper-size"],
            2,
            "--paper-size can only be used with --train",
        ),
        (["evaluate", "{run}", "{file}", "{file}"], 2, "test.tsv is named twice"),
        (["evaluate", "{run}", "--columns", "2:1"], 2, "'2:1' applies only to named files"),
        (["evaluate", "{run}", "--encoding", "latin-1"], 2, "'latin-1' applies only to named files"),
        (["compare", "--train", "{file}"], 2, "--train needs --families"),
        (["compare", "--train", "{file}", "--families", "tiny", "model=tiny"], 2, "are presets already"),
        (["compare", "--train", "{file}", "--families", "tiny", "start={run}"], 2, "trained from scratch"),
        (["compare", "--families", "tiny"], 2, "--families can only be used with --train"),
        (["compare", "--train", "{file}", "--families", "tiny", "--lowercase"], 2, "after training"),
        (["compare", "--train", "nowhere.tsv", "--families", "tiny"], 2, "nowhere.tsv does not exist"),
    ],
)
def test_an_error_is_one_line_and_a_code(arguments, code, part, run, other, test_file, tmp_path, capsys):
    filled = [text.format(run=run, other=other, file=test_file, tmp=tmp_path) for text in arguments]
    assert cli.main(filled) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert part in captured.err
    assert captured.err.count("\n") == 1


def test_an_error_names_the_run_that_cannot_read_the_file(run, test_file, tmp_path, capsys):
    forms = make_run(tmp_path / "forms", ending=f"{SYMBOL}V", data={"columns": "1,3+:2"})
    assert cli.main(["compare", str(run), str(forms), str(test_file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"seqwright: {forms}, trained on columns 1,3+:2: {test_file} has 2 columns")
    three = tmp_path / "three.tsv"
    three.write_text("".join(f"{word}\t{word}\tV;PST\n" for word in words(30)), encoding="utf-8")
    assert cli.main(["evaluate", str(run), str(three)]) == 2
    assert "has sources of several fields, but the model takes one text" in capsys.readouterr().err
    assert cli.main(["evaluate", str(run), str(three), "--columns", "1:2", "--json"]) == 0

"""`predict FILE` reads every layout that training reads, with its targets and without."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lm_runs import toy_run

from seqwright import cli
from seqwright.config import DataConfig
from seqwright.data.read_report import ReadReport
from seqwright.errors import InputError
from seqwright.prediction.bulk import blocks
from seqwright.prediction.predictor import load
from seqwright.runs.folder import Run

KINDS: dict[str, dict[str, Any]] = {
    "text_classification": {"kind": "encoder_only"},
    "token_classification": {"kind": "encoder_only", "head": "tags"},
    "language_modeling": {"kind": "decoder_only"},
    "masked_language_modeling": {"kind": "encoder_only", "head": "tokens"},
}
TEXTS = [f'bad dad, "{"ace " * (number % 3)}a" {number}' for number in range(12)]
LABELS = ["a", "e"] * 6
TAGS = [" ".join(["O"] * len(text.split())) for text in TEXTS]

Cells = Sequence[str]


def separated(delimiter: str, *columns: Cells) -> str:
    file, rows = io.StringIO(), zip(*columns, strict=True)
    if delimiter != ",":
        return "".join(f"{delimiter.join(row)}\n" for row in rows)
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def objects(**columns: Sequence[Any]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "".join(f"{json.dumps(dict(zip(columns, row, strict=True)))}\n" for row in rows)


def conll(*columns: Cells) -> str:
    sentences = (zip(*map(str.split, cells), strict=True) for cells in zip(*columns, strict=True))
    return "\n".join(separated("\t", *zip(*rows, strict=True)) for rows in sentences)


NUMBERS, WORDS = [str(number) for number in range(12)], [text.split() for text in TEXTS]
LAYOUTS: dict[tuple[str, str], tuple[str, str, str]] = {  # the file with targets, and without
    ("text_classification", "TSV"): ("d.tsv", separated("\t", TEXTS, LABELS), separated("\t", TEXTS)),
    ("text_classification", "labels first"): (
        "d.tsv",
        separated("\t", LABELS, TEXTS),
        separated("\t", TEXTS),
    ),
    ("text_classification", "TSV with a header"): (
        *("d.tsv", separated("\t", ["text", *TEXTS], ["label", *LABELS])),
        separated("\t", ["text", *TEXTS]),
    ),
    ("text_classification", "CSV"): ("d.csv", separated(",", TEXTS, LABELS), separated(",", TEXTS)),
    ("text_classification", "CSV with a header"): (
        *("d.csv", separated(",", ["review", *TEXTS], ["sentiment", *LABELS])),
        separated(",", ["review", *TEXTS]),
    ),
    ("text_classification", "CSV with other names"): (
        "d.csv",
        separated(",", ["id", *NUMBERS], ["abstract", *TEXTS], ["label", *LABELS]),
        separated(",", ["id", *NUMBERS], ["abstract", *TEXTS]),
    ),
    ("text_classification", "JSON lines"): (
        *("d.jsonl", objects(text=TEXTS, label=LABELS)),
        objects(text=TEXTS),
    ),
    ("text_classification", "JSON lines with other keys"): (
        "d.jsonl",
        objects(id=NUMBERS, abstract=TEXTS, label=LABELS),
        objects(id=NUMBERS, abstract=TEXTS),
    ),
    ("text_classification", "fastText"): (
        *("d.txt", separated(" ", [f"__label__{label}" for label in LABELS], TEXTS)),
        separated("\t", TEXTS),
    ),
    ("token_classification", "CoNLL"): ("d.conll", conll(TEXTS, TAGS), conll(TEXTS)),
    ("token_classification", "TSV"): ("d.tsv", separated("\t", TEXTS, TAGS), separated("\t", TEXTS)),
    ("token_classification", "CSV"): (
        *("d.csv", separated(",", ["words", *TEXTS], ["tags", *TAGS])),
        separated(",", ["words", *TEXTS]),
    ),
    ("token_classification", "JSON lines"): (
        *("d.jsonl", objects(id=NUMBERS, tokens=WORDS, ner_tags=[tags.split() for tags in TAGS])),
        objects(id=NUMBERS, tokens=WORDS),
    ),
    **{
        (task, layout): found
        for task in ("language_modeling", "masked_language_modeling")
        for layout, found in {
            "JSON lines": ("d.jsonl", objects(text=TEXTS), objects(text=TEXTS)),
            "JSON lines with other keys": ("d.jsonl", objects(id=NUMBERS, body=TEXTS), objects(body=TEXTS)),
            "CSV": (
                *("d.csv", separated(",", ["text", *TEXTS], ["label", *LABELS])),
                separated(",", ["text", *TEXTS]),
            ),
        }.items()
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    return {task: toy_run(home / task, task, steps=1, **parts) for task, parts in KINDS.items()}


def trained_on(run: Path, file: Path | None) -> None:
    """Let a run have the columns that a training on this file records."""
    columns = None
    if file is not None:
        task = load(run).task
        columns = "body" if "body" in file.read_text() else task.reader((str(file),), DataConfig()).columns
        read = task.reader((str(file),), DataConfig(columns=columns)).read(ReadReport())
        assert len(list(read)) == len(TEXTS)
    config = Run.open(run).config
    Run.open(run).configure({**config, "data": {**config["data"], "columns": columns}})


def answers(run: Path, *arguments: object) -> list[dict[str, Any]]:
    """Return the answers of `predict --json`, by way of an output file."""
    file = run.with_suffix(".out")
    short = ["--temperature=0", "--length=3"] if run.name == "language_modeling" else []
    command = ["predict", str(run), *map(str, arguments), "--json", *short]
    assert cli.main([*command, "--output", str(file)]) == 0
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(("task", "layout"), LAYOUTS)
def test_files_with_and_without_targets_are_answered_like_their_texts(task, layout, runs, tmp_path):
    name, *contents = LAYOUTS[task, layout]
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(f"{text}\n" for text in TEXTS))
    files = [tmp_path / folder / name for folder in ("with", "without")]
    for file, content in zip(files, contents, strict=True):
        file.parent.mkdir()
        file.write_text(content)
    trained_on(runs[task], files[0])
    expected = answers(runs[task], plain)
    assert [each["source"] for each in expected] == TEXTS
    for file in files:
        assert answers(runs[task], file) == expected


def test_a_folder_is_answered_file_by_file(runs, tmp_path, capsys):
    run, home = runs["text_classification"], tmp_path / "texts"
    for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True)):
        (home / label).mkdir(parents=True, exist_ok=True)
        (home / label / f"{number:02}.txt").write_text(f"{text}\n")
    files = sorted(map(str, home.glob("*/*")))
    found = answers(run, home)
    assert [each["file"] for each in found] == files
    assert [each["source"] for each in found] == [*TEXTS[::2], *TEXTS[1::2]]
    assert cli.main(["predict", str(run), str(home / "a")]) == 0
    lines = [f"{each['file']}\t{each['output']}" for each in found[:6]]
    assert capsys.readouterr().out.splitlines() == lines
    (tmp_path / "empty").mkdir()
    assert cli.main(["predict", str(run), str(tmp_path / "empty")]) == 2
    assert "has no text files" in capsys.readouterr().err


def test_the_shards_of_a_table_are_the_whole(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 4)
    run, file = runs["text_classification"], tmp_path / "d.csv"
    file.write_text(separated(",", ["id", *NUMBERS, "", "12"], ["text", *TEXTS, "", "last"]))
    whole, name = answers(run, file), f"{run.name}.out"
    parts = [tmp_path / f"{name}.{number}-of-3" for number in (1, 2, 3)]
    for number, part in enumerate(parts, start=1):
        shard = ["--json", "--shard", f"{number}/3", "--output", str(tmp_path / name)]
        assert cli.main(["predict", str(run), str(file), *shard]) == 0
        assert part.exists()
    assert [json.loads(line) for part in parts for line in part.read_text().splitlines()] == whole
    assert [each["source"] for each in whole] == [*TEXTS, "", "last"]


@pytest.mark.parametrize(
    ("task", "line", "words"),
    [
        ("text_classification", '{"other": "x"}', "d.jsonl:2: unknown key 'text'"),
        ("text_classification", '{"text": 3}', "d.jsonl:2: expected text under 'text'"),
        ("text_classification", "plain", "d.jsonl:2: not JSON"),
        ("token_classification", '{"tags": ["O"]}', "d.jsonl:2: unknown key 'tokens'"),
        ("token_classification", '{"tokens": 3}', "d.jsonl:2: expected a list of texts under 'tokens'"),
        ("language_modeling", '{"id": "3"}', "d.jsonl:2: unknown key 'text'"),
    ],
)
def test_an_object_without_the_input_is_named(task, line, words, runs, tmp_path, capsys):
    trained_on(runs[task], None)
    file = tmp_path / "d.jsonl"
    file.write_text(f'{{"text": "bad"}}\n{line}\n')
    assert cli.main(["predict", str(runs[task]), str(file)]) == 2
    assert words in capsys.readouterr().err


def test_json_lines_of_a_pipe_are_read_by_the_key_of_training(runs, tmp_path):
    task = replace(load(runs["text_classification"]).task, key="data.abstract")
    assert task.from_line('{ "data": {"abstract": "bad"}, "text": "other"}').text == "bad"
    assert task.from_line('{"text": "other"}').text == "other"
    assert task.from_line("{not JSON}").text == "{not JSON}"
    with pytest.raises(InputError, match=r"unknown key 'data\.abstract'"):
        task.from_line('{"x": "bad"}')
    assert replace(task, key=None).from_line('{"x": "bad"}').text == '{"x": "bad"}'
    tagger = load(runs["token_classification"]).task
    assert tagger.from_line('{"id": 1, "tokens": ["a b", "c"], "tags": ["O", "O"]}').words == ("a b", "c")
    assert tagger.from_line('{"x": "bad"}').words == ('{"x":', '"bad"}')

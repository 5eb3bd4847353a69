"""Text classification with two texts per label: reading, the separator, the cut, inputs, and use of a run."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import tiny
from hypothesis.strategies import integers
from serving import client

import seqwright
from seqwright import cli
from seqwright.config import DataConfig, parse
from seqwright.data.corpus import Corpus
from seqwright.data.fields import FIELD, places_read
from seqwright.data.glance import recognise
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.labelled import Labelled, open_labelled
from seqwright.data.task import task_class
from seqwright.errors import ConfigError, InputError
from seqwright.pipeline.design import design
from seqwright.prediction.verification import verify
from seqwright.training.preparation import prepare

TASK = task_class("text_classification")
ANSWERS = {("p", "p"): "same", ("q", "q"): "same", ("p", "q"): "up", ("q", "p"): "down"}
SMALL = ["model.layers=1", "model.size=32", "model.hidden=64", "model.heads=2", "model.dropout=0.0"]
FAST = ["--quiet", "threads=1", "training.tokens=512", "training.validations=2", *SMALL]
MODEL = {"kind": "encoder_only", "layers": 1, "size": 16, "hidden": 32, "heads": 2}


def pairs(count: int = 240, seed: int = 0) -> list[tuple[str, str, str]]:
    """Texts with p or q among other words. Only both texts in their order give the label: each text alone
    says nothing about it, and the words of up are those of down.
    """
    draw, rows = random.Random(seed), []
    for _ in range(count):
        keys = draw.choice("pq"), draw.choice("pq")
        first, second = (draw.sample([key, *draw.sample("abcdefgh", 2)], 3) for key in keys)
        rows.append((" ".join(first), " ".join(second), ANSWERS[keys]))
    return rows


def table(rows: list[tuple[str, ...]], delimiter: str = "\t") -> str:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return written.getvalue()


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(path: str, data: DataConfig | None = None, report: ReadReport | None = None) -> list[Labelled]:
    return list(open_labelled([path], data or DataConfig()).read(report or ReadReport()))


def objects(rows: list[tuple[str, ...]], *names: str) -> str:
    return "".join(json.dumps(dict(zip(names, row, strict=False))) + "\n" for row in rows)


LAYOUTS = {
    "TSV": ("p.tsv", lambda rows: table([("sentence1", "sentence2", "label"), *rows])),
    "CSV": ("p.csv", lambda rows: table([("question1", "question2", "is_duplicate"), *rows], ",")),
    "JSONL": ("p.jsonl", lambda rows: objects(rows, "premise", "hypothesis", "gold_label")),
    "label first": (
        "p.csv",
        lambda rows: table([("id", "label", "Text_B", "Text_A"), *((7, c, b, a) for a, b, c in rows)], ","),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_texts_are_recognised_by_the_names_of_their_columns(layout, tmp_path):
    name, text = LAYOUTS[layout]
    path = write(tmp_path / name, text(pairs()))
    found = recognise([path], DataConfig(), "text_to_text")
    assert found.task == "text_classification"
    assert "are names of two texts" in found.evidence
    assert [(*example.text.split(FIELD), example.label) for example in read(path)] == pairs()
    columns = open_labelled([path], DataConfig()).columns
    assert read(path, DataConfig(columns=columns)) == read(path)


def test_columns_with_other_names_are_requested(tmp_path):
    rows = pairs()
    path = write(tmp_path / "p.tsv", table([("left", "right", "answer"), *rows]))
    found = read(path, DataConfig(columns="left,right:answer"))
    assert [(*example.text.split(FIELD), example.label) for example in found] == rows
    one = read(path, DataConfig(columns="right:answer"))
    assert [example.text for example in one] == [second for _, second, _ in rows]
    bare = write(tmp_path / "bare.tsv", table(rows))
    reader = open_labelled([bare], DataConfig(columns="2,1:3"))
    assert [example.text.split(FIELD) for example in reader.read(ReadReport())] == [
        [b, a] for a, b, _ in rows
    ]
    assert reader.columns == "2,1:3"


def test_single_words_that_repeat_are_texts_not_symbols(tmp_path):
    rows = [(word, other, "x") for word, other in itertools.product("abcdefgh", ["p;q", "r|s"])]
    path = write(tmp_path / "p.tsv", table([("text1", "text2", "label"), *rows]))
    assert [tuple(example.text.split(FIELD)) for example in read(path)] == [row[:2] for row in rows]


def test_a_language_model_reads_the_texts_of_a_table_one_by_one(tmp_path):
    path = write(tmp_path / "p.tsv", table([("text1", "text2", "label"), *pairs(30)]))
    passages = task_class("masked_language_modeling").reader([path], DataConfig()).read(ReadReport())
    assert [each.text for each in passages] == [text for row in pairs(30) for text in row[:2]]


def test_rows_with_a_blank_text_are_skipped_and_counted(tmp_path):
    rows = [("a b", "c", "x"), ("", "c", "x"), ("a", " ", "x"), ("a", "c", "")]
    report, path = ReadReport(), write(tmp_path / "p.tsv", table([("text1", "text2", "label"), *rows]))
    assert len(read(path, report=report)) == 1
    assert (report[Reason.BLANK_TEXT], report[Reason.BLANK_LABEL]) == (2, 1)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("text1,text2,text3:label", "one or two texts"),
        ("text1,text2+:label", "one or two texts"),
        ("text1,text9:label", "unknown column 'text9'"),
        ("text1,text1:label", "twice"),
    ],
)
def test_columns_that_cannot_work_are_one_line(columns, words, tmp_path, capsys):
    names = ("text1", "text2", "text3", "label")
    path = write(tmp_path / "p.tsv", table([names, *((a, b, a, c) for a, b, c in pairs(30))]))
    command = ["train", path, "--task", "text_classification", "--columns", columns, *FAST]
    assert cli.main([*command, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_two_texts_need_a_table(tmp_path):
    for label in "xy":
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.txt").write_text("a b")
    with pytest.raises(InputError, match="one text per label"):
        open_labelled([str(tmp_path)], DataConfig(columns="a,b:label"))


def test_an_encoder_of_sentences_is_refused():
    table = {"data": {"train": ["p.tsv"], "columns": "a,b:c"}, "training": {"steps": 1}}
    config = parse({**table, "model": {"preset": "yang2016"}})
    with pytest.raises(ConfigError, match=r"sentences of one text, but data\.columns = a,b:c names two"):
        TASK.check(config)


def test_equal_pairs_stay_in_one_part_and_texts_in_another_order_are_others(tmp_path):
    rows = [*pairs(300), *pairs(300)]
    path = write(tmp_path / "p.tsv", table([("text1", "text2", "label"), *rows]))
    corpus = Corpus(TASK, DataConfig(train=(path,), held_out=0.2))
    parts = [{example.text for example in corpus.examples(part)} for part in ("train", "valid", "test")]
    assert len(set().union(*parts)) == sum(map(len, parts)) == len({row[:2] for row in rows})
    assert TASK.group(Labelled(f"a{FIELD}b", "x", Place("", 0))) != TASK.group(
        Labelled(f"b{FIELD}a", "x", Place("", 0))
    )


@hypothesis.given(left=integers(0, 12), right=integers(0, 12), limit=integers(1, 30), less=integers(0, 29))
def test_both_texts_keep_a_fair_share(left, right, limit, less):
    ids = [*range(100, 100 + left), 1, *range(200, 200 + right)]
    kept = [ids[place] for place in places_read(ids, limit, 1)]
    first, second = kept[: kept.index(1)], kept[kept.index(1) + 1 :]
    assert len(kept) == min(len(ids), limit)
    assert first == ids[:left][: len(first)]
    assert second == ids[left + 1 :][: len(second)]
    if len(first) < left:  # it is cut: the other one is whole, or not longer
        assert len(second) <= len(first)
    if len(second) < right:
        assert len(first) <= len(second) + 1
    smaller = max(limit - less, 1)
    again = [kept[place] for place in places_read(kept, smaller, 1)]
    assert again == [ids[place] for place in places_read(ids, smaller, 1)]


def configuration(path: str, **training: object) -> dict:
    end = {"steps": 6, "tokens": 256, "validations": 1, "decode": 8, "traces": 1, **training}
    data = {"train": [path], "held_out": 0.2, "columns": "text1,text2:label", "max_length": 8}
    return {"task": "text_classification", "data": data, "model": MODEL, "training": end, "threads": 1}


@pytest.fixture
def header(tmp_path):
    return write(tmp_path / "p.tsv", table([("text1", "text2", "label"), *pairs()]))


def test_the_store_gives_the_pairs_back(header, tmp_path):
    config = parse(configuration(header))
    prepared = prepare(config, tmp_path)
    expected = [example[:2] for example in Corpus.of(config).examples("valid")]
    task, store = prepared.task, prepared.valid
    assert [task.stored(store, number)[:2] for number in range(len(store))] == expected
    loaded = TASK.load(tmp_path, config)
    assert (loaded.fingerprint, loaded.pair) == (task.fingerprint, ("text1", "text2"))
    ids, again = (store.column("text").row(0), task.encode([task.stored(store, 0)])[0].columns["text"])
    assert np.array_equal(ids, again)
    assert list(ids).count(task.separator) == 1


def test_a_stopped_training_resumes_exactly(header, tmp_path):
    config = parse(configuration(header))
    tiny.train(config, tmp_path / "whole")
    tiny.train_and_die(config, tmp_path / "stopped", tiny.at("train:step", 3, tiny.die))
    tiny.train(config, tmp_path / "stopped")
    assert tiny.digest(tmp_path / "stopped") == tiny.digest(tmp_path / "whole")


def test_the_recipe_compares_the_texts_and_keeps_the_columns(tmp_path):
    path = write(tmp_path / "p.csv", table([("sentence1", "sentence2", "label"), *pairs()], ","))
    made = design({"data": {"train": [path]}})
    assert made.config.data.columns == "sentence1,sentence2:label"
    assert (made.config.model["preset"], made.config.tokenizer.source["kind"]) == ("tiny-classifier", "bpe")
    said = "\n".join(made.lines())
    assert "columns sentence1,sentence2:label: the two texts and the label" in said
    assert "attention compares the two texts" in said
    words = write(
        tmp_path / "w.tsv", table([("text1", "text2", "label"), *((a[0], b[0], c) for a, b, c in pairs())])
    )
    assert design({"data": {"train": [words]}}).config.tokenizer.source == "characters"


# Use of a run ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    path = write(folder / "p.tsv", table([("premise", "hypothesis", "label"), *pairs(600)]))
    command = ["train", path, "--out", str(folder / "run"), "--steps=120", "tokenizer.source=words"]
    assert cli.main([*command, "training.optimizer.rate=0.01", *FAST]) == 0
    return folder / "run"


def test_a_model_reads_both_texts_and_their_order(run, tmp_path, capsys):
    test = write(tmp_path / "t.tsv", table([("premise", "hypothesis", "label"), *pairs(200, seed=9)]))
    assert cli.main(["evaluate", str(run), test, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["accuracy"] > 95  # one text or no order: at most 75
    assert [check.name for check in verify(run) if not check.passed] == []


GIVEN = {
    "a table": ("in.tsv", lambda rows: table([("premise", "hypothesis", "label"), *rows])),
    "a table without labels": (
        "in.csv",
        lambda rows: table([("id", "hypothesis", "premise"), *((7, b, a) for a, b, _ in rows)], ","),
    ),
    "usual names": (
        "in.csv",
        lambda rows: table([("sentence1", "sentence2"), *(row[:2] for row in rows)], ","),
    ),
    "no header": ("in.tsv", table),
    "lines": ("in.txt", lambda rows: table([row[:2] for row in rows])),
    "JSON lines": ("in.jsonl", lambda rows: objects(rows, "premise", "hypothesis")),
}


@pytest.mark.parametrize("layout", GIVEN)
def test_files_of_pairs_are_predicted_in_order(run, layout, tmp_path, capsys):
    name, text = GIVEN[layout]
    rows = pairs(12, seed=5)
    assert cli.main(["predict", str(run), write(tmp_path / name, text(rows)), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["source"] for each in found] == ["\t".join(row[:2]) for row in rows]
    expected = seqwright.load(run).predict([row[:2] for row in rows])
    assert [each["label"] for each in found] == [each.label for each in expected]


def test_one_pair_is_a_line_an_object_or_a_tuple(run, capsys):
    expected = seqwright.load(run)(("p a b", "q c d"))
    for given in ("p a b\tq c d", '{"premise": "p a b", "hypothesis": "q c d"}'):
        assert cli.main(["predict", str(run), given]) == 0
        assert capsys.readouterr().out.strip() == expected
    model = seqwright.load(run)
    several = [("p a b", "q c d"), {"premise": "q c", "hypothesis": "p"}, "p\tp", ("", "")]
    assert [each.source for each in model.predict(several)] == ["p a b\tq c d", "q c\tp", "p\tp", ""]
    scores = model.score([(several[0], label) for label in ("up", "down", "same")])
    assert sum(map(np.exp, scores)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        (
            "in.txt",
            "only one",
            "in.txt:2: “only one” has 1 text; the model reads two: write premise, a tab and",
        ),
        ("in.txt", "a\tb\tc d", "in.txt:2"),
        (
            "in.jsonl",
            '{"premise": "x"}',
            "in.jsonl:2: the keys are premise; the model reads two texts, under",
        ),
        ("in.jsonl", '{"premise": "x", "hypothesis": 3}', "in.jsonl:2: the keys are premise, hypothesis"),
    ],
)
def test_an_input_with_one_text_is_one_line(run, name, line, words, tmp_path, capsys):
    first = '{"premise": "x", "hypothesis": "y"}' if name.endswith("l") else "p a\tq b"
    assert cli.main(["predict", str(run), write(tmp_path / name, f"{first}\n{line}\n")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("given", ["one text", ("a", "b", "c"), 3, {"premise": "a"}, ("a", None)])
def test_an_input_that_is_no_pair_is_refused(run, given):
    with pytest.raises(InputError, match="premise"):
        seqwright.load(run).predict([given])


def test_files_with_one_text_per_label_are_not_evaluated(run, tmp_path, capsys):
    test = write(tmp_path / "t.tsv", table([("premise", "hypothesis", "label"), *pairs(20, seed=9)]))
    assert cli.main(["evaluate", str(run), test, "--columns", "premise:label"]) == 2
    assert (
        "the model reads two: name their columns, as in --columns premise,hypothesis:label"
        in capsys.readouterr().err
    )


def test_a_long_pair_is_cut_and_counted(run):
    model = seqwright.load(run)
    (answer,) = model.predict(("p", "q " * 500))
    (other,) = model.predict(("p", "q " * 40))
    assert answer.reading.unread == answer.reading.tokens - model.longest > 0
    assert answer.probabilities == pytest.approx(other.probabilities)


def test_look_shows_both_texts_and_the_separator(run):
    trace = seqwright.load(run).look(("p a b", "q c d")).document
    pieces = trace["source"]["pieces"]
    assert [piece["text"].strip() for piece in pieces] == ["p", "a", "b", FIELD, "q", "c", "d", ""]
    assert trace["text"] == f"p a b{FIELD}q c d"
    assert all(trace["text"][each["start"] : each["end"]] == each["text"] for each in pieces)
    cut = seqwright.load(run).look(("p", "q " * 500)).document["source"]
    assert [piece["text"].strip() for piece in cut["pieces"][:3]] == ["p", FIELD, "q"]
    assert cut["unread"] > 0


def test_a_server_takes_objects_and_stores_corrections(run, tmp_path, capsys):
    rows = pairs(20, seed=7)
    with client(run) as server:
        (model,) = (each for each in server.get("/v1/models").json()["data"])
        assert [role["name"] for role in model["roles"]] == ["premise", "hypothesis", "label"]
        inputs = [{"premise": a, "hypothesis": b} for a, b, _ in rows]
        found = server.post("/v1/predict", json={"inputs": inputs}).json()["predictions"]
        expected = seqwright.load(run).predict([row[:2] for row in rows])
        assert [each["label"] for each in found] == [each.label for each in expected]
        for wrong in ({"premise": "a"}, "one text", {"premise": "a", "hypothesis": ["b", "c"]}):
            assert server.post("/v1/predict", json={"inputs": [wrong]}).status_code == 400
        for given, (_, _, label) in zip(inputs, rows, strict=True):
            body = {"input": given, "expected": label, "output": "up"}
            assert server.post("/v1/corrections", json=body).json() == {"success": True}
    stored = [json.loads(line) for line in (run / "corrections.jsonl").read_text().splitlines()]
    assert {key: stored[0][key] for key in ("premise", "hypothesis", "label")} == {
        **inputs[0],
        "label": rows[0][2],
    }
    data = DataConfig(columns="premise,hypothesis:label")
    example = TASK.corrected(stored[0], Place("", 0), data)
    assert example.text.split(FIELD) == list(rows[0][:2])
    command = [
        "train",
        f"start={run}",
        f"data.corrections={run}",
        "--out",
        str(tmp_path / "new"),
        "--steps=4",
    ]
    assert cli.main([*command, "--quiet", "threads=1"]) == 0
    assert (tmp_path / "new" / "evaluation.json").exists()


def test_runs_are_compared_described_and_reported(run, header, tmp_path, capsys):
    other = {**configuration(header), "data": {"train": [header], "columns": "text1,text2:label"}}
    tiny.train(parse(other), tmp_path / "other")
    assert (
        cli.main(["compare", str(run), str(tmp_path / "other"), header, "--columns", "text1,text2:label"])
        == 0
    )
    assert "accuracy" in capsys.readouterr().out
    assert cli.main(["describe", str(run)]) == 0
    assert "premise,hypothesis:label" in capsys.readouterr().out
    assert "premise and hypothesis together" in seqwright.load(run).task.summary
    assert FIELD not in (run / "report.html").read_text("utf-8")
    assert FIELD not in (run / "README.md").read_text("utf-8")

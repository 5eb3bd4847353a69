"""Text classification: layouts, the split, weights, calibration, and data that cannot work."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

import seqwright
from seqwright import cli
from seqwright.config import DataConfig, parse
from seqwright.data.calibration import fitted_temperature, log_loss, threshold
from seqwright.data.corpus import Corpus
from seqwright.data.glance import recognise
from seqwright.data.labels import Labels
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.labelled import open_labelled
from seqwright.data.results import Label
from seqwright.data.split import parts_in
from seqwright.data.task import task_class
from seqwright.errors import InputError, ModelError
from seqwright.evaluation.class_table import class_table, confusion_table
from seqwright.evaluation.metrics import METRICS
from seqwright.models.building import resolve
from seqwright.pipeline.design import design
from seqwright.runs.report.mistakes import errors
from seqwright.runs.report.reader import Evaluation, Record

WORDS = {"good": "fine great lovely superb happy", "bad": "awful poor sad terrible boring"}
CLASSIFIER = {"kind": "encoder_only", "layers": 1, "size": 16, "hidden": 32, "heads": 2}
FAST = [
    "--quiet",
    "threads=1",
    "training.tokens=512",
    "training.validations=2",
    "model.size=32",
    "--steps=60",
]


def reviews(
    count: int = 200, seed: int = 0, labels: tuple[str, ...] = ("good", "bad")
) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        label = draw.choice(labels)
        words = draw.choices(WORDS[label].split(), k=3) + draw.choices(["a", "b", "c", "d", "e", "f"], k=3)
        draw.shuffle(words)
        rows.append((f"{' '.join(words)} n{number}", label))
    return rows


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


LAYOUTS = {
    "text first": ("r.tsv", lambda text, label: f"{text}\t{label}"),
    "label first": ("r.tsv", lambda text, label: f"{label}\t{text}"),
    "csv": ("r.csv", lambda text, label: f'"{text}, x",{label}'),
    "jsonl": ("r.jsonl", lambda text, label: json.dumps({"id": 7, "text": text, "label": label})),
    "fastText": ("r.txt", lambda text, label: f"__label__{label} {text}"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_recognised_and_read(layout, tmp_path):
    name, line = LAYOUTS[layout]
    path = write(tmp_path / name, [line(*row) for row in sorted(reviews(), key=lambda row: row[1])])
    found = recognise([path], DataConfig(), "text_to_text")
    assert found.task == "text_classification"
    assert name in found.evidence
    read = list(open_labelled([path], DataConfig()).read(ReadReport()))
    assert {example.label for example in read} == {"good", "bad"}
    assert len(read) == 200
    assert all(any(word in example.text for word in WORDS[example.label].split()) for example in read)


@pytest.mark.parametrize(
    "option",
    [
        "model.window=3",
        "model.growth=compressed",
        "model.feed_forward=experts",
        "model.encoder.window=3",
    ],
)
def test_an_option_of_a_transformer_chooses_one(option, tmp_path):
    path = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in reviews()])
    table = {"data": {"train": [path]}, "task": "text_classification"}
    made = design(table, [option])
    key = option.partition("=")[0]
    assert f"detectors of n-grams have no {key}; " in "\n".join(made.lines())
    encoder = resolve(made.config.model)["encoder"]
    assert encoder["kind"] == "transformer"
    assert key.rpartition(".")[2] in encoder
    assert resolve(design(table).config.model)["encoder"]["kind"] == "ngrams"
    assert resolve(design(table, ["model.dropout=0.1"]).config.model)["encoder"]["kind"] == "ngrams"


def test_global_tokens_need_no_preset(tmp_path):
    path = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in reviews()])
    options = ["model.window=2", "model.global_tokens=1", "model.layers=1", *FAST[1:-1]]
    out = ["--out", str(tmp_path / "run"), "--steps=1"]
    assert cli.main(["train", path, "--quiet", *out, *options]) == 0


def test_a_header_names_the_columns(tmp_path):
    rows = (f"{number},{text},{label}" for number, (text, label) in enumerate(reviews()))
    path = write(tmp_path / "r.csv", ["id,review,sentiment", *rows])
    reader = open_labelled([path], DataConfig())
    assert reader.columns == "review:sentiment"
    assert len(list(reader.read(ReadReport()))) == 200


def by_label(folder: Path, rows: list[tuple[str, str]]) -> Path:
    for number, (text, label) in enumerate(rows):
        (folder / label).mkdir(parents=True, exist_ok=True)
        (folder / label / f"{number}.txt").write_text(text.replace(" ", "\n"))
    return folder


def test_folders_by_label(tmp_path):
    folder = by_label(tmp_path / "data", reviews(30))
    (folder / "good" / "blank.txt").write_text(" \n")
    (folder / "good" / "notes.csv").write_text("not a text")
    report = ReadReport()
    read = list(open_labelled([str(folder)], DataConfig()).read(report))
    assert sorted((example.text, example.label) for example in read) == sorted(reviews(30))
    assert all(Path(example.place.file).parent.name == example.label for example in read)
    assert len(report.summary()) == 1


def test_a_folder_with_its_parts_inside_needs_no_flag(tmp_path, capsys):
    """The layout of the Large Movie Review Dataset, whose texts in `unsup` have no label."""
    home = tmp_path / "aclImdb"
    by_label(home / "train", [*reviews(200), *((f"no label {n}", "unsup") for n in range(50))])
    (home / "train" / "urls_pos.txt").write_text("http://x")
    by_label(home / "test", reviews(60, seed=5))
    made = design({"data": {"train": [str(home)]}})
    assert made.config.task == "text_classification"
    assert (made.config.data.train, made.config.data.test) == ((str(home / "train"),), (str(home / "test"),))
    assert set(made.survey.labels) == {"good", "bad"}
    assert made.survey.split(made.config.data)["test"] == 60
    said = "\n".join(made.lines())
    assert "train for training, test for test: by their names" in said
    assert "200 texts in 2 sub-folders, one per label; --task overrides" in said
    assert "unsup is not a label" in said
    other = by_label(tmp_path / "other", reviews(40, seed=6))
    given = design({"data": {"train": [str(home)], "test": [str(other)]}})
    assert given.config.data.test == (str(other),)
    assert cli.main(["doctor", str(home)]) == 0
    assert "200 texts" in capsys.readouterr().out


@pytest.mark.parametrize("names", [("train", "plane"), ("train", "valid", "dev"), ("test", "dev")])
def test_folders_that_are_not_clearly_parts_stay_labels(names, tmp_path):
    for name in names:
        (tmp_path / name).mkdir()
    assert parts_in(str(tmp_path)) == {}


def test_pairs_and_numbers_are_not_taken_for_labels(tmp_path):
    pairs = write(tmp_path / "a.tsv", [f"{number}+5\t{number + 5}" for number in range(300)])
    assert recognise([pairs], DataConfig(), "text_to_text").task == "text_to_text"


def test_every_label_is_in_training_and_its_share_in_validation(tmp_path):
    rows = [*reviews(100), ("the only one", "rare")]
    path = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in rows])
    data = DataConfig(train=(path,), held_out=0.2)
    corpus = Corpus(task_class("text_classification"), data)
    parts = {part: Counter(example.label for example in corpus.examples(part)) for part in ("train", "valid")}
    assert parts["train"]["rare"] == 1
    for label in ("good", "bad"):
        total = sum(other == label for _, other in rows)
        assert abs(parts["valid"][label] - 0.2 * total) <= 1


def test_uneven_labels_are_weighted_with_the_reason(tmp_path):
    rows = [*reviews(300, labels=("good",)), *reviews(12, labels=("bad",))]
    path = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in rows])
    made = design({"data": {"train": [path]}})
    assert made.config.model["head"]["balance"] == 0.5
    assert any("the most frequent label has 300 texts, the rarest 12" in line for line in made.lines())


def test_the_amount_of_text_decides_the_model(tmp_path, monkeypatch):
    path = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in reviews(100)])
    few = design({"data": {"train": [path]}}).config
    assert (few.model["preset"], few.tokenizer.source, few.training.metric) == ("kim2014", "words", "loss")
    rows = task_class("text_classification").toy(0)
    words = write(tmp_path / "w.tsv", [f"{row['text']}\t{row['label']}" for row in rows])
    letters = design({"data": {"train": [words]}}).config
    assert (letters.model["preset"], letters.tokenizer.source) == ("tiny-classifier", "characters")
    monkeypatch.setattr("seqwright.recipes.text_classification.LITTLE", 0)
    text = design({"data": {"train": [path]}}).config
    assert (text.model["preset"], text.tokenizer.source["kind"]) == ("ngram-classifier", "bpe")
    assert text.tokenizer.sampled  # few texts in three minutes: each is seen very often
    assert text.training.optimizer["decay"] == 1
    assert text.training.most_epochs > 15  # 2,000 steps
    short = design({"data": {"train": [path]}, "training": {"epochs": 5}}).config
    assert (short.tokenizer.sampled, short.training.optimizer["decay"]) == (False, 0.05)
    assert short.training.most_epochs is None  # as long as requested
    monkeypatch.setattr("seqwright.recipes.text_classification.STEPS", 1)
    much = design({"data": {"train": [path]}})
    assert (much.config.training.most_epochs, much.config.tokenizer.sampled) == (3, False)
    assert any("3 epochs at most: further passes would overfit" in line for line in much.lines())
    other = design({"data": {"train": [path]}, "model": {"preset": "lstm-classifier"}})
    assert "lstm-classifier, dropout" in "\n".join(other.lines())


@pytest.mark.parametrize(("preset", "most"), [("ngram-classifier", 1000), ("lstm-classifier", 400)])
def test_more_of_a_long_text_is_read_where_that_is_cheap(preset, most, tmp_path):
    rows = [f"{text} {'word ' * 700}\t{label}" for text, label in reviews(60)]
    table = {"data": {"train": [write(tmp_path / "r.tsv", rows)]}, "model": {"preset": preset}}
    assert design(table).config.data.max_length == most


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("classified")
    path = write(folder / "r.tsv", [f"{text}\t{label}" for text, label in reviews(400)])
    assert cli.main(["train", path, "--out", str(folder / "run"), *FAST]) == 0
    return folder / "run"


def test_a_blank_line_has_a_blank_answer(run, tmp_path, capsys):
    assert cli.main(["predict", str(run), write(tmp_path / "in.txt", ["good good", "", "bad bad"])]) == 0
    first, blank, last = capsys.readouterr().out.splitlines()
    assert first
    assert last
    assert blank == ""


def test_a_classifier_learns_and_answers_with_probabilities(run, tmp_path, capsys):
    test = write(tmp_path / "t.tsv", [f"{text}\t{label}" for text, label in reviews(100, seed=9)])
    assert cli.main(["evaluate", str(run), test, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["accuracy"] > 90 > found["baseline"]["accuracy"]
    assert {"macro_f1", "expected_calibration_error"} <= found["metrics"].keys()
    assert [row[0] for row in found["tables"]["label"]["rows"]]
    inputs = write(tmp_path / "in.txt", ["superb great fine", "", "awful sad boring"])
    assert cli.main(["predict", str(run), inputs, "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answers[0]["label"], answers[2]["label"]] == ["good", "bad"]
    for answer in answers:
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert (run / "report.html").exists()


GIVEN = {
    "a label behind a tab": ("in.tsv", ["superb great\tgood", "awful sad\tbad"]),
    "a label before a tab": ("in.tsv", ["good\tsuperb great", "bad\tawful sad"]),
    "a table with a header": ("in.csv", ["text,label", '"superb great",good', "awful sad,bad"]),
    "a table without labels": ("in.csv", ["id,text", '1,"superb, great"', "2,awful sad"]),
    "JSON lines": ("in.jsonl", ['{"text": "superb great", "label": "good"}', '{"text": "awful sad"}']),
    "fastText": ("in.txt", ["__label__good superb great", "__label__bad awful sad"]),
}


@pytest.mark.parametrize("layout", GIVEN)
def test_files_with_labels_are_predicted_by_their_texts(run, layout, tmp_path, capsys):
    name, lines = GIVEN[layout]
    assert cli.main(["predict", str(run), write(tmp_path / name, lines), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["source"].replace(",", "") for each in found] == ["superb great", "awful sad"]
    assert [each["label"] for each in found] == ["good", "bad"]


def test_a_bad_row_of_a_table_is_named(run, tmp_path, capsys):
    file = write(tmp_path / "in.csv", ["text,label", "superb,good", "sad,dull,bad"])
    assert cli.main(["predict", str(run), file, "--json"]) == 2
    assert "in.csv:3: 3 columns instead of 2" in capsys.readouterr().err


def test_scores_are_log_probabilities_of_labels(run):
    model = seqwright.load(run)
    (answer,) = model.predict("superb great fine")
    scores = model.score([("superb great fine", label) for label in answer.probabilities])
    assert scores == pytest.approx([math.log(p) for p in answer.probabilities.values()], abs=1e-4)


def test_unsure_answers_are_counted_and_the_calibration_is_stated(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # a panel cuts long names
    other = tmp_path / "run"
    shutil.copytree(run, other)
    labels = Labels.load(other / "labels.json")
    replace(labels, temperature=1.25, unsure=0.999).save(other / "labels.json")
    file = write(tmp_path / "in.txt", ["fine sad", "", "superb poor"])
    assert cli.main(["predict", str(other), file]) == 0
    line = "2 of 2 answers are unsure, below p = 1.00; --json has the probabilities"
    assert line in capsys.readouterr().err
    assert cli.main(["predict", str(other), file, "--json"]) == 0
    assert "unsure" not in capsys.readouterr().err
    assert cli.main(["predict", str(other), "fine sad"]) == 0
    assert "1 of 1 answer is unsure, below p = 1.00" in capsys.readouterr().err
    calibration = "temperature 1.25, unsure below p = 1.00"
    assert cli.main(["describe", str(other)]) == 0
    assert capsys.readouterr().out.endswith(f"# calibration of the probabilities: {calibration}\n")
    test = write(Path("t.tsv"), [f"{text}\t{label}" for text, label in reviews(20, seed=9)])
    assert cli.main(["evaluate", "run", test]) == 0
    assert f"20 items, {calibration}" in capsys.readouterr().out


def test_long_texts_are_cut_and_counted(run):
    model = seqwright.load(run)
    (answer,) = model.predict("fine " * 500)
    assert answer.reading.unread == answer.reading.tokens - model.longest > 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([f"{text}\tgood" for text, _ in reviews(60)], "every text has the label 'good'"),
        ([f"\t{label}" for _, label in reviews(60)], "no pairs"),
        ([*(f"{text}\t{label}" for text, label in reviews(60)), "x" * 50_000_000 + "\tgood"], "r.tsv:61"),
    ],
)
def test_data_that_cannot_work_is_one_line(rows, words, tmp_path, capsys):
    path = write(tmp_path / "r.tsv", rows)
    command = ["train", path, "--task", "text_classification", "--out", str(tmp_path / "run"), *FAST]
    assert cli.main(command) == 2
    assert words in capsys.readouterr().err


def test_labels_that_look_like_numbers_and_one_that_validation_lacks(tmp_path, capsys):
    """Grades, one of them seen once: it is for training, and keeps its number."""
    rows = [(text, "2" if label == "good" else "1") for text, label in reviews(150)]
    path = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in [*rows, ("so so", "10")]])
    assert cli.main(["train", path, "--out", str(tmp_path / "run"), *FAST[:-1], "--steps=3"]) == 0
    assert json.loads((tmp_path / "run" / "labels.json").read_text())["names"] == ["1", "2", "10"]
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    assert (data["labels"]["10"], sum(data["labels"].values())) == (1, 151)
    capsys.readouterr()
    assert cli.main(["predict", str(tmp_path / "run"), write(tmp_path / "in.txt", ["fine"]), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer["label"], str)
    assert answer["probabilities"].keys() == {"1", "2", "10"}


def test_a_label_that_is_only_in_the_validation_file_is_named(tmp_path, capsys):
    train = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in reviews(60)])
    valid = write(tmp_path / "v.tsv", ["fine x\tgood", "odd y\tother"])
    command = ["train", train, "--valid", valid, "--task", "text_classification", "data.columns=1:2"]
    assert cli.main([*command, "--out", str(tmp_path / "run"), *FAST]) == 2
    assert "v.tsv:2: the label 'other' does not occur in the training data" in capsys.readouterr().err


def test_ten_thousand_labels(tmp_path):
    rows = [f"text {number % 7} {number % 10_000}\tlabel{number % 10_000}" for number in range(20_000)]
    path = write(tmp_path / "r.tsv", rows)
    made = design({"data": {"train": [path]}, "task": "text_classification"})
    assert len(made.survey.labels) == 10_000
    few = write(tmp_path / "few.tsv", rows[:10_100])
    end = {"steps": 2, "tokens": 512, "validations": 1, "decode": 20, "traces": 0}
    table = {"data": {"train": [few], "held_out": 0.01}, "training": end, "threads": 1}
    tiny.train(parse({**table, "task": "text_classification", "model": CLASSIFIER}), tmp_path / "run")
    (answer,) = seqwright.load(tmp_path / "run").predict("text 3 77")
    assert len(answer.probabilities) == 10_000
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    outputs = [f"label{number % 10_000}" for number in range(3000)]
    measured = METRICS.build("macro_f1").measured(outputs, [[output] for output in outputs])
    assert measured.value() == 100
    assert measured.interval(samples=20).low == 100


def test_labels_are_in_natural_order_and_keep_their_numbers(tmp_path):
    labels = Labels.of({"10": 1, "9": 2, "1": 3})
    assert labels.names == ("1", "9", "10")
    grown = labels.grown({"9": 5, "2": 1})
    assert grown.names == ("1", "9", "10", "2")
    assert grown.counts == (0, 5, 0, 1)
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels
    (tmp_path / "labels.json").write_text('{"format": 1, "names": ["a", "a"], "counts": [1, 1]}')
    with pytest.raises(ModelError, match="damaged"):
        Labels.load(tmp_path / "labels.json")


def test_the_temperature_minimises_the_loss():
    random_numbers = np.random.default_rng(1)
    scores, right = random_numbers.normal(size=(500, 4)), random_numbers.integers(4, size=500)
    scores[np.arange(500), right] += 1.0
    found = fitted_temperature(3 * scores, right)
    best = min(np.linspace(0.5, 15, 1000), key=lambda t: log_loss(3 * scores, right, t))
    assert found == pytest.approx(best, rel=0.02)


def test_above_the_threshold_there_are_half_as_many_errors():
    random_numbers = np.random.default_rng(2)
    scores, right = random_numbers.normal(size=(2000, 3)), random_numbers.integers(3, size=2000)
    scores[np.arange(2000), right] += random_numbers.exponential(2.0, size=2000)
    wrong = scores.argmax(1) != right
    powers = np.exp(scores)
    chances = powers.max(1) / powers.sum(1)
    sure = chances >= threshold(scores, right)
    assert 0.1 <= sure.mean() < 1
    assert wrong[sure].mean() <= wrong.mean() / 2
    assert threshold(scores[:5], right[:5]) == 0


def test_the_confusion_matrix_by_hand():
    expected, outputs = list("aaabbc"), list("aabbad")
    found = confusion_table(expected, outputs)
    assert found.headings == ("expected", "a", "b", "c", "d")
    assert found.rows == (("a", 2, 1, 0, 0), ("b", 1, 1, 0, 0), ("c", 0, 0, 0, 1), ("d", 0, 0, 0, 0))
    many = [str(number) for number in range(10_000)]
    assert len(confusion_table(many, many).rows) == 20


def test_the_report_draws_the_confusion_matrix_and_the_scores_by_label(run):
    evaluation = json.loads((run / "evaluation.json").read_text())
    labels = [row[0] for row in evaluation["tables"]["label"]["rows"]]
    page = (run / "report.html").read_text(encoding="utf-8")
    for label, *counts in evaluation["tables"]["confusion"]["rows"]:
        right = counts[labels.index(label)]
        assert f"<title>{label}, right: {right:,}</title>" in page
    assert "An n-gram classifier with" in page
    assert "By length of the text in words" in page
    assert page.count('<th scope="row">good</th>') >= 2  # the numbers of the matrix, and the table by label
    damaged = {**evaluation, "tables": {"confusion": {"headings": [1, None], "rows": [["x", "y"], 3]}}}
    record = Record(run)
    record.evaluation = Evaluation(damaged)
    assert "Precision, recall" not in str(errors(record))


def test_macro_f1_and_calibration_by_hand():
    references = [["a"], ["a"], ["a"], ["b"]]
    outputs = ["a", "a", "b", "b"]
    assert METRICS.build("macro_f1").score(outputs, references).value == pytest.approx(
        100 * (0.8 + 2 / 3) / 2
    )
    sure = [Label("a", {"a": 0.8}), Label("a", {"a": 0.8}), Label("a", {"a": 0.8}), Label("a", {"a": 0.8})]
    metric = METRICS.build("expected_calibration_error")
    assert metric.score([*map(metric.seen, sure)], references).value == pytest.approx(5)
    table = class_table(["a", "a", "a", "b"], outputs)
    assert table.rows[0] == ("a", 3, 100.0, pytest.approx(200 / 3), pytest.approx(80))


def test_a_field_of_tags_is_refused(tmp_path, capsys):
    file = write(tmp_path / "r.tsv", [f"{text}\t{label}" for text, label in reviews(60)])
    assert cli.main(["train", file, "--field", "xpos"]) == 2
    assert "the task here is text_classification: leave out --field" in capsys.readouterr().err


def test_a_single_label_is_refused_without_naming_the_task(tmp_path, capsys):
    file = write(tmp_path / "one.tsv", [f"text {number}\tpos" for number in range(30)])
    assert cli.main(["train", file]) == 2
    assert "every text has the label 'pos'" in capsys.readouterr().err


def test_a_text_is_required(run):
    with pytest.raises(InputError, match="not a text"):
        seqwright.load(run).predict([3])


def test_many_labels_of_three_texts_keep_most_of_them_for_training(tmp_path):
    rows = [f"word{number} text{number},label{number // 3}" for number in range(900)]
    path = write(tmp_path / "many.csv", ["text,label", *rows])
    corpus = Corpus(task_class("text_classification"), DataConfig(train=(path,), held_out=0.1))
    parts = {
        part: [example.label for example in corpus.examples(part)] for part in ("train", "valid", "test")
    }
    assert 690 <= len(parts["train"]) <= 750
    assert min(len(parts["valid"]), len(parts["test"])) >= 60
    assert len(set(parts["train"])) == 300

"""The figures in the tables of the README are those of bench/results."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from bench import conversation, families, forecasting, quality
from bench.peers import results as peers

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
SEARCHES = {"greedy, one sentence": (1, 1), "beam 5, one sentence": (5, 1), "beam 5, 32 sentences": (5, 32)}
SHAPES = ("tiny", "base")  # the two figures of a cell

# words of the row and minutes of the training -> results in quality.jsonl, of which the figure is the mean
ROWS = {
    ("multi30k", 30): ["multi30k-30"],
    ("pronunciation", "cmudict", 10): ["cmudict-10"],
    ("pronunciation", "cmudict", 60): ["cmudict-60"],
    ("inflection", "german", 15): ["inflection-german"],
    ("parts of speech", "ewt", 5): ["tagging-ewt"],
    ("trec", 3): ["trec"],
    ("imdb", 10): ["imdb"],
    ("tinyshakespeare", 15): ["shakespeare-15"],
    ("mnist", 3): ["mnist"],
}

Table = list[list[str]]


def tables() -> Iterator[Table]:
    """The cells of each markdown table, without the line under the header; "the same" is spelled out."""
    for block in re.findall(r"(?:^\|.*\n)+", README, flags=re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        for above, row in pairwise(rows[1:]):
            row[0] = row[0].replace("the same", above[0])
        yield [rows[0], *rows[2:]]


def figures(text: str) -> list[str]:
    return re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", text)


def is_rounded(figure: str, value: float) -> bool:
    """Whether the figure is the value to its own number of decimals, rounded up or down at a half."""
    digits = len(figure.partition(".")[2])
    return abs(float(figure) - value) <= 0.51 * 10**-digits


def result_rows() -> list[list[str]]:
    return [row for table in tables() if table[0][0] for row in table[1:] if figures(" ".join(row[1:]))]


def quality_rows() -> list[list[str]]:
    return [row for row in result_rows() if not row[0].startswith(("forecasting", "conversation"))]


@pytest.mark.parametrize("row", quality_rows(), ids=lambda row: " ".join(row[:2])[:60])
def test_a_score_is_that_of_the_latest_result(row):
    text = " ".join(row[:2]).lower()
    (names,) = [
        names
        for (*words, minutes), names in ROWS.items()
        if all(word in text for word in words) and re.search(rf"\b{minutes}\b", row[1])
    ]
    latest = {record["name"]: record for record in map(json.loads, quality.RESULTS.open(encoding="utf-8"))}
    experiment = quality.EXPERIMENTS[names[0]]
    score, published = figures(row[2]), figures(row[3])
    assert len(score) == 1
    assert is_rounded(score[0], statistics.mean(latest[n]["metrics"][experiment.metric] for n in names))
    known = zip(*(figures(quality.EXPERIMENTS[name].published) for name in names), strict=True)
    means = [statistics.mean(map(float, values)) for values in known]
    if experiment.linear:  # logistic regression in the same run
        means.append(latest[names[0]]["linear"])
    assert len(published) == len(means)
    assert all(map(is_rounded, published, means))


def test_each_result_has_one_row():
    assert len(quality_rows()) == len(ROWS)


def test_the_forecast_is_that_of_the_latest_result():
    (row,) = (row for row in result_rows() if row[0].startswith("forecasting"))
    records = map(json.loads, forecasting.RESULTS.open(encoding="utf-8"))
    last = {(record["name"], record["model"]): record for record in records}["ETTh1-96", "default"]
    (mse,), (published, linear) = figures(row[2]), figures(row[3])
    assert is_rounded(mse, last["metrics"]["mse"])
    assert is_rounded(linear, last["baselines"]["nlinear"]["mse"])
    assert float(published) == forecasting.EXPERIMENTS["ETTh1-96"].patches.mse


def test_the_conversations_are_those_of_the_latest_results():
    rows = [row for row in result_rows() if row[0].startswith("conversation")]
    records = map(json.loads, conversation.RESULTS.open(encoding="utf-8"))
    last = {record["name"]: record["metrics"] for record in records}
    (perplexity,), (recall,) = (figures(row[2]) for row in rows)
    assert is_rounded(perplexity, last["decoder-only"]["perplexity"])
    assert is_rounded(recall, last["retrieval"]["recall_at_1_of_10"])


def peer_cells() -> list[tuple[str, str, str]]:
    """(toolkit, work, cell) of the table whose header names toolkits."""
    return [
        (name, row[0], cell)
        for header, *rows in tables()
        if not header[0] and any(header)
        for row in rows
        for name, cell in zip(header[1:], row[1:], strict=True)
    ]


@pytest.mark.parametrize(("name", "work", "cell"), peer_cells())
def test_a_ratio_is_that_of_the_latest_contest(name, work, cell):
    def matches(record: dict, shape: str) -> bool:
        if not record["name"].startswith(name) or record["shape"] != shape or record["failure"]:
            return False
        if record["what"] == "train":
            return work.startswith("training") and record["asked"] == "own"
        return SEARCHES.get(work) == (record["beam"], record["rows"])

    assert len(figures(cell)) == len(SHAPES)
    for figure, shape in zip(figures(cell), SHAPES, strict=True):
        record = [record for record in peers.read(peers.RESULTS) if matches(record, shape)][-1]
        ratio = statistics.median(record["seqwright"]) / statistics.median(record["rates"])
        assert is_rounded(figure, ratio)


def test_there_is_a_table_of_toolkits():
    works = {work for _, work, _ in peer_cells()}
    assert works & SEARCHES.keys()
    assert works - SEARCHES.keys() == {"training on Multi30k, each with its own batches"}


@pytest.mark.parametrize(
    ("data", "words", "metric"),
    [("multi30k", "Sutskever et al. 2014", "bleu"), ("cifar10", "CIFAR-10, 15 minutes", "accuracy")],
)
def test_the_families_are_those_of_the_results(data, words, metric):
    measured = families.results()[data]["families"]
    paragraph = next(part for part in README.split("\n\n") if words in part)
    scores = [float(figure) for figure in figures(paragraph) if float(figure) > 10]
    found = sorted(family["metrics"][metric] for family in measured)
    assert len(scores) == len(found)
    assert all(abs(score - value) <= 0.051 for score, value in zip(sorted(scores), found, strict=True))

"""Files as users have them: one glance, one winning claim, and the evidence in one sentence."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path
from typing import Any

import pytest

from seqwright.config import DataConfig
from seqwright.data import glance as module
from seqwright.data.glance import FolderGlance, Glance, look_at, recognise
from seqwright.data.readers.images import image_layout
from seqwright.data.task import TASKS, Claim
from seqwright.errors import ConfigError
from seqwright.pipeline.design import design

WORDS = ["through", "cough", "tree", "Baum", "gehen", "liegen", "house", "river", "stone", "light"]


def lines(row: Any, count: int = 60) -> str:
    draw = random.Random(0)
    return "".join(f"{row(draw, number)}\n" for number in range(count))


def word(draw: random.Random, number: int) -> str:
    return f"{draw.choice(WORDS)}{number}"


# name of the file -> content, the task that wins, and what its evidence says; None: no task claims it
FIXTURES: dict[str, tuple[dict[str, str], str | None, str]] = {
    "pairs": ({"pairs.tsv": lines(lambda d, n: f"{word(d, n)}\t{word(d, n)}")}, "text_to_text", "2 columns"),
    "header": (
        {"pairs.tsv": "source\ttarget\n" + lines(lambda d, n: f"{word(d, n)}\t{word(d, n)}")},
        "text_to_text",
        "2 columns",
    ),
    "csv": (
        {"pairs.csv": lines(lambda d, n: f'"{word(d, n)}, x",{word(d, n)}')},
        "text_to_text",
        "2 columns",
    ),
    "jsonl": (
        {"pairs.jsonl": lines(lambda d, n: f'{{"question": "{word(d, n)}?", "answer": "{word(d, n)}"}}')},
        "text_to_text",
        "question, answer",
    ),
    "features": (
        {"verbs.tsv": lines(lambda d, n: f"{word(d, n)}\t{word(d, n)}t\tV;{d.choice(('PST', 'PRS'))};3;SG")},
        "text_to_text",
        "feature bundles",
    ),
    "parallel": (
        {"a.en": lines(lambda d, n: f"the {word(d, n)}"), "a.de": lines(lambda d, n: f"das {word(d, n)}")},
        "text_to_text",
        "equally many lines",
    ),
    "unequal": ({"a.en": lines(word, 20), "a.de": lines(word, 30)}, None, ""),
    "one column": (
        {"input.txt": lines(lambda d, n: f"running text with a {word(d, n)} in it")},
        "language_modeling",
        "running text",
    ),
    "several texts": (
        {"a.txt": lines(word, 20), "b.md": lines(word, 30)},
        "language_modeling",
        "running text",
    ),
    "one column of a table": ({"words.tsv": lines(word)}, None, ""),
    "json with a text": (
        {"texts.jsonl": lines(lambda d, n: f'{{"text": "{word(d, n)}"}}')},
        "language_modeling",
        "only a text",
    ),
    "empty": ({"nothing.tsv": ""}, None, ""),
}

# lines that name their speakers, or look like it
PEOPLE = ("Ann", "Bob Q.", "Ann", "Cid", "Ann")
TALKS = {
    "play.txt": lines(lambda d, n: f"{PEOPLE[n % 5].upper()}{' (aside)' * (n % 3 == 0)}: {word(d, n)}, yes!"),
    "android.txt": lines(lambda d, n: f"12/31/23, {n % 9 + 1}:15\u202fPM - {PEOPLE[n % 5]}: {word(d, n)}"),
    "ios.txt": lines(lambda d, n: f"\u200e[31.12.23, 21:{n:02}:03] {PEOPLE[n % 5]}: {word(d, n)} 9:15"),
    "close.txt": lines(lambda d, n: f"{PEOPLE[n % 5]}:{word(d, n)} and no space"),
    "tabs.txt": lines(lambda d, n: f"{PEOPLE[n % 5]}:\t{word(d, n)} after a tab"),
    "long.txt": lines(lambda d, n: f"{('Ann', 'Bob')[n % 2]}: {word(d, n)}", 6000),  # a sample has gaps
}
OTHERS = {
    "code.txt": lines(
        lambda d, n: f"if x:\n    {word(d, n)} = {n}\nelse:\n    y = {{'a': {n}}}\n    z: int = 1"
    ),
    "recipe.txt": lines(lambda d, n: f"Title: soup {n}\nServes: {n % 5}\nMethod: {word(d, n)} and stir\n"),
    "keys.txt": lines(lambda d, n: f"name:{word(d, n)}\nage:{n}\n"),
    "log.txt": lines(
        lambda d, n: f"{('INFO', 'ERROR', 'INFO', 'WARNING')[n % 4]}: the {word(d, n)} has begun"
    ),
    "verses.txt": lines(lambda d, n: f"{('Genesis', 'Exodus')[n % 2]} 1:{n} And the {word(d, n)} was there"),
    "links.txt": lines(
        lambda d, n: f"{('https', 'ftp')[n % 2]}://example.org/{word(d, n)} is a link to read"
    ),
    "times.txt": lines(lambda d, n: f"[31.12.23, 21:{n:02}:03] the {word(d, n)} was restarted at once"),
    "names.txt": lines(lambda d, n: f"{('std', 'Foo')[n % 2]}::{word(d, n)} is the name of a thing"),
}
FIXTURES |= {name: ({name: text}, "conversation", "name their speakers") for name, text in TALKS.items()}
FIXTURES |= {name: ({name: text}, "language_modeling", "running text") for name, text in OTHERS.items()}


def write(folder: Path, files: dict[str, str]) -> list[str]:
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [str(folder / name) for name in files]


@pytest.mark.parametrize("name", FIXTURES)
def test_each_fixture_has_one_winner_with_evidence(name, tmp_path):
    files, task, words = FIXTURES[name]
    found = recognise(write(tmp_path, files), DataConfig(), "text_to_text")
    if task is None:
        assert found == ("text_to_text", None)  # whose reader says what is wrong
    else:
        assert found.task == task
        assert words in found.evidence
        assert next(iter(files)) in found.evidence


@pytest.mark.parametrize("name", FIXTURES)
def test_claims_depend_on_the_glance_alone(name, tmp_path):
    found = look_at(write(tmp_path, FIXTURES[name][0]), DataConfig())
    for task in map(TASKS.get, TASKS.names()):
        assert task.claim(found) == task.claim(found)


def test_two_claims_of_one_tier_are_refused(tmp_path, monkeypatch):
    class Rival:
        @classmethod
        def claim(cls, glance: Any) -> Claim:
            return Claim(11, "mine, too")

    known = TASKS.get
    monkeypatch.setattr(TASKS, "names", lambda: ["text_to_text", "rival"])
    monkeypatch.setattr(TASKS, "get", lambda name: Rival if name == "rival" else known(name))
    files = write(tmp_path, FIXTURES["pairs"][0])
    with pytest.raises(ConfigError, match=r"fits text_to_text and rival; .*--task"):
        recognise(files, DataConfig(), "text_to_text")


def test_files_that_cannot_be_read_are_left_to_the_reader(tmp_path):
    assert recognise([str(tmp_path / "nowhere.tsv")], DataConfig(), "text_to_text").evidence is None
    (tmp_path / "bits").write_bytes(bytes(range(256)) * 100)
    assert recognise([str(tmp_path / "bits")], DataConfig(), "text_to_text").evidence is None


def test_compressed_files_are_looked_into(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(FIXTURES["pairs"][0]["pairs.tsv"].encode()))
    assert recognise([str(path)], DataConfig(), "text_to_text").evidence is not None


def test_columns_are_counted_over_the_whole_file_and_sampled_from_all_over(tmp_path, monkeypatch):
    """A file sorted by its labels: the first rows have one value only."""
    monkeypatch.setattr(module, "SAMPLE", 50)
    rows = [f"text {number}\t{'abc'[number // 400]}\t{number}" for number in range(1200)]
    (found,) = [look_at(write(tmp_path, {"sorted.tsv": "\n".join(rows)}), DataConfig())]
    text, label, number = found.columns
    assert (found.rows, text.distinct, label.distinct, number.distinct) == (1200, 1001, 3, 1001)
    assert set(label.sample) == {"a", "b", "c"}
    assert 25 <= len(label.sample) <= 51
    assert label.looks_like_labels(found.rows)
    assert not text.looks_like_labels(found.rows)
    assert not number.looks_like_labels(found.rows)
    assert (number.numbers, text.numbers) == (True, False)


def test_the_design_names_the_task_the_evidence_and_the_flag(tmp_path):
    (file,) = write(tmp_path, FIXTURES["pairs"][0])
    made = design({"data": {"train": [file]}})
    assert made.config.task == "text_to_text"
    (line,) = (line for line in made.lines() if "task text_to_text" in line)
    assert line.endswith("--task overrides")
    forced = design({"data": {"train": [file]}, "task": "text_to_text"})
    assert not any("--task" in line for line in forced.lines())
    with pytest.raises(ConfigError, match="unknown task 'text_to_txt'; did you mean 'text_to_text'"):
        design({"data": {"train": [file]}, "task": "text_to_txt"})


EXPORT = "id,Stars,Date,Review Text\n" + lines(
    lambda d, n: f'{n},{d.choice(("good", "bad"))},31.12.2024,"The {word(d, n)}\nis {word(d, n)}"'
)


def test_cells_of_several_lines_are_in_columns(tmp_path):
    found = look_at(write(tmp_path, {"export.csv": EXPORT}), DataConfig())
    assert (found.shape, found.width, found.rows) == ("csv", 4, 61)


@pytest.mark.parametrize("columns", ["Review Text:Stars", "4:2"])
def test_a_task_claims_the_requested_columns(columns, tmp_path):
    files = write(tmp_path, {"export.csv": EXPORT})
    assert recognise(files, DataConfig(columns=columns), "text_to_text").task == "text_classification"
    assert recognise(files, DataConfig(columns="id:Review Text"), "text_to_text").task == "text_to_text"


def texts(folder: Path, count: int, words: int, *labels: str) -> str:
    for label in labels:
        (folder / label).mkdir(parents=True)
        for number in range(count):
            (folder / label / f"{number}.txt").write_text("word " * words)
    return str(folder)


@pytest.mark.parametrize(
    ("count", "words", "labels", "task"),
    [
        (12, 50, ("letters",), "language_modeling"),  # one sub-folder is no label
        (3, 50, ("good", "bad"), "language_modeling"),  # too few texts for labels
        (12, 2000, ("one", "two"), "language_modeling"),  # books, not examples
        (12, 50, ("good", "bad"), "text_classification"),
    ],
)
def test_a_folder_of_texts_is_a_language_unless_its_folders_are_labels(tmp_path, count, words, labels, task):
    folder = texts(tmp_path / "texts", count, words, *labels)
    assert recognise([folder], DataConfig(), "text_to_text").task == task
    found = look_at([folder], DataConfig()).folder
    assert (len(found.files), found.words, dict(found.suffixes)) == (
        count * len(labels),
        words,
        {".txt": count * len(labels)},
    )


def test_a_folder_of_many_images_is_recognised_at_once():
    """The time grows with their number, not with its square: that would be minutes here."""
    names = tuple(f"{label}/{number}.jpg" for label in "ab" for number in range(20_000))
    began = time.process_time()
    layout = image_layout(Glance(("photos",), "folder", (), 0, (), FolderGlance(names, 0.0, names)))
    assert time.process_time() - began < 10
    assert layout is not None
    assert layout.kind == "labels"

"""Text classification by sentences: what is stored, what a model reads, and a training from a file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

import seqwright
from seqwright import cli
from seqwright.config import Config, parse
from seqwright.data.batch import Segments, Tokens
from seqwright.data.corpus import Corpus
from seqwright.data.tokenizer import END
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_classification import TextClassification
from seqwright.training.preparation import prepare

WORDS = {"good": ["fine", "great", "lovely"], "bad": ["awful", "poor", "sad"]}


def reviews(count: int = 120) -> list[tuple[str, str]]:
    """Sentences with one word that decides, of two or three; some lines are broken by HTML."""
    draw, rows = random.Random(1), []
    for number in range(count):
        label = draw.choice(sorted(WORDS))
        sentences = [f"It was n{number}.", f"Very {draw.choice(WORDS[label])}!", "That is all<br />I know"]
        draw.shuffle(sentences)
        rows.append((" ".join([*sentences[: draw.randint(2, 3)], draw.choice(WORDS[label])]), label))
    return rows


def configuration(folder: Path, model: Any, **changes: Any) -> Config:
    file = folder / "reviews.tsv"
    file.write_text("".join(f"{text}\t{label}\n" for text, label in reviews()))
    table: dict[str, Any] = {
        "task": "text_classification",
        "data": {"train": [str(file)], "held_out": 0.1, **changes.pop("data", {})},
        "tokenizer": {"source": "words", **changes.pop("tokenizer", {})},
        "model": model,
        "training": {"tokens": 200, "steps": 6, "average": 0.9, "decode": 20, **changes},
        "threads": 1,
    }
    return parse(table)


HIERARCHICAL = {"preset": "yang2016", "size": 8}
FLAT = {"preset": "lstm-classifier", "size": 8}


def fitted(folder: Path, model: Any = HIERARCHICAL, **changes: Any) -> TextClassification:
    config = configuration(folder, model, **changes)
    return TextClassification.fit(config, lambda: Corpus.of(config).examples("train"))


def spelled(task: TextClassification, source: Segments) -> list[list[str]]:
    """The sentences of each row."""
    texts: list[list[str]] = [[] for _ in source.counts]
    for row, ids in zip(source.index[0].tolist(), source.words.ids.tolist(), strict=True):
        texts[row].append(task.tokenizer.decode(ids))
    return texts


@pytest.mark.parametrize("sampled", [False, True])
def test_a_batch_has_the_sentences_of_its_texts(sampled, tmp_path):
    prepared = prepare(configuration(tmp_path, HIERARCHICAL, tokenizer={"sampled": sampled}), tmp_path)
    task: Any = prepared.task
    batch = task.batch(prepared.train, np.arange(4), seed=1, epoch=0)
    read = [example.text for example in Corpus.of(configuration(tmp_path, HIERARCHICAL)).examples("train")]
    expected = [
        [task.tokenizer.decode(task.tokenizer.encode(part)) for part in task.parts(text)] for text in read
    ]
    assert spelled(task, batch.source) == expected[:4]
    assert batch.tokens == batch.source.count == sum(map(len, batch.source.words.ids.ne(0).nonzero())) // 2
    shuffled = spelled(task, batch.with_shuffled_inputs().source)
    assert shuffled == [expected[3], *expected[:3]]


def test_boundaries_are_stored_only_for_an_encoder_that_reads_them(tmp_path):
    flat, by_sentences = fitted(tmp_path, FLAT), fitted(tmp_path)
    names = [{column.name for column in task.columns(readable=False)} for task in (flat, by_sentences)]
    assert names == [{"text", "label"}, {"text", "label", "sentences"}]
    assert flat.fingerprint != by_sentences.fingerprint
    (row,) = flat.encode(list(flat.inputs("It was. Very fine!")))
    assert isinstance(flat.source([row], 99), Tokens)
    assert "sentences" in by_sentences.summary
    assert "sentences" not in flat.summary


def test_limits_cut_sentences_and_texts(tmp_path):
    task = fitted(tmp_path, data={"max_sentence_length": 3, "max_sentences": 4, "max_length": 11})
    text = "It was all I know. Very fine! That is all. I know."
    (row,) = task.encode(list(task.inputs(text)))
    assert row.columns["sentences"] == [3, 3, 3, 2]
    assert row.length == 11
    reading = task.reading(row, task.input_limit(None))  # type: ignore[arg-type]
    assert reading.tokens - reading.unread == 11


def test_an_empty_text_is_a_sentence(tmp_path):
    task = fitted(tmp_path)
    rows = task.encode(list(task.inputs(["", "<br />", "It was."])))
    assert [row.columns["sentences"] for row in rows[:2]] == [[1], [1]]
    assert rows[0].columns["text"] == [END]
    torch.manual_seed(0)
    predictor = Predictor(seqwright.build_model(HIERARCHICAL, **task.facts()).eval(), task)
    answers = predictor.predict(["", "It was."])
    assert answers[0].reading.tokens == answers[0].reading.unread == 0
    assert predictor.predict([""])[0].probabilities == pytest.approx(answers[0].probabilities)


def test_a_stopped_training_resumes_exactly(tmp_path):
    whole = configuration(tmp_path, HIERARCHICAL, validate_every=3, save_seconds=1e6)
    tiny.train(whole, tmp_path / "whole")
    assert tiny.interrupted(whole, tmp_path / "parts", "train:step", 4) > 0
    tiny.train(whole, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")


@pytest.mark.parametrize("preset", ["yang2016", "tiny-hierarchical"])
def test_a_preset_learns_from_a_file(preset, tmp_path, capsys):
    file = tmp_path / "reviews.tsv"
    file.write_text("".join(f"{text}\t{label}\n" for text, label in reviews(200)))
    options = ["threads=1", "training.tokens=256", "model.size=32", "training.validations=2", "--steps=60"]
    command = ["train", str(file), "--out", str(tmp_path / "run"), f"model.preset={preset}", *options]
    assert cli.main(command) == 0
    assert "at most 100 sentences of at most 60 tokens" in capsys.readouterr().err
    model = seqwright.load(tmp_path / "run")
    texts = ["It was n1. Very lovely! great", "That is all<br />I know. Very poor! sad"]
    assert [answer.label for answer in model.predict(texts)] == ["good", "bad"]

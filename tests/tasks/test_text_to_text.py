"""Texts to ids and back, alone and in batches, as they are and cut at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import pair_store

from seqwright.config import Config
from seqwright.data.batch import BEGIN, END, PAD
from seqwright.data.store import Store
from seqwright.data.tokenizer import train_tokenizer
from seqwright.tasks.text_to_text import JOINT, SOURCE, TARGET, TextToText

PAIRS = [("abba", "xyy"), ("a", "x"), ("cab", "yxzx"), ("abcabc", "zz")]
CHARACTERS = [train_tokenizer("characters", side) for side in zip(*PAIRS, strict=True)]
SAMPLED = [train_tokenizer("bpe", side, max_size=12, dropout=0.5) for side in zip(*PAIRS * 9, strict=True)]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    task = TextToText(*CHARACTERS)
    examples = [(task.source.encode(s), task.target.encode(t), (s, t)) for s, t in PAIRS]
    return pair_store(tmp_path_factory.mktemp("store") / "s", examples, vocabulary=20, texts=True)


@given(numbers=st.lists(st.integers(0, len(PAIRS) - 1), min_size=1, max_size=6))
def test_a_batch_holds_what_the_texts_say(store, numbers):
    task = TextToText(*CHARACTERS)
    batch = task.batch(store, np.array(numbers))
    for row, number in enumerate(numbers):
        source = [i for i in batch.source.ids[row].tolist() if i != PAD]
        said = [i for i in batch.expected[row].tolist() if i != PAD]
        read = [i for i in batch.target.ids[row].tolist() if i != PAD]
        assert (source[-1], said[-1], read[0]) == (END, END, BEGIN)
        assert read[1:] == said[:-1]
        assert (task.source.decode(source[:-1]), task.text(said[:-1])) == PAIRS[number]


def sources(task: TextToText, store: Store, **options: int) -> list[list[int]]:
    return task.batch(store, np.arange(len(PAIRS)), **options).source.ids.tolist()


def test_sampled_cuts_are_a_function_of_seed_epoch_and_example(store):
    task = TextToText(*SAMPLED, sampled=True)
    first = sources(task, store, seed=1, epoch=0)
    assert sources(task, store, seed=1, epoch=0) == first
    assert any(sources(task, store, seed=1, epoch=epoch) != first for epoch in range(1, 5))
    alone = [
        task.batch(store, np.array([n]), seed=1, epoch=0).source.ids[0].tolist() for n in range(len(PAIRS))
    ]
    assert [[i for i in row if i != PAD] for row in first] == alone


def test_sampled_cuts_say_the_same_text(store):
    task = TextToText(*SAMPLED, sampled=True)
    for epoch in range(5):
        batch = task.batch(store, np.arange(len(PAIRS)), seed=3, epoch=epoch)
        texts = [
            task.source.decode([i for i in row if i not in (PAD, END)]) for row in batch.source.ids.tolist()
        ]
        assert texts == [source for source, _ in PAIRS]


def test_without_an_epoch_nothing_is_drawn(store):
    task = TextToText(*CHARACTERS, sampled=True)
    assert sources(task, store) == sources(TextToText(*CHARACTERS), store)


def test_it_comes_back_from_its_folder(tmp_path):
    TextToText(*CHARACTERS).save(tmp_path)
    assert TextToText.load(tmp_path, Config()).fingerprint == TextToText(*CHARACTERS).fingerprint
    joint = train_tokenizer("characters", [text for pair in PAIRS for text in pair])
    TextToText(joint, joint).save(tmp_path)
    loaded = TextToText.load(tmp_path, Config())
    assert loaded.source is loaded.target
    assert loaded.fingerprint == TextToText(joint, joint).fingerprint


def test_what_was_saved_before_does_not_come_back(tmp_path):
    joint = train_tokenizer("characters", ["abc"])
    TextToText(joint, joint).save(tmp_path)
    TextToText(*CHARACTERS).save(tmp_path)
    assert TextToText.load(tmp_path, Config()).fingerprint == TextToText(*CHARACTERS).fingerprint
    assert {path.name for path in tmp_path.iterdir()} == {SOURCE, TARGET}
    TextToText(joint, joint).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {JOINT}


def test_an_output_is_one_line():
    task = TextToText(*(train_tokenizer("characters", ["a\n\rb"]) for _ in range(2)))
    assert task.text(task.target.encode("a\nb")) == "a b"
    assert task.text(task.target.encode("a\rb")) == "a b"  # text files of Python end a line there, too


def test_inputs_have_no_target_and_targets_may_be_absent():
    task = TextToText(*CHARACTERS)
    rows = task.encode(list(task.inputs(["ab", ("a",)])))
    assert [row.columns for row in rows] == [{"source": task.source.encode(text)} for text in ("ab", "a")]
    assert [row.length for row in rows] == [2, 1]

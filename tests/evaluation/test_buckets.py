"""Buckets partition the items and have names that describe them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import pair_store

from seqwright.data.fields import join_fields
from seqwright.data.tokenizer import train_tokenizer
from seqwright.evaluation.buckets import PARTS, Rarity, by_ending, by_length, by_rarity, rarity_of_run
from seqwright.tasks.text_to_text import TextToText


@given(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=60))
def test_length_buckets_partition_the_items(sources):
    buckets = by_length(sources, "characters")
    assert sorted(item for bucket in buckets for item in bucket.items) == list(range(len(sources)))
    assert len(buckets) <= PARTS
    end = 0
    for bucket in buckets:
        low, _, high = bucket.name.partition("–")
        lengths = {len(sources[item]) for item in bucket.items}
        assert (min(lengths), max(lengths)) == (int(low), int(high or low))
        assert int(low) > end
        end = int(high or low)


def test_equal_parts_are_equal_where_they_can_be():
    buckets = by_length(["a" * (1 + number % 10) for number in range(100)], "characters")
    assert [(bucket.name, len(bucket.items)) for bucket in buckets] == [
        ("1–2", 20),
        ("3–4", 20),
        ("5–6", 20),
        ("7–8", 20),
        ("9–10", 20),
    ]


def test_sentences_are_counted_in_words_and_features_not_at_all():
    assert by_length(["one two three"], "text")[0].name == "3"
    assert by_length(["K AE T"], "symbols")[0].name == "3"
    assert by_length([join_fields(["gehen", ["V", "PST"]])], "characters")[0].name == "5"


def test_rarity_is_named_by_powers_of_ten():
    times = [0, 1, 9, 10, 99, 12_345, 1_000]
    buckets = by_rarity([""] * len(times), Rarity("rarity", lambda sources: times))
    assert [(bucket.name, bucket.items) for bucket in buckets] == [
        ("never", (0,)),
        ("1–9", (1, 2)),
        ("10–99", (3, 4)),
        ("1,000–9,999", (6,)),
        ("10,000 or more", (5,)),
    ]


TEXTS = ["abba", "ab", "cab", "b"]
SOURCES = ["ab", "ca", "abz", ""]


@pytest.fixture
def task() -> TextToText:
    tokenizer = train_tokenizer("characters", TEXTS)
    return TextToText(tokenizer, tokenizer)


def counted(sources: list[str]) -> list[int]:
    counts = Counter("".join(TEXTS))
    return [min((counts[letter] for letter in source), default=0) for source in sources]


def test_rarity_is_counted_in_the_prepared_data(task, tmp_path):
    (tmp_path / "data").mkdir()
    rows = [(task.source.encode(text), task.target.encode(text)) for text in TEXTS]
    pair_store(tmp_path / "data" / "train", rows, vocabulary=task.source.size)
    rarity = rarity_of_run(tmp_path, task.source)
    assert rarity is not None
    assert rarity.times(SOURCES) == counted(SOURCES) == [4, 1, 0, 0]


def test_rarity_falls_back_on_the_alphabet(task, tmp_path):
    assert rarity_of_run(tmp_path, task.source) is None
    alphabet = Counter("".join(TEXTS))
    (tmp_path / "data.json").write_text(json.dumps({"source": {"alphabet": alphabet}}), encoding="utf-8")
    rarity = rarity_of_run(tmp_path, task.source)
    assert rarity is not None
    assert rarity.times(SOURCES) == counted(SOURCES)
    assert "character" in rarity.name


def test_endings_form_buckets_if_they_differ():
    assert by_ending(["end", "end"]) == ()
    assert by_ending(["end", "length", "end"]) == (("end", (0, 2)), ("length", (1,)))

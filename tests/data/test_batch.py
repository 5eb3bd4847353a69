"""A batch holds what was put in, between its begin and end, and nothing else."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import pair_store

from seqwright.data.batch import BEGIN, END, PAD, Segments, collate, segments, source_tokens
from seqwright.data.store import Ragged

ids = st.lists(st.integers(4, 99), max_size=6)
pairs = st.lists(st.tuples(ids, ids), max_size=6)


def naive(rows: list[list[int]]) -> list[list[int]]:
    width = max(map(len, rows), default=1)
    return [row + [PAD] * (width - len(row)) for row in rows]


@settings(max_examples=100, deadline=None)
@given(pairs=pairs)
def test_collate_equals_a_loop(pairs):
    index = np.arange(len(pairs)) + 7
    batch = collate(Ragged.of([x for x, _ in pairs]), Ragged.of([y for _, y in pairs]), index)
    assert batch.source.ids.tolist() == naive([[*x, END] for x, _ in pairs])
    assert batch.target.ids.tolist() == naive([[BEGIN, *y] for _, y in pairs])
    assert batch.expected.tolist() == naive([[*y, END] for _, y in pairs])
    assert batch.index is index
    assert batch.rows == len(pairs)
    assert batch.count == sum(len(y) + 1 for _, y in pairs)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ids, min_size=1, max_size=6))
def test_real_is_where_something_stands_and_none_without_padding(rows):
    tokens = source_tokens(Ragged.of(rows))
    equal = len({len(row) for row in rows}) == 1
    assert (tokens.real is None) == equal
    if not equal:
        assert tokens.real.tolist() == (tokens.ids != PAD).tolist()


def test_a_source_is_never_empty():
    tokens = source_tokens(Ragged.of([[], []]))
    assert tokens.ids.tolist() == [[END], [END]]


def test_from_store_to_batch(tmp_path):
    store = pair_store(tmp_path / "s", [([4], [5, 6]), ([7, 8], []), ([9], [9])], vocabulary=70_000)
    numbers = np.array([2, 0], dtype=np.int32)
    batch = collate(*(store.column(side).gather(numbers) for side in ("source", "target")), numbers)
    assert batch.source.ids.tolist() == [[9, END], [4, END]]
    assert batch.expected.tolist() == [[9, END, PAD], [5, 6, END]]
    assert batch.expected.dtype == batch.source.ids.dtype == batch.target.lengths.dtype == torch.int64


def test_shuffled_inputs_keep_the_targets():
    batch = collate(Ragged.of([[4], [5, 6]]), Ragged.of([[7], [8]]), np.arange(2))
    moved = batch.with_shuffled_inputs()
    assert moved.source.ids.tolist() == batch.source.ids.tolist()[::-1]
    assert moved.source.lengths.tolist() == batch.source.lengths.tolist()[::-1]
    assert moved.expected is batch.expected
    assert (batch.count, batch.tokens) == (4, 9)


def texts_of(batch: Segments) -> list[list[list[int]]]:
    """The sentences of each row."""
    texts: list[list[list[int]]] = [[] for _ in batch.counts]
    rows, numbers = batch.index
    lengths = batch.words.lengths
    for i, (row, number) in enumerate(zip(rows.tolist(), numbers.tolist(), strict=True)):
        assert number == len(texts[row])
        texts[row].append(batch.words.ids[i, : None if lengths is None else lengths[i]].tolist())
    return texts


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=4), max_size=4), min_size=1, max_size=5
    ).filter(any)
)
def test_segments_keep_sentences_and_their_rows(texts):
    flat = Ragged.of([[word for sentence in text for word in sentence] for text in texts])
    found = segments(flat, Ragged.of([list(map(len, text)) for text in texts]))
    assert texts_of(found) == texts
    assert found.count == len(flat.flat)
    assert found.longest == max(map(len, texts))
    assert texts_of(found.rolled()) == texts[-1:] + texts[:-1]


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ids, min_size=1, max_size=5))
def test_a_source_without_boundaries_has_a_sentence_per_token(rows):
    found = Segments.of_tokens(source_tokens(Ragged.of(rows)))
    assert texts_of(found) == [[[word] for word in [*row, END]] for row in rows]

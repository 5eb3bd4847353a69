"""A batch holds what was put in, between its begin and end, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens, collate, map_tensors, source_tokens
from seqwright.data.store import Ragged, Store

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
    store = Store.build(tmp_path / "s", [([4], [5, 6]), ([7, 8], []), ([9], [9])], key="", vocabulary=70_000)
    numbers = np.array([2, 0], dtype=np.int32)
    batch = collate(*store.gather(numbers), numbers)
    assert batch.source.ids.tolist() == [[9, END], [4, END]]
    assert batch.expected.tolist() == [[9, END, PAD], [5, 6, END]]
    assert batch.expected.dtype == batch.source.ids.dtype == batch.target.lengths.dtype == torch.int64


class Pair(NamedTuple):
    left: torch.Tensor
    right: str


@dataclass(frozen=True)
class Nest:
    parts: list
    named: dict
    pair: Pair
    plain: tuple
    note: str = "kept"


def test_map_tensors_reaches_every_tensor_and_keeps_the_rest():
    one = torch.ones(2)
    nest = Nest([one, 3], {"a": one, "b": None}, Pair(one, "x"), (one, (one,)))
    double = map_tensors(nest, lambda tensor: tensor * 2)
    assert [
        double.parts[0].sum(),
        double.named["a"].sum(),
        double.pair.left.sum(),
        double.plain[1][0].sum(),
    ] == [4] * 4
    assert type(double.pair) is Pair
    assert (double.parts[1], double.named["b"], double.pair.right, double.note) == (3, None, "x", "kept")
    assert nest.parts[0].sum() == 2


def test_map_tensors_on_a_batch():
    batch = Batch(
        Tokens(torch.ones(1, 2)), Tokens(torch.ones(1, 2), torch.tensor([2])), torch.ones(1, 2), np.arange(1)
    )
    seen: list[int] = []
    same = map_tensors(batch, lambda tensor: seen.append(tensor.numel()) or tensor)
    assert sorted(seen) == [1, 2, 2, 2]
    assert same.source.lengths is None
    assert same.index is batch.index

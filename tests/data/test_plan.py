"""The order of training is a pure function: every example once, within the budget, any batch reachable."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqwright.data.plan import Batching, Cursor, Plan, RowLengths, item_seed, split
from seqwright.errors import ConfigError, ModelError


def lengths_like_multi30k(count: int, seed: int = 0) -> RowLengths:
    """About 13 pieces a side with a correlation of .83."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.5, 0.35, count).round(), 3, 45)
    target = np.clip((source * random.lognormal(0, 0.22, count)).round(), 2, 50)
    return RowLengths(source.astype(np.int32), target.astype(np.int32))


def listed(epoch) -> list[list[int]]:
    return [batch.tolist() for batch in epoch]


side = st.integers(0, 30)
some_lengths = st.lists(st.tuples(side, side), max_size=60).map(
    lambda pairs: RowLengths(*np.array(pairs, dtype=np.int32).reshape(-1, 2).T)
)
batchings = st.builds(
    Batching,
    tokens=st.integers(1, 80),
    source_tokens=st.none() | st.integers(1, 80),
    max_rows=st.none() | st.integers(1, 5),
    window=st.integers(1, 70),
    shuffle=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(lengths=some_lengths, batching=batchings, seed=st.integers(0, 1 << 40), number=st.integers(0, 3))
def test_every_example_once_and_never_over_budget(lengths, batching, seed, number):
    plan = Plan(lengths, batching, seed)
    epoch = plan.epoch(number)
    batches = listed(epoch)
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths.counted)))
    over = (lengths.counted >= batching.tokens) | (lengths.context >= batching.source_budget)
    alone = set(np.flatnonzero(over).tolist())
    for batch in batches:
        assert batch
        target = len(batch) * (lengths.counted[batch].max() + 1)
        source = len(batch) * (lengths.context[batch].max() + 1)
        fits = target <= batching.tokens and source <= batching.source_budget
        assert fits or (len(batch) == 1 and batch[0] in alone)
        assert len(batch) <= (batching.max_rows or len(batch))
    assert all([example] in batches for example in alone)


@settings(max_examples=50, deadline=None)
@given(lengths=some_lengths, batching=batchings)
def test_efficiency_counts_padding_as_it_is(lengths, batching):
    epoch = Plan(lengths, batching, 0).epoch(0)
    real = sum(int((part + 1).sum()) for part in lengths)
    padded = sum(len(batch) * int(part[batch].max() + 1) for batch in epoch for part in lengths)
    assert epoch.efficiency == pytest.approx(real / padded if padded else 1)


def test_an_epoch_does_not_depend_on_history():
    lengths, batching = lengths_like_multi30k(500), Batching(tokens=256)
    plan = Plan(lengths, batching, 7)
    forward = [listed(plan.epoch(number)) for number in range(3)]
    assert listed(plan.epoch(1)) == forward[1]
    assert listed(Plan(lengths, batching, 7).epoch(2)) == forward[2]
    assert plan.epoch(2)[3].tolist() == forward[2][3]


def test_epochs_and_seeds_differ():
    lengths, batching = lengths_like_multi30k(500), Batching(tokens=256)
    orders = [listed(Plan(lengths, batching, seed).epoch(epoch)) for seed in range(2) for epoch in range(3)]
    for one, other in itertools.combinations(orders, 2):
        assert one != other
        assert {frozenset(batch) for batch in one} != {frozenset(batch) for batch in other}


def test_neighbours_change_between_epochs_of_small_data():
    """Most pairs of examples that share a batch should not share one in the next epoch."""
    plan = Plan(lengths_like_multi30k(2000), Batching(tokens=512), 0)

    def together(number: int) -> set[tuple[int, int]]:
        return {
            pair for batch in plan.epoch(number) for pair in itertools.combinations(sorted(batch.tolist()), 2)
        }

    epochs = [together(number) for number in range(5)]
    kept = [len(one & other) / len(one) for one, other in itertools.combinations(epochs, 2)]
    assert np.mean(kept) < 0.5


def test_batches_come_in_no_order_of_length():
    lengths = lengths_like_multi30k(5000)
    widths = [lengths.counted[batch].max() for batch in Plan(lengths, Batching(tokens=512), 0).epoch(0)]
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3


def test_order_is_the_same_on_every_machine():
    """Computed once by hand from the raw stream of PCG64, which numpy promises to keep (NEP 19)."""
    raw = np.random.PCG64(np.random.SeedSequence([3, 1])).random_raw(6)
    same = RowLengths(np.full(6, 4, np.int32), np.full(6, 4, np.int32))
    (batch,) = Plan(same, Batching(), 3).epoch(1)
    assert batch.tolist() == sorted(range(6), key=raw.tolist().__getitem__)


def test_little_padding_on_real_lengths():
    epoch = Plan(lengths_like_multi30k(29_000), Batching(tokens=4096), 0).epoch(0)
    assert epoch.efficiency > 0.94
    assert len(epoch) < 120


def test_without_shuffle_the_order_is_fixed_and_from_short_to_long():
    lengths = lengths_like_multi30k(3000)
    plan = Plan(lengths, Batching(tokens=512, window=10, shuffle=False), 0)
    assert listed(plan.epoch(0)) == listed(plan.epoch(5)) == listed(Plan(lengths, plan.batching, 9).epoch(0))
    strips = lengths.context[np.concatenate(list(plan.epoch(0)))] // 2
    assert (np.diff(strips) >= 0).all()
    assert plan.epoch(0).efficiency > 0.9


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 40), parts=st.integers(1, 9))
def test_parts_of_a_batch_are_the_batch(rows, parts):
    batch = np.arange(100, 100 + rows)
    pieces = split(batch, parts)
    assert len(pieces) == parts
    assert np.concatenate(pieces).tolist() == batch.tolist()
    sizes = [len(piece) for piece in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_neighbours_pad_less_than_every_second_row():
    lengths = lengths_like_multi30k(5000)

    def places(parts) -> int:
        return sum(len(part) * int(side[part].max() + 1) for part in parts for side in lengths)

    epoch = Plan(lengths, Batching(tokens=4096), 0).epoch(0)
    neighbours = places(part for batch in epoch for part in split(batch, 2))
    alternate = places(batch[first::2] for batch in epoch for first in range(2))
    assert neighbours < alternate


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=5))
def test_stopping_and_going_on_changes_nothing(cuts):
    plan = Plan(lengths_like_multi30k(200), Batching(tokens=256), 1)
    straight = [(batch.tolist(), cursor) for batch, cursor in itertools.islice(plan.walk(Cursor()), 60)]
    for done in cuts:
        cursor = Cursor() if done == 0 else straight[done - 1][1]
        resumed = Cursor(**json.loads(json.dumps(asdict(cursor))))
        rest = [(batch.tolist(), after) for batch, after in itertools.islice(plan.walk(resumed), 60 - done)]
        assert rest == straight[done:]


def test_the_end_of_an_epoch_is_the_beginning_of_the_next():
    plan = Plan(lengths_like_multi30k(500), Batching(tokens=256), 1)
    sizes = [len(plan.epoch(number)) for number in range(3)]
    assert len(set(sizes)) > 1  # epochs are cut differently: positions cannot be found by dividing
    cursors = [after for _, after in itertools.islice(plan.walk(Cursor()), sum(sizes))]
    last = 500 - len(plan.epoch(0)[-1])
    assert cursors[sizes[0] - 2] == Cursor(0, sizes[0] - 1, sizes[0] - 1, last)
    assert cursors[sizes[0] - 1] == Cursor(1, 0, sizes[0], 500)
    assert cursors[-1] == Cursor(3, 0, sum(sizes), 1500)
    seen = [batch for batch, _ in itertools.islice(plan.walk(Cursor(1, 0)), sizes[1] + sizes[2])]
    assert np.bincount(np.concatenate(seen)).tolist() == [2] * 500


def test_a_position_of_other_batches_is_refused():
    plan = Plan(lengths_like_multi30k(200), Batching(tokens=256), 1)
    with pytest.raises(ModelError, match="outside epoch 0"):
        next(plan.walk(Cursor(0, 5000)))


def test_no_examples_no_batches():
    plan = Plan(RowLengths(np.empty(0, np.int32), np.empty(0, np.int32)), Batching(), 0)
    assert len(plan.epoch(0)) == 0
    assert list(plan.walk(Cursor())) == []
    assert plan.epoch(0).efficiency == 1


def test_identity_tells_what_changed():
    lengths = lengths_like_multi30k(10)
    one, other = Plan(lengths, Batching(), 1).identity, Plan(lengths, Batching(tokens=100), 1).identity
    assert {key for key in one if one[key] != other[key]} == {"tokens"}
    assert json.loads(json.dumps(one)) == one


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match=r"batching\.max_rows is 0"):
        Batching(max_rows=0)
    with pytest.raises(ConfigError, match="seed is -1"):
        Plan(lengths_like_multi30k(3), Batching(), -1)


def test_seeds_of_items_do_not_collide():
    seeds = {
        item_seed(seed, epoch, index) for seed in range(3) for epoch in range(11) for index in range(120)
    }
    assert len(seeds) == 3 * 11 * 120
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert item_seed(1, 11, 1) != item_seed(11, 1, 1) != item_seed(1, 1, 11)


def test_a_ramp_lets_batches_grow_and_reads_everything():
    lengths = lengths_like_multi30k(400)
    plan = Plan(lengths, Batching(tokens=300, ramp=3), 1)
    longest = []
    for number in range(4):
        batches = [plan.epoch(number)[k] for k in range(len(plan.epoch(number)))]
        assert sorted(np.concatenate(batches).tolist()) == list(range(400))
        longest.append(max(len(batch) * (int(lengths.counted[batch].max()) + 1) for batch in batches))
    assert longest[0] <= 100 < longest[1] <= 200 < longest[2] <= 300
    assert [len(plan.epoch(number)) for number in (2, 3)] == pytest.approx([len(plan.epoch(2))] * 2, rel=0.05)
    full = Plan(lengths, Batching(tokens=300), 1)
    assert [plan.epoch(2)[k].tolist() for k in range(5)] == [full.epoch(2)[k].tolist() for k in range(5)]
    assert plan.identity != full.identity
    assert "ramp" not in full.identity  # checkpoints from before there was one stay valid

"""A pool: rows that join and leave between steps get the tokens that they get alone."""

from __future__ import annotations

import random
import sys

import pytest
import torch
from cases import source, with_decoder

from seqwright.search import SamplingOptions, Start
from seqwright.search.generate import Cohort, Pool, generate

WAYS = (
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 3},
    {"temperature": 1.3, "top_p": 0.8, "min_length": 3},
    {"temperature": 0.0, "no_repeat": 2},
)


def searches(count, seed):
    """Sources, starts and options of searches, all different."""
    draw = random.Random(seed)
    for number in range(count):
        rows = draw.randint(1, 3)
        sources = [[draw.randint(4, 8) for _ in range(draw.randint(1, 4))] for _ in range(rows)]
        prefixes = [[draw.randint(4, 8) for _ in range(4)] for _ in sources] if draw.random() < 0.3 else ()
        limits = [draw.randint(5, 9) for _ in sources]
        seeds = [draw.getrandbits(30) for _ in sources]
        given = {
            "first": 2,
            "end": 3,
            "silent": (0, 2),
            "prefixes": prefixes,
            "limits": limits,
            "seeds": seeds,
        }
        yield sources, Start(rows=rows, **given), SamplingOptions(seed=number, **draw.choice(WAYS))


@pytest.mark.parametrize("short", [48, 2])  # tokens until a cohort changes its lane
@pytest.mark.parametrize(
    "case", ["transformer:rotary", "transformer:sinusoidal", "rnn:bahdanau", "alone-transformer:rotary"]
)
def test_tokens_do_not_depend_on_the_pool(monkeypatch, case, short):
    monkeypatch.setattr(sys.modules[Pool.__module__], "SHORT", short)
    model = with_decoder(case)
    for seed in range(3):
        draw, pool, waiting = random.Random(seed), Pool(model.step), list(searches(12, seed))
        found: dict[Cohort, list[list[tuple[int, float]]]] = {}
        expected = {}
        with torch.inference_mode():
            while waiting or pool:
                while waiting and (not pool or draw.random() < 0.4):
                    sources, start, options = waiting.pop()
                    alone = generate(model.step, model.start(source(sources)), start, options)
                    cohort = Cohort(model.step, model.start(source(sources)), start, options)
                    found[cohort], expected[cohort] = [[] for _ in sources], alone
                    for emitted in cohort.given:
                        for each in emitted:
                            found[cohort][each.row].append((each.token, each.log_prob))
                    pool.join([cohort])
                for cohort, emitted in pool.step():
                    for each in emitted:
                        found[cohort][each.row].append((each.token, each.log_prob))
        for cohort, rows in found.items():
            for row, wanted in zip(rows, expected[cohort], strict=True):
                ends = [3] if wanted.finish_reason == "end" else []
                assert [token for token, _ in row] == [*wanted.tokens, *ends]
                assert [score for _, score in row] == pytest.approx(wanted.token_scores, abs=1e-9)


def test_dropped_rows_leave_and_the_others_go_on():
    model = with_decoder("transformer:rotary")
    sources = [[4, 5], [6], [7, 8, 4]]
    start = Start(rows=3, first=2, end=3, silent=(0, 2, 3), limits=[6] * 3)
    options = SamplingOptions(temperature=0.0)
    with torch.inference_mode():
        alone = generate(model.step, model.start(source(sources)), start, options)
        pool, cohort = Pool(model.step), Cohort(model.step, model.start(source(sources)), start, options)
        pool.join([cohort])
        tokens = [[] for _ in sources]
        for step in range(6):
            for each in pool.step()[0][1]:
                tokens[each.row].append(each.token)
            if step == 1:
                pool.drop({cohort: {1}})
    assert tokens[0] == alone[0].tokens
    assert tokens[1] == alone[1].tokens[:2]
    assert tokens[2] == alone[2].tokens
    assert len(pool) == 0


def test_long_rows_leave_the_lane_of_the_short_ones(monkeypatch):
    monkeypatch.setattr(sys.modules[Pool.__module__], "SHORT", 4)
    model, lanes = with_decoder("transformer:rotary"), []
    pool, options = Pool(model.step), SamplingOptions(temperature=0.0)
    with torch.inference_mode():
        for number in range(20):
            if number in (0, 5):
                start = Start(rows=1, first=2, end=3, silent=(0, 2, 3), limits=[19 - number])
                pool.join([Cohort(model.step, model.start(source([[4, 5]])), start, options)])
            pool.step()
            lanes.append([[cohort.length for cohort in lane.cohorts] for lane in pool._lanes.values()])
    assert lanes[5] == [[6], [1]]  # the long row and the new one
    assert lanes[9] == [[10, 5]]  # both are long
    assert lanes[-1] == []


def test_a_joined_state_keeps_the_fast_path():
    """Rows of different lengths are stepped by the same operations as equal ones."""
    from seqwright.nn.kv_cache import StackedCache

    model = with_decoder("transformer:rotary")
    with torch.inference_mode():
        _, one = model.step(torch.tensor([[4]]), model.start(source([[6, 7, 8]])))
        _, other = model.step(torch.tensor([[5]]), model.start(source([[4]])))
        _, other = model.step(torch.tensor([[5]]), other)
        _, both = model.step(torch.tensor([[4], [4]]), one.join([other]))
    assert isinstance(both.past, StackedCache)

"""Schedules: their start, peak and end, and that they have no jumps."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.errors import ConfigError
from seqwright.training.schedule import SCHEDULES

FALLING = {"cosine": 0.0, "linear": 0.0}  # name -> final fraction


def factors(name: str, total: int, **options: float) -> list[float]:
    schedule = SCHEDULES.build({"kind": name, **options})
    return [schedule.factor(step, step / total) for step in range(1, total + 1)]


@pytest.mark.parametrize("name", SCHEDULES.names())
@given(total=st.integers(4, 300), warmup=st.integers(0, 400))
def test_every_schedule_rises_to_one_and_never_rises_again(name, total, warmup):
    found = factors(name, total, warmup=warmup)
    peak = max(1, math.ceil(min(warmup, total / 2)))
    assert found[: peak - 1] == [step / min(warmup, total / 2) for step in range(1, peak)]
    assert found[peak - 1] == pytest.approx(1.0, abs=2 / total)  # the peak may lie between two steps
    after = found[peak - 1 :]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(after))
    assert all(0 <= factor <= 1 for factor in found)


@pytest.mark.parametrize("name", sorted(FALLING))
@given(total=st.integers(2, 300), warmup=st.integers(0, 400), floor=st.floats(0, 1))
def test_a_falling_schedule_ends_at_its_floor(name, total, warmup, floor):
    assert factors(name, total, warmup=warmup, floor=floor)[-1] == pytest.approx(floor)


def test_a_warm_up_longer_than_half_the_training_is_cut():
    assert factors("constant", 10, warmup=400) == [0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1, 1]


def test_inverse_square_root_is_that_of_the_paper():
    """Vaswani et al. 2017, eq. 3, divided by its value at the end of the warm-up."""
    warmup, total = 40, 1000
    paper = [min(step**-0.5, step * warmup**-1.5) * warmup**0.5 for step in range(1, total + 1)]
    assert factors("inverse_sqrt", total, warmup=warmup) == pytest.approx(paper)


def test_linear_is_flat_and_then_straight():
    found = factors("linear", 100, warmup=0, flat=0.4)
    assert found[:40] == [1.0] * 40
    assert found[40:] == pytest.approx([1 - (step - 40) / 60 for step in range(41, 101)])


def test_before_the_end_is_known_the_rate_warms_up_and_stays():
    schedule = SCHEDULES.build({"kind": "linear", "warmup": 10})
    assert [schedule.factor(step, 0.0) for step in (1, 5, 10, 50)] == [0.1, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "linear", "warmup": -1}, "warmup of schedule linear is -1"),
        ({"kind": "linear", "flat": 1.0}, "flat of schedule linear is 1.0"),
        ({"kind": "cosine", "floor": 1.5}, "floor of schedule cosine is 1.5"),
        ({"kind": "linear", "floor": -0.1}, "floor of schedule linear is -0.1"),
        ({"kind": "cosin"}, "did you mean 'cosine'"),
        ({"kind": "constant", "warmups": 3}, "did you mean 'warmup'"),
    ],
)
def test_a_wrong_option_is_named(spec, message):
    with pytest.raises(ConfigError, match=message):
        SCHEDULES.build(spec)

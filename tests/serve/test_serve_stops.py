"""Stops: the output before them, at a cost that follows the output."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.serve.stops import Stops

LETTERS = st.text("ab", max_size=30)


def expected(text, stops):
    """The output before the stop that is complete first, by trying every end."""
    for end in range(1, len(text) + 1):
        if sizes := [len(stop) for stop in stops if text[:end].endswith(stop)]:
            return text[: end - max(sizes)], True
    return text, False


@given(text=LETTERS, stops=st.lists(st.text("ab", min_size=1, max_size=6), max_size=4), cuts=st.data())
def test_a_growing_output_shows_what_no_stop_can_take_back(text, stops, cuts):
    whole, stopped = expected(text, stops)
    assert Stops(stops).visible(text, final=True) == (whole, stopped)
    watched, end = Stops(stops), 0
    while end < len(text):
        end += cuts.draw(st.integers(1, 4))
        shown, found = watched.visible(text[:end])
        assert whole.startswith(shown)
        if found:
            assert (shown, True) == (whole, stopped)
            return
        held = [size for stop in stops for size in range(len(stop)) if text[:end].endswith(stop[:size])]
        assert len(text[:end]) - len(shown) == max(held, default=0)
    assert watched.visible(text, final=True) == (whole, stopped)


def test_an_incomplete_character_is_left_out_until_the_end():
    watched = Stops(["é!"])
    assert watched.visible("a\ufffd") == ("a", False)
    assert watched.visible("aé") == ("a", False)
    assert watched.visible("aé?") == ("aé?", False)
    assert watched.visible("aé?\ufffd", final=True) == ("aé?\ufffd", False)


def test_an_output_that_changes_is_read_again():
    watched = Stops(["bc"])
    assert watched.visible("ab") == ("a", False)
    assert watched.visible("xbc") == ("x", True)


@pytest.mark.parametrize("stop", ["a" * 900_000, "a" * 20_000 + "b", "b" + "a" * 900_000])
def test_long_stops_cost_no_more_than_short_ones(stop):
    """The output grows by a character at a time, and the longest stop nearly matches everywhere."""

    def seconds(texts):
        watched, began = Stops(texts), time.perf_counter()
        for size in range(2000):
            watched.visible("a" * size)
        return time.perf_counter() - began

    short = min(seconds(["ab"]) for _ in range(3))
    assert min(seconds([stop]) for _ in range(3)) < 10 * short + 0.02

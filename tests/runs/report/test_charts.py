"""Charts: positions of points, round ticks, thinning and smoothing."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.evaluation.mistakes import Confusion
from seqwright.evaluation.wording import glyph
from seqwright.runs.report import curves
from seqwright.runs.report.bars import MOST_COLUMNS, Bar, bar_chart, length_columns, split_bar, whisker
from seqwright.runs.report.curves import Clock, Curve, line_chart, running_median, thinned
from seqwright.runs.report.differences import closest, cutter, marked
from seqwright.runs.report.heat import heat_map
from seqwright.runs.report.scale import Scale, round_step

reals = st.floats(-1e6, 1e6, allow_nan=False)
values = st.lists(reals, min_size=1, max_size=40)


def numbers(name: str, svg: str) -> list[float]:
    return [float(found) for found in re.findall(rf'\b{name}="(-?[\d.]+)"', svg)]


@given(values)
def test_a_scale_holds_all_values_between_its_ends(found):
    scale = Scale.around(found, 200.0, 0.0)
    assert all(-1e-6 <= scale(value) <= 200 + 1e-6 for value in found)
    assert scale(scale.low) == 200
    assert scale(scale.high) == pytest.approx(0)


@given(values)
def test_ticks_are_few_round_and_inside(found):
    scale = Scale.around(found, 0.0, 1.0)
    ticks = scale.ticks(6)
    assert 1 <= len(ticks) <= 6
    assert ticks == sorted(set(ticks))
    assert all(-1e-6 <= scale(tick) <= 1 + 1e-6 for tick in ticks)


def test_a_wide_range_gets_a_logarithmic_scale():
    scale = Scale.around([0.1, 100.0], 0.0, 300.0)
    assert scale.log
    middle = scale(math.sqrt(0.1 * 100))
    assert middle == pytest.approx(150)
    assert scale.ticks() == [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
    assert not Scale.around([0.0, 100.0], 0.0, 1.0).log


@pytest.mark.parametrize(
    ("least", "step"), [(1, 1), (1.1, 2), (2.1, 5), (5.1, 10), (0.03, 0.05), (700, 1000)]
)
def test_a_round_step(least, step):
    assert round_step(least) == pytest.approx(step)


def test_a_point_is_drawn_at_its_position():
    """Step 50 of 100 is in the middle of the plot, and 5 in the middle of an axis from 0 to 10."""
    curve = Curve("x", [(0.0, 0.0), (50.0, 5.0), (100.0, 10.0)], "two", "marked")
    svg = line_chart("", [curve], Clock([100.0], [60.0], last=100.0), kept=50.0)
    left, right = curves.LEFT, curves.WIDTH - curves.RIGHT
    top, bottom = curves.TOP, curves.HEIGHT - curves.BOTTOM
    assert numbers("cx", svg) == [
        left,
        (left + right) / 2,
        right,
        (left + right) / 2,
    ]  # and the ring around the kept step
    assert numbers("cy", svg) == [bottom, (top + bottom) / 2, top, (top + bottom) / 2]


def test_the_time_axis_matches_the_steps():
    """The second half of the steps took three times as long as the first."""
    clock = Clock([100.0, 200.0], [60.0, 240.0], last=200.0)
    assert [clock.at(step) for step in (0, 50, 100, 150)] == [0, 30, 60, 150]
    assert [clock.step(seconds) for seconds in (30, 60, 150)] == [50, 100, 150]
    curve = Curve("x", [(0.0, 1.0), (200.0, 2.0)], "one")
    svg = line_chart("", [curve], clock)
    left, right = curves.LEFT, curves.WIDTH - curves.RIGHT
    at = {float(x): text for x, text in re.findall(rf'x="([\d.]+)" y="{curves.TOP - 10}"[^>]*>(\d+)<', svg)}
    assert at[(left + right) / 2] == "1"
    assert at[right] == "4"
    assert "minutes" in svg


def test_curve_names_do_not_overlap():
    found = [Curve(str(n), [(0.0, 0.0), (1.0, 0.1)], "one") for n in range(5)]
    svg = line_chart("", [*found, Curve("far", [(1.0, 5.0)], "two")], Clock([], [], last=1.0))
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" class="label', svg)]
    assert all(b - a >= curves.APART - 0.01 for a, b in pairwise(heights))
    assert heights[0] >= curves.TOP
    assert heights[-1] <= curves.HEIGHT - curves.BOTTOM + 4


@given(st.lists(reals, min_size=1, max_size=60), st.integers(1, 15))
def test_the_running_median_is_the_median_of_the_neighbours(found, width):
    for place, value in enumerate(running_median(found, width)):
        back = min(width // 2, place)
        assert value == median(found[place - back : place + back + 1])


def test_thinning_keeps_ends_spikes_and_density():
    points = [(float(n), 100.0 if n == 1234 else float(n % 10)) for n in range(5000)]
    kept = thinned(points, 600)
    assert len(kept) <= 600
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert points[1234] in kept
    assert kept == sorted(kept)
    first_half = sum(step < 2500 for step, _ in kept)
    assert first_half == pytest.approx(len(kept) / 2, rel=0.1)
    assert thinned(points[:600], 600) == points[:600]


@given(st.dictionaries(st.integers(1, 5000), st.integers(1, 50), min_size=1, max_size=60))
def test_length_columns_count_every_text(counts):
    columns = length_columns(counts)
    assert sum(column.value for column in columns) == sum(counts.values())
    assert len(columns) <= MOST_COLUMNS + 2


def test_bars_are_as_long_as_their_values():
    svg = bar_chart("", [Bar("a", 50.0, ""), Bar("b", 25.0, "", faint=True), Bar("c", 200.0, "")], 100.0)
    whole, half, _, quarter, _, beyond = numbers("width", svg)
    assert half == pytest.approx(whole / 2)
    assert quarter == pytest.approx(whole / 4)
    assert beyond == whole
    assert svg.count("faint") == 1


def test_a_split_is_cut_by_its_shares():
    first, second, nothing = numbers("width", split_bar("", {"train": 30, "valid": 10, "test": 0}))
    assert (first + 2) / (second + 2) == pytest.approx(3)
    assert nothing == 0


def test_a_score_beyond_the_line_is_drawn_at_its_end():
    assert numbers("cx", whisker("", 318.0, None, None)) == numbers("cx", whisker("", 100.0, None, None))
    assert numbers("cx", whisker("", 50.0, 40.0, 60.0)) == [120]


def test_a_confusion_lies_in_its_row_and_column():
    found = [Confusion("a", "b", 9), Confusion("c", "b", 4), Confusion("a", "", 1)]
    svg = heat_map("", found)
    boxes = re.findall(r'<rect x="(\d+)" y="(\d+)"[^>]*fill-opacity="([\d.]+)"><title>(.*?)</title>', svg)
    places = {text: (int(x), int(y), float(strength)) for x, y, strength, text in boxes}
    assert places.keys() == {"b instead of a: 9", "b instead of c: 4", "∅ instead of a: 1"}
    often, other, missing = places.values()
    assert often[0] == other[0]
    assert often[1] == missing[1]
    assert often[0] < missing[0]  # the most frequent first
    assert often[2] > other[2] > missing[2]


def test_every_symbol_is_visible():
    assert [glyph(symbol) for symbol in ("", " ", "\u0303", "aː")] == ["∅", "␣", "◌\u0303", "aː"]


def test_differences_are_marked_in_both_texts():
    cut, between = cutter("symbols")
    output, expected = marked("a b c", "a d c e", cut, between)
    assert output == '<bdi class="text">a <del>b</del> c</bdi>'
    assert expected == '<bdi class="text">a <ins>d</ins> c <ins>e</ins></bdi>'
    cut, between = cutter("characters")
    assert cut("e\u0301a") == ["e\u0301", "a"]
    assert marked("e\u0301a", "ea", cut, between)[0] == '<bdi class="text"><del>e\u0301</del>a</bdi>'


def test_the_closest_reference_needs_the_fewest_edits_and_is_the_longest():
    cut, _ = cutter("characters")
    assert closest("abc", ["xyz", "abd", "abcd"], cut) == "abcd"


@given(st.text("ab ", max_size=12), st.text("ab ", max_size=12))
def test_marks_change_no_symbol(old, new):
    cut, between = cutter("symbols")
    for text, shown in zip((old, new), marked(old, new, cut, between), strict=True):
        assert re.sub("<.*?>", "", shown).split() == text.split()

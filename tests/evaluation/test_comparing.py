"""Comparison of two models on the same items."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from answers import Answers
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from seqwright.errors import InputError
from seqwright.evaluation.comparison import compare
from seqwright.evaluation.evaluate import Judging, evaluate

WORDS = [a + b for a in "abcdefgh" for b in "abcdefgh"]
PAIRS = [(word, word) for word in WORDS]
QUICK = Judging(samples=100)


def answering(wrong: int):
    """Evaluate a model that gets one letter of the first `wrong` words wrong."""
    outputs = {word: word[0] + "z" if number < wrong else word for number, word in enumerate(WORDS)}
    return evaluate(Answers(outputs), PAIRS, judging=QUICK)


def test_a_model_does_not_differ_from_itself():
    found = compare(answering(9), answering(9), ("one", "same"))
    assert found.verdict == "No difference: one and same give the same outputs for 64 items."
    assert [(each.difference, each.p_value) for each in found.comparisons] == [(0, 1)] * 3
    assert (found.wins, found.losses, found.ties) == (0, 0, 64)
    assert found.examples == []
    assert found.confusions == []


def test_the_better_model_is_named():
    found = compare(answering(30), answering(10), ("old", "new"))
    assert found.verdict.startswith("new is better than old: exact match 84.38 against 53.12 (+31.25, 95 %")
    assert found.comparisons[0].p_value < 0.05
    assert (found.wins, found.losses, found.ties) == (20, 0, 44)
    turned = compare(answering(10), answering(30), ("new", "old"))
    assert turned.verdict.startswith("old is worse than new")
    assert (turned.wins, turned.losses) == (0, 20)


def test_a_small_difference_is_not_significant():
    found = compare(answering(10), answering(11))
    assert found.verdict.startswith(
        "No significant difference between second and first: exact match 82.81 against"
    )


@given(st.integers(0, 64), st.integers(0, 64))
def test_swapped_models_swap_every_result(left, right):
    one, other = answering(left), answering(right)
    forth, back = compare(one, other), compare(other, one)
    for there, here in zip(forth.comparisons, back.comparisons, strict=True):
        assert there.difference == -here.difference
        assert there.p_value == here.p_value
        assert there.interval.low == pytest.approx(-here.interval.high)
    assert (forth.wins, forth.losses, forth.ties) == (back.losses, back.wins, back.ties)
    assert forth.examples == back.examples
    assert [(each.first, each.second) for each in forth.confusions] == [
        (each.second, each.first) for each in back.confusions
    ]


def test_confusions_that_one_model_makes_more_often():
    one = evaluate(Answers({"a": "xx", "b": "y", "c": "c"}), [("a", "aa"), ("b", "b"), ("c", "c")])
    other = evaluate(Answers({"a": "ax", "b": "y", "c": ""}), [("a", "aa"), ("b", "b"), ("c", "c")])
    assert compare(one, other).confusions == [("a", "x", 2, 1), ("c", "", 0, 1)]


def test_examples_show_the_greatest_differences_with_the_closest_reference():
    pairs = [("a", "abcd"), ("b", "bbbb"), ("c", "cccc"), ("c", "dddd")]
    one = evaluate(Answers({"a": "abcx", "b": "xxxx", "c": "dddd"}), pairs)
    other = evaluate(Answers({"a": "abcd", "b": "bbbb", "c": "dddx"}), pairs)
    found = compare(one, other)
    assert [found.row(number) for number in found.examples] == [
        ("b", "bbbb", "xxxx", "bbbb"),
        ("a", "abcd", "abcx", "abcd"),
        ("c", "dddd", "dddd", "dddx"),
    ]


def test_the_document_is_strict_json():
    document = compare(answering(30), answering(10), ("old", "new")).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["runs"] == ["old", "new"]
    assert set(document["metrics"]["exact_match"]) == {
        *("first", "second", "difference", "interval", "p_value", "better", "signature")
    }
    (bucket,) = document["buckets"]["length of the source in characters"]
    assert bucket["second"]["exact_match"] > bucket["first"]["exact_match"]
    assert document["confusions"][0]["said"] == "z"


def test_findings_of_one_model_start_with_its_name():
    one, other = (replace(answering(wrong), findings=("all trained on",)) for wrong in (9, 10))
    found = compare(one, replace(other, findings=("all trained on", "3 cut")), ("old", "new"))
    assert found.findings == ["all trained on", "new: 3 cut"]
    assert str(found).rstrip().endswith("! all trained on\n! new: 3 cut")
    assert found.to_json()["findings"] == [["all trained on"], ["all trained on", "3 cut"]]
    assert "3 cut" in found._repr_html_()


def test_the_panel_fits_and_the_page_is_escaped():
    found = compare(answering(30), answering(10), ("<b>old", "n" * 300))
    lines = str(found).split("\n")
    assert len(lines) <= 40
    assert max(map(cell_len, lines)) <= 100
    assert "+31.25" in str(found)
    assert "<b>old" not in found._repr_html_()


def test_other_items_or_metrics_cannot_be_compared():
    one = answering(3)
    fewer = evaluate(Answers({"a": "a"}), [("a", "a")])
    with pytest.raises(InputError, match=r"same items \(64 and 1\)"):
        compare(one, fewer)
    judged = evaluate(Answers({}), PAIRS, judging=Judging(metrics=("exact_match",), samples=5))
    with pytest.raises(InputError, match="different metrics"):
        compare(one, judged)

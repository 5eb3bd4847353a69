"""Edits and confusions: laws of alignment."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.evaluation.mistakes import Confusion, confusions_of, mistakes_of, worst
from seqwright.evaluation.text_outputs import edits_for

words = st.text("abc", max_size=6)
WRITINGS = ("characters", "symbols", "text")


@pytest.mark.parametrize("writing", WRITINGS)
@given(output=words, references=st.lists(words, min_size=1, max_size=3))
def test_the_changes_turn_the_closest_reference_into_the_output(writing, output, references):
    """Removing the expected symbols and adding those of the output gives the output."""
    space = "" if writing == "characters" else " "
    output, references = space.join(output), [space.join(reference) for reference in references]
    (found,) = mistakes_of([output], [references], writing)
    symbols = edits_for(writing).symbols
    left = Counter(symbols(found.reference))
    left.subtract(expected for expected, _ in found.changes if expected)
    left.update(change for _, change in found.changes if change)
    assert +left == Counter(symbols(output))
    assert (
        found.edits
        == len(found.changes)
        == min(mistakes_of([output], [[reference]], writing)[0].edits for reference in references)
    )
    assert 0 <= found.share <= 1
    assert (found.share == 0) == (symbols(output) in [symbols(reference) for reference in references])


def test_confusions_are_counted_with_insertions_and_deletions():
    outputs = ["K AE T", "D OW G Z", "R D"]
    references = [["K AA T"], ["D AA G"], ["R EH D", "R IY D IY"]]
    found = confusions_of(mistakes_of(outputs, references, "symbols"), "symbols")
    assert set(found) == {
        Confusion("AA", "AE", 1),
        Confusion("AA", "OW", 1),
        Confusion("", "Z", 1),
        Confusion("EH", "", 1),
    }


def test_in_text_only_repeated_word_substitutions_count():
    outputs = ["a red dog, runs", "one red bird!", "the blue fish swims now", "no!"]
    references = [["a green dog runs"], ["one green bird."], ["the grey fish swims"], ["no."]]
    found = confusions_of(mistakes_of(outputs, references, "text"), "text")
    assert found == (Confusion("green", "red", 2),)


def test_the_most_frequent_come_first_and_equals_by_their_symbols():
    mistakes = mistakes_of(["xx", "x", "y"], [["ab"], ["a"], ["b"]], "characters")
    assert [(each.expected, each.output) for each in confusions_of(mistakes, "characters")] == [
        ("a", "x"),
        ("b", "x"),
        ("b", "y"),
    ]


@given(st.lists(st.tuples(words, words), min_size=1, max_size=8))
def test_the_worst_are_wrong_and_ordered(pairs):
    mistakes = mistakes_of([output for output, _ in pairs], [[wanted] for _, wanted in pairs], "characters")
    found = worst(mistakes, 5)
    shares = [mistakes[number].share for number in found]
    assert shares == sorted(shares, reverse=True)
    assert all(mistakes[number].edits for number in found)
    assert len(found) == min(5, sum(output != wanted for output, wanted in pairs))

"""ROUGE against hand-computed values and the package rouge-score."""

from __future__ import annotations

import pytest
from answers import Answers
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from seqwright.evaluation.evaluate import Judging, evaluate
from seqwright.evaluation.metrics import METRICS

THEIRS = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


def value(name: str, outputs: list[str], references: list[list[str]]) -> float:
    return METRICS.build(name).measured(outputs, references).value()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rouge_1", 2 * 3 / (4 + 6)),  # the, cat, sat
        ("rouge_2", 2 * 1 / (3 + 5)),  # the cat
        ("rouge_l", 2 * 3 / (4 + 6)),  # the cat … sat
    ],
)
def test_scores_by_hand(name, expected):
    assert value(name, ["The cat quickly sat."], [["the cat, on Monday, sat there"]]) == pytest.approx(
        100 * expected
    )


def test_the_order_of_words_counts_for_rouge_l_only():
    outputs, references = ["b a"], [["a b"]]
    assert [value(name, outputs, references) for name in THEIRS] == pytest.approx([100, 0, 50])


def test_a_repeated_word_counts_as_often_as_the_reference_has_it():
    assert value("rouge_1", ["the the the the"], [["the cat"]]) == pytest.approx(100 * 2 / 6)


def test_a_score_is_the_mean_of_items_each_with_its_best_reference():
    outputs, references = ["a b", "c", ""], [["x", "a b c"], ["c"], ["d"]]
    assert value("rouge_1", outputs, references) == pytest.approx(100 * (0.8 + 1 + 0) / 3)


def test_words_of_other_scripts_count():
    assert value("rouge_1", ["Ärger über Ćwikła"], [["ärger ÜBER ćwikła!"]]) == pytest.approx(100)


WORDS = ["a", "b", "c", "dog", "don't", "U.S.", "x_y", "3.5", "Dog", "-"]
sentences = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@given(output=sentences, references=st.lists(sentences, min_size=1, max_size=3))
def test_scores_equal_those_of_rouge_score(output, references):
    for name, theirs in THEIRS.items():
        scorer = RougeScorer([theirs])
        known = max(scorer.score(text, output)[theirs].fmeasure for text in references)
        assert value(name, [output], [references]) == pytest.approx(100 * known)


TEXT = "Please read the long report about the budget before we meet on Friday"
PAIRS = [(TEXT, "the budget report"), (TEXT + " at noon", "please read this")]


def test_the_family_selects_all_three_next_to_the_lead():
    """The lead has as many words as a summary on average: Please read the."""
    answers = Answers({TEXT: "the budget", TEXT + " at noon": "please read"}, target="words")
    found = evaluate(answers, PAIRS, judging=Judging(metrics=("rouge",)))
    assert list(found.metrics) == list(THEIRS)
    assert found.metrics["rouge_1"] == pytest.approx(80)
    assert found.baselines["lead"]["rouge_1"] == pytest.approx(100 * (1 / 3 + 2 / 3) / 2)
    assert not found.findings
    # the budget (2 of 2), please read (read: 1 of 2 as written); the budget (2 of 3), read (1 of 3)
    (_, outputs), (_, references) = found.tables["copies"].rows
    assert outputs == pytest.approx(100 * (1 + 1 / 2) / 2)
    assert references == pytest.approx(100 * (2 / 3 + 1 / 3) / 2)


def test_a_model_below_the_lead_is_reported():
    found = evaluate(Answers({}, target="words"), PAIRS, judging=Judging(metrics=("rouge",)))
    assert "the baseline lead is better: ROUGE-1 50.000 against 0.000" in found.findings


def test_texts_that_are_no_summaries_have_no_lead():
    found = evaluate(Answers({"a b c d": "e f g"}, target="words"), [("a b c d", "e f g")])
    assert found.baselines == {}
    assert found.tables == {}

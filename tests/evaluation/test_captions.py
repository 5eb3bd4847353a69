"""Metrics of captions, against hand-computed values and sacreBLEU."""

from __future__ import annotations

import math
import random

import pytest
from sacrebleu.metrics import BLEU

from seqwright.evaluation.metrics import METRICS

OUTPUTS = ["a dog runs in the snow", "two men ride bikes", "a dog runs in the snow"]
REFERENCES = [
    ["A dog runs in the snow .", "A black dog is running"],
    ["Two men are riding their bikes", "Men on bikes", "two cyclists"],
    ["a child on a swing"],
]


def value(name: str, outputs=OUTPUTS, references=REFERENCES) -> float:
    return METRICS.build(name).measured(outputs, references).value()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bleu_is_that_of_lower_case_words_without_punctuation(order):
    plain = [["a dog runs in the snow", "two men are riding their bikes", "a child on a swing"]]
    plain += [["a black dog is running", "men on bikes", None], [None, "two cyclists", None]]
    known = BLEU(tokenize="none", max_ngram_order=order, force=True).corpus_score(OUTPUTS, plain).score
    assert value(f"bleu_{order}") == pytest.approx(known)
    assert METRICS.build(f"bleu_{order}").name == f"bleu_{order}"


def test_a_right_caption_in_other_capitals_has_a_bleu_of_100():
    assert value("bleu_4", ["the cat sat down there"], [["The cat sat down there."]]) == pytest.approx(100)


def test_cider_of_two_items_by_hand():
    """Every n-gram occurs in the references of one of 2 items: its weight is log 2, a constant factor."""
    outputs, references = ["a b", "c d"], [["a b"], ["c e"]]
    # item 1: unigrams and bigrams have cosine 1, there are no longer ones: 1000 · 2 / 4
    # item 2: unigrams share c; |c d| = |c e| = √2 log 2 as d, in no reference, weighs log 2: 1/2; no bigram
    rows = METRICS.build("cider").measured(outputs, references).rows[:, 0]
    assert rows.tolist() == pytest.approx([500.0, 125.0])
    assert value("cider", outputs, references) == pytest.approx(312.5)


def test_cider_ignores_words_of_all_items_clips_counts_and_punishes_lengths():
    common = value("cider", ["the x", "the y"], [["the"], ["the"]])
    assert common == 0.0  # log(2 / 2) = 0
    penalty = math.exp(-9 / 72)  # 3 words longer
    repeated = METRICS.build("cider").measured(["a a a a", "q"], [["a"], ["b"]]).rows[0, 0]
    # min(4, 1) · 1 / (4 · 1) of the unigrams
    assert repeated == pytest.approx(1000 * penalty * (1 / 4) / 4)


def test_cider_is_the_mean_over_references():
    one = METRICS.build("cider").measured(["a b", "z"], [["a b", "c d"], ["e"]]).rows[0, 0]
    assert one == pytest.approx(1000 * (2 / 4) / 2)


def test_cider_is_that_of_the_reference_implementation():
    """pycocoevalcap has 104 MB and needs matplotlib: it is not installed with the other tests."""
    known = pytest.importorskip("pycocoevalcap.cider.cider").Cider()
    draw = random.Random(0)

    def caption() -> str:
        return " ".join(
            draw.choices(["a", "dog", "man", "runs", "on", "the", "red", "beach"], k=draw.randint(1, 12))
        )

    references = [[caption() for _ in range(draw.randint(1, 5))] for _ in range(50)]
    outputs = [caption() if number % 3 else draw.choice(references[number]) for number in range(50)]
    score, scores = known.compute_score(
        dict(enumerate(references)), {n: [text] for n, text in enumerate(outputs)}
    )
    found = METRICS.build("cider").measured(outputs, references)
    assert found.rows[:, 0] == pytest.approx(100 * scores, rel=1e-12, abs=1e-12)
    assert found.value() == pytest.approx(100 * score, rel=1e-12)


def test_word_f1_takes_the_best_reference():
    assert value("word_f1", ["a red car"], [["the bus", "A car"]]) == pytest.approx(100 * 2 * 2 / 5)
    assert value("word_f1", [""], [["a"]]) == 0.0


def test_distinct_counts_an_output_once():
    measured = METRICS.build("distinct").measured(OUTPUTS, REFERENCES)
    assert measured.value() == pytest.approx(200 / 3)
    interval = measured.interval(samples=200)
    assert interval.low <= measured.value() <= interval.high

"""Metrics against oracles: sacreBLEU's corpus scores, a naive edit distance, and simulated experiments."""

from __future__ import annotations

import math
import subprocess
import sys
from operator import itemgetter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from seqwright.data.fields import SYMBOL
from seqwright.data.task import group_items
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.bootstrap import confidence_interval, paired_bootstrap
from seqwright.evaluation.metrics import METRICS, built_in
from seqwright.evaluation.metrics.exact_match import ExactMatch
from seqwright.evaluation.metrics.symbol_error_rate import SymbolErrorRate
from seqwright.evaluation.metrics.word_edit_rate import WordEditRate
from seqwright.evaluation.metrics.word_error_rate import WordErrorRate
from seqwright.evaluation.text_outputs import (
    METRICS_FOR,
    build_metric,
    edits_for,
    item_of,
    metric_label,
    writing_of,
)

WORDS = ["a", "the", "cat", "dog", "sat", "on", "under", "mat", "tree", "."]
OF_TEXTS = (
    *("accuracy", "bleu", "chrf", "exact_match", "symbol_error_rate", "ter"),
    *("word_edit_rate", "word_error_rate"),
)
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
items = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=6)


def noisy_corpus(count: int, noise: float, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Return outputs with this share of wrong words; the references do not depend on it."""
    texts, errors = np.random.default_rng(seed), np.random.default_rng([seed, int(1e6 * noise)])
    references = [texts.choice(WORDS, size=texts.integers(4, 12)).tolist() for _ in range(count)]
    outputs = [
        [errors.choice(WORDS) if errors.random() < noise else word for word in words] for words in references
    ]
    return [" ".join(words) for words in outputs], [[" ".join(words)] for words in references]


def naive_edits(one: list[str] | str, other: list[str] | str) -> int:
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        last, row = row, [i]
        for j, right in enumerate(other, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (left != right)))
    return row[-1]


@pytest.mark.parametrize(("name", "oracle"), [("bleu", BLEU), ("chrf", CHRF), ("ter", TER)])
@settings(max_examples=40, deadline=None)
@given(items=items)
def test_corpus_scores_are_those_of_sacrebleu(name, oracle, items):
    outputs, references = [list(part) for part in zip(*items, strict=True)]
    streams = [
        [given[n] if n < len(given) else None for given in references]
        for n in range(max(map(len, references)))
    ]
    theirs = oracle()
    expected = theirs.corpus_score(outputs, streams)
    score = METRICS.build(name).score(outputs, references)
    assert score.value == pytest.approx(expected.score, abs=1e-9)
    assert score.signature == str(theirs.get_signature())


def test_options_reach_sacrebleu():
    outputs, references = ["The Cat sat ."], [["the cat sat ."]]
    assert METRICS.build({"kind": "bleu", "lowercase": True}).score(
        outputs, references
    ).value == pytest.approx(100)
    assert (
        "tok:char" in METRICS.build({"kind": "bleu", "tokenize": "char"}).score(outputs, references).signature
    )
    assert "nw:2" in METRICS.build({"kind": "chrf", "words": 2}).score(outputs, references).signature


@settings(max_examples=60, deadline=None)
@given(items=items)
def test_edit_rates_equal_a_naive_loop(items):
    outputs, references = [list(part) for part in zip(*items, strict=True)]
    for metric, symbols in ((WordEditRate(), str.split), (SymbolErrorRate(separator=""), list)):
        edits = length = 0
        for output, given_references in items:
            wanted = [symbols(reference) for reference in given_references]
            ways = [(naive_edits(symbols(output), reference), -len(reference)) for reference in wanted]
            edits, length = edits + min(ways)[0], length - min(ways)[1]
        assert metric.score(outputs, references).value == pytest.approx(100 * edits / max(length, 1))


@settings(max_examples=60, deadline=None)
@given(items=items)
def test_a_word_is_right_or_wrong(items):
    outputs, references = [list(part) for part in zip(*items, strict=True)]
    right = sum(output in given_references for output, given_references in items)
    assert ExactMatch().score(outputs, references).value == pytest.approx(100 * right / len(items))
    assert WordErrorRate().score(outputs, references).value == pytest.approx(100 - 100 * right / len(items))


def test_pronunciations_are_measured_as_for_cmudict():
    """The second word has two pronunciations; the output differs by one phone from one of them."""
    outputs = ["K AE T", "R IY D Z"]
    references = [["K AE T"], ["R EH D", "R IY D"]]
    assert WordErrorRate().score(outputs, references).value == 50
    assert SymbolErrorRate().score(outputs, references).value == pytest.approx(100 * 1 / 6)


def test_the_longest_of_the_closest_counts():
    rate = SymbolErrorRate().score(["a b"], [["a", "a b c"]])
    assert rate.value == pytest.approx(100 / 3)


@pytest.mark.parametrize("name", OF_TEXTS)
def test_every_metric_knows_its_best_and_its_direction(name):
    metric = METRICS.build(name)
    outputs, references = noisy_corpus(40, 0.3)
    texts = [given_references[0] for given_references in references]
    perfect, noisy = metric.score(texts, references), metric.score(outputs, references)
    assert perfect.name == name
    assert perfect.value == pytest.approx(100 if metric.better == "higher" else 0)
    assert (noisy.value < perfect.value) == (metric.better == "higher")
    assert noisy.value != perfect.value


@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_resample_scores_like_its_texts(name):
    """Sums of statistics are sufficient: a weighted sum of rows scores as the repeated texts do."""
    metric = METRICS.build(name)
    outputs, references = noisy_corpus(12, 0.3)
    draw = np.random.default_rng(1).integers(12, size=12)
    rows = metric.statistics(outputs, references)
    repeated = metric.score([outputs[i] for i in draw], [references[i] for i in draw])
    times = np.bincount(draw, minlength=12).astype(float)
    assert metric.value(metric.total(rows, times)) == pytest.approx(repeated.value)


def test_the_interval_covers_the_truth():
    """A binomial experiment with a known rate: of 60 intervals of 90 %, about 54 should contain it."""
    covered = 0
    for seed in range(60):
        wrong = np.random.default_rng(seed).random(150) < 0.3
        outputs = ["x" if miss else "y" for miss in wrong]
        interval = confidence_interval(
            WordErrorRate(), outputs, [["y"]] * 150, level=0.9, samples=300, seed=seed
        )
        covered += interval.low <= 30 <= interval.high
    assert 46 <= covered <= 60


def test_the_interval_has_the_width_of_the_normal_one():
    outputs = ["x" if number % 4 == 0 else "y" for number in range(1000)]
    interval = confidence_interval(WordErrorRate(), outputs, [["y"]] * 1000, samples=2000)
    half = 1.96 * 100 * math.sqrt(0.25 * 0.75 / 1000)
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.1)
    assert interval.low < 25 < interval.high


def test_the_standard_error_of_a_share_is_that_of_the_formula():
    outputs = ["x" if number % 4 == 0 else "y" for number in range(1000)]
    measured = WordErrorRate().measured(outputs, [["y"]] * 1000)
    assert measured.error == pytest.approx(100 * math.sqrt(0.25 * 0.75 / 999))
    assert WordErrorRate().measured(["x"], [["y"]]).error == 0


@pytest.mark.parametrize("name", OF_TEXTS)
def test_the_standard_error_is_a_quarter_of_the_width_of_the_interval(name):
    measured = METRICS.build(name).measured(*noisy_corpus(200, 0.2))
    interval = measured.interval(samples=1000)
    assert 1.96 * measured.error == pytest.approx((interval.high - interval.low) / 2, rel=0.1)


def test_a_bootstrap_is_repeatable():
    outputs, references = noisy_corpus(50, 0.3)
    bleu = METRICS.build("bleu")
    one, same = (confidence_interval(bleu, outputs, references, samples=100, seed=4) for _ in range(2))
    other = confidence_interval(bleu, outputs, references, samples=100, seed=5)
    assert one == same != other


@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_clear_difference_is_significant_and_a_tie_is_not(name):
    metric = METRICS.build(name)
    bad, references = noisy_corpus(150, 0.5)
    good, same_references = noisy_corpus(150, 0.1)
    assert references == same_references
    clear = paired_bootstrap(metric, bad, good, references, samples=200)
    assert clear.p_value < 0.01
    assert (clear.difference > 0) == (metric.better == "higher")
    assert clear.interval.low <= clear.difference <= clear.interval.high
    assert not clear.interval.low <= 0 <= clear.interval.high
    tie = paired_bootstrap(metric, good, good, references, samples=50)
    assert (tie.difference, tie.p_value) == (0, 1)


def test_false_positives_are_as_rare_as_the_p_value():
    """Under the null hypothesis p < .1 in about a tenth of the experiments."""
    found = 0
    for seed in range(80):
        first, second = np.random.default_rng(seed).random((2, 100)) < 0.4
        texts = [["x" if miss else "y" for miss in system] for system in (first, second)]
        found += (
            paired_bootstrap(WordErrorRate(), *texts, [["y"]] * 100, samples=200, seed=seed).p_value < 0.1
        )
    assert 1 <= found <= 18


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))))
def test_grouping_keeps_every_pair_once(pairs):
    task = SimpleNamespace(group=itemgetter(0), truth=itemgetter(1), judging=SimpleNamespace(merges=True))
    firsts, references, order = group_items(task, pairs)
    sources = [source for source, _ in firsts]
    assert [sources[number] for number in order] == [source for source, _ in pairs]
    assert sources == list(dict.fromkeys(source for source, _ in pairs))
    grouped = [
        (source, target) for source, targets in zip(sources, references, strict=True) for target in targets
    ]
    assert sorted(grouped) == sorted(set(pairs))


@pytest.mark.parametrize(
    ("outputs", "references", "rule"),
    [
        (["a"], [["a"], ["b"]], "1 outputs for 2 items"),
        ([], [], "nothing to score"),
        (["a", "b"], [["a"], []], "item 2"),
        (["a", "b"], ["a", "b"], "item 1"),
    ],
)
def test_wrong_inputs_are_named(outputs, references, rule):
    with pytest.raises(InputError, match=rule):
        ExactMatch().score(outputs, references)


def test_every_metric_file_is_a_metric():
    names = METRICS.names()
    assert {"bleu", "chrf", "ter", "exact_match", "word_error_rate"} < set(names)
    assert [METRICS.build(name).name for name in names] == names


def test_only_built_in_metrics_are_imported_by_name():
    assert built_in("bleu").label == "BLEU"
    assert built_in("os:path") is None
    assert metric_label("os:path") == "os:path"


def test_an_unknown_metric_names_the_nearest():
    with pytest.raises(ConfigError, match="word_error_rate"):
        METRICS.build("word_error")


def test_heavy_libraries_are_imported_when_they_are_used():
    code = "import sys, seqwright.evaluation.metrics; print(*sys.modules)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sacrebleu", "rapidfuzz", "torch"} & set(child.stdout.split())


@pytest.mark.parametrize(
    ("tokenizer", "texts", "writing"),
    [
        ("symbols", ["K AE T", "R IY D"], "symbols"),
        ("characters", ["ging", "gegangen", "ist gegangen"], "characters"),
        ("bpe", ["Ein Hund läuft .", "Danke"], "text"),
        ("bytes", ["two words", "and three words"], "text"),
        ("words", ["one", "two"], "characters"),
        ("characters", [], "characters"),
    ],
)
def test_how_targets_are_written(tokenizer, texts, writing):
    assert writing_of(tokenizer, texts) == writing


def test_symbols_are_what_the_targets_are_written_in():
    """One of four characters is wrong; as symbols between spaces, one of one is."""
    outputs, references = ["gang"], [["ging"]]
    rates = {writing: build_metric("symbol_error_rate", writing) for writing in METRICS_FOR}
    assert rates["characters"].score(outputs, references).value == 25
    assert rates["symbols"].score(outputs, references).value == 100
    by_space = build_metric({"kind": "symbol_error_rate", "separator": " "}, "characters")
    assert by_space.score(outputs, references).value == 100


@pytest.mark.parametrize("writing", METRICS_FOR)
def test_the_default_metrics_can_be_built(writing):
    for name in METRICS_FOR[writing]:
        assert build_metric(name, writing, lowercase=True).name == name
    assert edits_for(writing).closest("a b", ["b", "a b"])[0] == 0


@pytest.mark.parametrize(
    ("item", "writing", "source", "target"),
    [
        ("word", "symbols", "through", "TH R UW"),
        ("word", "symbols", f"gehen{SYMBOL}V{SYMBOL}PST", "g ɪ ŋ"),
        ("word", "characters", "gehen", "ging"),
        ("text", "symbols", "107", "one hundred and seven"),
        ("text", "symbols", "he goes through", "HH IY G OW Z TH R UW"),
        ("text", "characters", "one hundred", "100"),
        ("word", "characters", "Malawi", "Μαλάουι"),
        ("text", "text", "He goes.", "Er geht hin."),
    ],
)
def test_an_item_is_a_word_if_it_spells_one(item, writing, source, target):
    assert item_of([source] * 3, [[target]] * 3, writing) == item


def test_word_error_rate_is_the_label_for_words_only():
    assert metric_label("word_error_rate", "word") == "word error rate"
    assert metric_label("word_error_rate", "text") == "wrong outputs"
    assert metric_label("symbol_error_rate", "text") == "symbol error rate"


def test_edits_of_text_separate_words_and_punctuation():
    edits, closest = edits_for("text").closest("Ein Mann, der geht.", ["Ein Mann der geht!"])
    assert (edits, list(closest)) == (2, ["Ein", "Mann", "der", "geht", "!"])
    assert edits_for("text").symbols("don't हिन्दी") == ["don't", "हिन्दी"]


@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_subset_of_the_items_scores_like_its_texts(name):
    metric = METRICS.build(name)
    outputs, references = noisy_corpus(12, 0.3)
    part = [1, 4, 5, 9]
    measured = metric.measured(outputs, references)
    alone = metric.score([outputs[i] for i in part], [references[i] for i in part])
    assert measured.value(part) == pytest.approx(alone.value)
    assert measured.value() == metric.score(outputs, references).value

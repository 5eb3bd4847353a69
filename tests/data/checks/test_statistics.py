"""Findings: every fault that is put into clean pairs is found, and clean pairs have none."""

import math
import random
import time
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_statistics import pair_statistics

from seqwright.data.checks.duplicates import DuplicateCounter
from seqwright.data.checks.findings import (
    FINDING_TEXTS,
    by_severity,
    few_finding,
    leak_finding,
    near_leak_finding,
    reading_findings,
)
from seqwright.data.checks.length_ratio import quantile
from seqwright.data.checks.misaligned import first_shift, lag_in_window
from seqwright.data.checks.statistics import LengthHistogram, StatisticsBuilder
from seqwright.data.checks.swapped import SAMPLED_CHARACTERS, Reservoir, find_swapped
from seqwright.data.read_report import Pair, Place, ReadReport, Reason, TextRow
from seqwright.data.split import Fractions, HeldOut, Strata, divisible, place_of
from seqwright.errors import ConfigError

GENERATOR = random.Random(5)
LEXICON = (
    "the:der a:ein man:Mann woman:Frau dog:Hund runs:läuft walks:geht with:mit through:durch street:Straße "
    "house:Haus blue:blaue white:weiße small:kleine young:junge and:und two:zwei on:auf in:im"
)
ENGLISH, GERMAN = zip(*(entry.split(":") for entry in LEXICON.split()), strict=True)


def clean_pairs(count=1500):
    pairs = []
    for line in range(1, count + 1):
        words = [GENERATOR.randrange(len(ENGLISH)) for _ in range(GENERATOR.randint(3, 25))]
        sides = [" ".join(side[word] for word in words) + f" {line}" for side in (ENGLISH, GERMAN)]
        pairs.append(Pair(sides[0], sides[1], Place("a.tsv", line)))
    return pairs


CLEAN = clean_pairs()


def findings(pairs):
    return {found.name: found for found in pair_statistics(pairs).findings}


def overlap(training, held_out):
    waiting = HeldOut(held_out)
    for pair in training:
        waiting.meet(pair.source)
    (found,) = waiting.overlaps()
    return found


def changed(line, source="a dog", target="ein Hund"):
    return [*CLEAN[: line - 1], Pair(source, target, CLEAN[line - 1].place), *CLEAN[line:]]


def test_clean_pairs_have_no_findings():
    found = pair_statistics(CLEAN)
    assert found.findings == ()
    assert found.examples == found.distinct == len(CLEAN)


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("copies", changed(7, source="same", target="same")),
        ("duplicates", changed(7, *CLEAN[3][:2])),
        ("conflicts", changed(7, source=CLEAN[3].source, target=CLEAN[3].target + "!")),
        ("length_ratio", changed(7, target="ja", source="x " * 50 + "x")),
        ("quotes", changed(7, source='"quoted"')),
        ("quotes", changed(7, target='it is 5" wide')),
        ("control_characters", changed(7, target="a\u2028b")),
        ("control_characters", changed(7, source="a\x0cb")),
        ("control_characters", changed(7, source="\ufeffa")),
        ("invisible_characters", changed(7, source="a\u200bb")),
        ("mojibake", changed(7, source="caf\u00c3\u00a9")),
        ("mojibake", changed(7, source="caf\ufffd")),
        ("mixed_normalisation", changed(7, target=unicodedata.normalize("NFD", "weiße läuft"))),
        ("spacing", changed(7, source="two  spaces")),
    ],
)
def test_one_bad_pair_is_found_at_its_place(name, pairs):
    found = findings(pairs)
    assert set(found) == {name}
    assert found[name].count == 1
    assert found[name].places == (Place("a.tsv", 7),)
    assert found[name].examples == (TextRow(pairs[6][:2], pairs[6].place),)
    assert "a.tsv:7" in found[name].line()


def test_decomposed_text_alone_is_not_mixed():
    pairs = [Pair(p.source, unicodedata.normalize("NFD", p.target), p.place) for p in CLEAN]
    assert "mixed_normalisation" not in findings(pairs)


def test_a_shifted_side_is_found_where_it_begins():
    shifted = [Pair(a.source, b.target, a.place) for a, b in pairwise(CLEAN[500:])]
    found = findings(CLEAN[:500] + shifted)["misaligned"]
    assert found.severity == "warning"
    assert found.places[0].line == 501


def test_replies_that_are_the_next_turn_are_no_shift():
    """Even with turns left out. Where targets equal their sources, a shifted side is a fault."""
    turns = [pair.source if pair.place.line % 7 else f"aside {pair.place.line}" for pair in CLEAN]
    replies = [turn if line % 5 else f"hm {line}" for line, turn in enumerate(turns)]
    talk = [Pair(a, b, p.place) for a, b, p in zip(turns, replies[1:], CLEAN, strict=False)]
    found = findings(talk)
    assert "misaligned" not in found
    assert (found["chained"].severity, found["chained"].count) == ("note", 2)
    copied = [Pair(pair.source, pair.source, pair.place) for pair in CLEAN]
    moved = [Pair(a.source, b.target, a.place) for a, b in pairwise(copied[500:])]
    assert findings(copied[:500] + moved)["misaligned"].places[0].line == 501


def test_a_length_ratio_that_most_pairs_have_is_no_fault():
    names = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten hundred and eleven")
    draw = random.Random(1)
    figures = ["".join(draw.choices("0123456789", k=draw.randint(3, 9))) for _ in range(800)]
    pairs = [
        Pair(text, " million and ".join(names[int(figure)] for figure in text), Place("a.tsv", line))
        for line, text in enumerate(figures, 1)
    ]
    assert min(len(pair.target) / len(pair.source) for pair in pairs if len(pair.source) > 6) > 9
    assert "length_ratio" not in findings(pairs)
    pairs[40] = Pair("1" * 60, "one " * 15, Place("a.tsv", 41))
    assert findings(pairs)["length_ratio"].places == (Place("a.tsv", 41),)


def test_lengths_that_do_not_depend_on_each_other_are_a_note():
    draw = random.Random(1)
    pairs = [
        Pair("x" * draw.randint(2, 150), "y" * draw.randint(2, 150), Place("a.tsv", n)) for n in range(400)
    ]
    found = findings(pairs)
    assert "length_ratio" not in found
    assert found["free_lengths"].severity == "note"
    by_hand = [p for p in pairs if abs(math.log(len(p.target) / len(p.source))) > math.log(9)]
    assert found["free_lengths"].count == pytest.approx(
        len([p for p in by_hand if max(map(len, p[:2])) > 50]), abs=2
    )


def test_too_few_sources_are_reported():
    few, too_few = few_finding(7, stops=False), few_finding(1, stops=True)
    assert (few.severity, too_few.severity) == ("warning", "error")
    assert few.sentence.startswith("few distinct sources")
    assert too_few.sentence.startswith("too few distinct sources")
    conversations = few_finding(7, stops=False, group="conversation")
    assert conversations.sentence.startswith("few distinct conversations for")
    assert "20 conversations or more" in conversations.way_out


@pytest.mark.parametrize(
    ("places", "tested", "expected"),
    [
        ([0.3], False, False),
        ([0.3], True, False),
        ([0.15, 0.9], False, True),  # training works without a test split
        ([0.3, 0.9], False, False),
        ([0.3, 0.9], True, True),
        ([0.25, 0.4, 0.9], False, True),  # with a share of 0.26
        ([0.8, 0.9, 0.95], False, False),
    ],
)
def test_few_sources_can_be_split_only_at_suitable_positions(places, tested, expected):
    assert divisible(places, tested=tested) is expected


def test_swapped_sides_are_found():
    lines = {10, 200, 600, 900}
    pairs = [Pair(p.target, p.source, p.place) if p.place.line in lines else p for p in CLEAN]
    found = findings(pairs)["swapped"]
    assert {place.line for place in found.places} == lines


@pytest.mark.parametrize(
    ("word", "mixed"),
    [
        ("стоп", False),
        ("c\u0442\u043e\u043f", True),  # begins with a Latin c
        ("st\u03b5d", True),  # a Greek epsilon among the letters of the IPA
        ("stɛd", False),
        ("st\u02d0\u03b5d", True),
        ("s t \u03b5 d", True),
        ("the \u03b1 of it", False),  # a word of its own
        ("10 \u03bcm, 5 k\u03a9", False),  # letters that have no Latin double
    ],
)
def test_letters_of_another_script_in_a_word_are_found(word, mixed):
    assert ("mixed_scripts" in findings(changed(7, target=word))) is mixed


def test_a_target_similar_to_its_source_is_not_swapped():
    """Characters that occur only in this pair are on both sides, so they show nothing."""
    odd = {p.place.line: chr(0x4E00 + p.place.line) * 9 for p in CLEAN[::25]}
    pairs = [Pair(text, text, p.place) if (text := odd.get(p.place.line)) else p for p in CLEAN]
    assert "swapped" not in findings(pairs)


def test_finding_swapped_sides_takes_linear_time():
    """Even if most bigrams are unique, as in Chinese."""
    draw = random.Random(1)

    def text() -> str:
        return "".join(chr(draw.randrange(0x4E00, 0x9FA5)) for _ in range(SAMPLED_CHARACTERS))

    rows, seconds = [TextRow((text(), text()), Place("f", line)) for line in range(1200)], []
    for count in (300, 1200):
        began = time.process_time()
        find_swapped(rows[:count])
        seconds.append(time.process_time() - began)
    assert seconds[1] < 9 * seconds[0]  # quadratic is 16


def test_every_finding_has_words():
    words = {
        "rows": "pairs",
        "count": 1,
        "share": "1 %",
        "total": 9,
        "part": "test",
        "limit": 5,
        "longest": 7,
        "shown": "a label",
    }
    for sentence, way_out, warn_from in FINDING_TEXTS.values():
        assert sentence.format(**words, noun="pair", group="source")
        assert way_out
        assert 0 <= warn_from <= 1 or warn_from == math.inf


def test_skipped_lines_become_findings():
    report = ReadReport()
    report.add(Reason.BLANK_SOURCE, Place("a", 3))
    (found,) = reading_findings(report)
    assert (found.name, found.severity, found.count, found.places) == (
        "blank_source",
        "warning",
        1,
        (Place("a", 3),),
    )


def test_what_training_stops_at_is_an_error_and_comes_first():
    report = ReadReport()
    for reason in (Reason.BLANK_PAIR, Reason.BLANK_PAIR, Reason.BAD_ROW, Reason.CARRIAGE_RETURN):
        report.add(reason, Place("a", 3))
    found = by_severity(reading_findings(report, stops=[Reason.BAD_ROW]))
    assert [each.severity for each in found] == ["error", "warning", "note"]
    assert "data.skip_bad_rows=true" in found[0].way_out
    assert "data.skip_bad_rows" not in reading_findings(report)[1].way_out


def test_statistics_of_a_column():
    found = pair_statistics([Pair("ab c", "Привет", Place("a", 1)), Pair("b", "да", Place("a", 2))])
    source, target = found.columns.values()
    assert list(found.columns) == ["source", "target"]
    assert source.characters == {4: 1, 1: 1}
    assert source.words == {2: 1, 1: 1}
    assert source.alphabet == Counter("ab cb")
    assert target.scripts == {"CYRILLIC": 1.0}
    assert pair_statistics([Pair("2ª vez", "x", Place("a", 1))]).columns["source"].scripts == {"LATIN": 1.0}
    assert found.shared_alphabet == 0


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_columns_is_checked_for_duplicates_and_odd_characters(count):
    """Only two columns are compared with each other."""
    names = ("text", "context", "reply")[:count]
    builder = StatisticsBuilder(names)
    rows = [(pair.source, *[pair.source] * (count - 1)) for pair in CLEAN[:600]]
    rows[6], rows[8], rows[10] = (("caf\u00c3\u00a9",) * count, (" a",) * count, rows[4])
    for line, texts in enumerate(rows, 1):
        builder.add(texts, Place("a.tsv", line))
    found = builder.build()
    assert (found.examples, found.distinct, tuple(found.columns)) == (600, 599, names)
    assert all(sum(column.words.values()) == 600 for column in found.columns.values())
    by_name = {each.name: each for each in found.findings}
    assert {name: each.places[0].line for name, each in by_name.items()} == {
        "duplicates": 11,
        "mojibake": 7,
        "spacing": 9,
    }
    rows_are = {1: "texts", 3: "examples"}[count]
    assert by_name["duplicates"].sentence == f"duplicate {rows_are}: 1 (0.2 %)"
    assert by_name["spacing"].to_json()["examples"] == [{"place": "a.tsv:9", **dict.fromkeys(names, " a")}]


@given(st.lists(st.integers(0, 50), min_size=1), st.floats(0.01, 1))
def test_quantiles_equal_those_of_the_sorted_list(values, share):
    lengths = LengthHistogram(values)
    assert quantile(lengths, share) == np.quantile(values, share, method="inverted_cdf")
    assert lengths.mean == pytest.approx(np.mean(values))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=40))
def test_duplicates_are_exact_while_they_fit(pairs):
    seen = DuplicateCounter()
    for source, target in pairs:
        seen.add(source, target)
    different, sources = len(set(pairs)), len({source for source, _ in pairs})
    assert seen.counts() == {"duplicates": len(pairs) - different, "conflicts": different - sources}
    assert seen.sources == sources


def test_many_targets_of_one_source_are_remembered_in_bounded_memory(monkeypatch):
    monkeypatch.setattr("seqwright.data.checks.duplicates.REMEMBERED", 10)
    seen = DuplicateCounter()
    for k in range(2000):
        seen.add("source", str(k))
    assert seen.counts() == {"duplicates": 0, "conflicts": 1999}
    assert len(next(iter(seen._others.values()))) == 10


def test_duplicates_are_estimated_in_bounded_memory():
    seen = DuplicateCounter(most=1000)
    for k in range(20_000):
        seen.add(f"source {k}", "target")
        if k % 4 == 0:
            seen.add(f"source {k}", "target")
    assert len(seen._targets) <= 1000
    assert seen.sources == pytest.approx(20_000, rel=0.15)
    assert seen.counts()["duplicates"] == pytest.approx(5000, rel=0.25)


def test_reservoir_is_uniform_and_repeatable():
    def sample():
        reservoir = Reservoir(200)
        for k in range(5000):
            reservoir.add(TextRow((str(k),), Place("a", k)))
        return [row.place.line for row in reservoir.rows]

    assert sample() == sample()
    assert np.mean(sample()) == pytest.approx(2500, rel=0.15)


@given(gap=st.integers(0, 300), missing=st.integers(1, 5), seed=st.integers(0, 50))
def test_gap_is_found_near_its_place(gap, missing, seed):
    generator = np.random.default_rng(seed)
    left = generator.integers(5, 150, 300 + missing)
    right = np.delete(left * 1.1, slice(gap, gap + missing)).astype(np.int64)
    assert abs(first_shift(left, right) - gap) <= 3
    assert first_shift(left, right) == first_shift(right, left)


@given(lag=st.integers(-3, 3), seed=st.integers(0, 50))
def test_lag_of_a_window(lag, seed):
    lengths = np.random.default_rng(seed).integers(5, 150, 600)
    assert lag_in_window(lengths[50 + lag : 550 + lag], lengths[50:550]) == -lag


def test_constant_lengths_have_no_lag():
    assert lag_in_window(np.full(500, 7), np.full(500, 9)) == 0


@given(st.text(), st.integers(-(2**40), 2**40))
def test_split_is_a_function_of_source_and_seed(source, seed):
    assert 0 <= place_of(source, seed) == place_of(source, seed) <= 1


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=300), st.integers(0, 9))
def test_strata_are_divided_alike_and_single_groups_are_for_training(labels, split):
    """Each label gives its share to each part, to within one group, whatever the order of the file."""
    strata, groups = Strata(split), [f"text {number}" for number in range(len(labels))]
    for group, label in zip(groups, labels, strict=True):
        strata.add(group, label)
    place, fractions = strata.places(), Fractions(0.2, 0.1)
    for label in set(labels):
        own = [group for group, other in zip(groups, labels, strict=True) if other == label]
        parts = Counter(fractions.part(place(group)) for group in own)
        assert abs(parts["valid"] - 0.2 * len(own)) < 1
        assert abs(parts["test"] - 0.1 * len(own)) < 1
        assert parts["train"] > 0


def test_a_text_with_two_labels_stays_in_one_part():
    strata = Strata(1)
    for number in range(50):
        strata.add(f"text {number}", "a")
        strata.add(f"text {number}", "b")
    assert len(strata.places().values) == 50


def test_split_has_the_requested_shares():
    fractions = Fractions(valid=0.1, test=0.2)
    parts = Counter(fractions.part(place_of(f"source {k}", 1)) for k in range(20_000))
    assert parts["valid"] == pytest.approx(2000, rel=0.1)
    assert parts["test"] == pytest.approx(4000, rel=0.1)
    other = [fractions.part(place_of(f"source {k}", 2)) for k in range(100)]
    assert other != [fractions.part(place_of(f"source {k}", 1)) for k in range(100)]
    assert {Fractions(0, 0).part(place_of(str(k), 0)) for k in range(100)} == {"train"}
    with pytest.raises(ConfigError, match="fractions"):
        Fractions(valid=0.6, test=0.4)


def test_split_never_changes_between_versions():
    """A test split that changes between releases would leak into training, so these parts never change."""
    words = ("Hund", "Katze", "Maus", "Haus", "Baum", "Tisch")
    parts = ["valid", "test", "train", "test", "test", "valid"]
    assert [Fractions(0.25, 0.25).part(place_of(word, 0)) for word in words] == parts


def test_leaks_are_counted_with_their_places():
    held_out = [*CLEAN[5:8], Pair("not in training", "x", Place("t", 1))]
    found = overlap(CLEAN[:7] * 2, held_out)  # a source that comes twice in training leaks once
    assert (found.held_out, found.leaked) == (4, 2)
    assert [place.line for place in found.places] == [6, 7]
    assert "test pairs whose source is in training: 2 of 4" in leak_finding(found).sentence
    assert leak_finding(overlap(CLEAN[:2], held_out)) is None


@given(
    st.lists(st.lists(st.sampled_from("abcdABCD"), max_size=6), max_size=3), st.sets(st.sampled_from("abcd"))
)
def test_parts_that_wait_together_are_kept_apart(parts, training):
    held_out = [
        [Pair(text, "x", Place(f"{number}", line)) for line, text in enumerate(part)]
        for number, part in enumerate(parts)
    ]
    waiting = HeldOut(*held_out)
    for text in training:
        waiting.meet(text)
    apart = [overlap([Pair(text, "y", Place("t", 1)) for text in training], part) for part in held_out]
    assert waiting.overlaps() == apart


def test_leaks_except_for_case_and_spaces_are_counted_separately():
    texts = [CLEAN[0].source, CLEAN[1].source.upper(), f" {CLEAN[2].source.replace(' ', '  ')}", "new"]
    held_out = [Pair(text, "x", Place("t", line)) for line, text in enumerate(texts, 1)]
    found = overlap([*CLEAN[:3], CLEAN[0]], held_out)
    assert (found.leaked, found.near) == (1, 2)
    assert [place.line for place in found.near_places] == [2, 3]
    assert near_leak_finding(found).severity == "note"
    assert near_leak_finding(overlap(CLEAN[:1], held_out)) is None

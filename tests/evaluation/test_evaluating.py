"""What an evaluation says, against numbers counted by hand."""

from __future__ import annotations

import json
import math
import shutil
from html.parser import HTMLParser

import pytest
from answers import Answers
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from sacrebleu.metrics import BLEU
from tiny_runs import make_run

from seqwright.data.fields import SYMBOL
from seqwright.data.results import Reading
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.comparison import compare
from seqwright.evaluation.evaluate import Judging, evaluate, evaluate_files
from seqwright.files import write_json
from seqwright.prediction.predictor import load

PHONES = {"cat": "K AE T", "read": "R IY D Z", "dog": "D AA G"}
PHONE_PAIRS = [("cat", "K AE T"), ("read", "R EH D"), ("read", "R  IY D "), ("dog", "D AO G")]


def test_phones_with_several_references():
    """Three words, one right; of 9 phones of the closest references two are wrong. Spaces do not count."""
    found = evaluate(Answers(PHONES, target="symbols"), PHONE_PAIRS)
    assert found.writing == "symbols"
    assert found.metrics == pytest.approx(
        {"word_error_rate": 200 / 3, "symbol_error_rate": 200 / 9, "exact_match": 100 / 3}
    )
    assert (len(found.items), found.pairs) == (3, 4)
    assert found.outputs == ["K AE T", "R IY D Z", "R IY D Z", "D AA G"]


def test_forms_are_counted_in_characters():
    """Two of three right; one of the 4 + 4 + 5 characters is wrong."""
    found = evaluate(
        Answers({"a": "ging", "b": "lief", "c": "sehen"}), [("a", "gang"), ("b", "lief"), ("c", "sehen")]
    )
    assert list(found.metrics) == ["exact_match", "word_error_rate", "symbol_error_rate"]
    assert found.metrics["symbol_error_rate"] == pytest.approx(100 / 13)
    assert found.metrics["exact_match"] == pytest.approx(200 / 3)


def test_running_text_has_the_bleu_of_sacrebleu():
    outputs = {"x": "the cat sat on the mat .", "y": "A dog, under a tree"}
    pairs = [("x", "the cat sat on a mat ."), ("y", "a dog, under a tree")]
    found = evaluate(Answers(outputs, target="words"), pairs)
    theirs = BLEU()
    expected = theirs.corpus_score(list(outputs.values()), [[target for _, target in pairs]])
    assert found.writing == "text"
    assert found.metrics["bleu"] == pytest.approx(expected.score)
    assert found.to_json()["signatures"]["bleu"] == str(theirs.get_signature())


def test_published_figures_of_tokenized_text_can_be_had():
    model = Answers({"x": "the Cat, sat on it"}, target="words")
    judging = Judging(tokenize="none", lowercase=True, metrics=("bleu", "chrf", "ter"))
    found = evaluate(model, [("x", "the cat, sat on it")], judging=judging)
    assert found.metrics == pytest.approx({"bleu": 100, "chrf": 100, "ter": 0})
    assert "case:lc" in found.to_json()["signatures"]["bleu"]
    assert "tok:none" in found.to_json()["signatures"]["bleu"]


def test_an_unknown_metric_is_named():
    with pytest.raises(ConfigError, match="did you mean 'bleu'"):
        evaluate(Answers({"a": "b"}), [("a", "b")], judging=Judging(metrics=("blue",)))


def test_a_metric_can_be_asked_for_once():
    judging = Judging(metrics=("bleu", {"kind": "bleu", "lowercase": True}))
    with pytest.raises(ConfigError, match="bleu, bleu; each"):
        evaluate(Answers({"a": "b"}), [("a", "b")], judging=judging)


def test_nothing_to_evaluate_is_an_error():
    with pytest.raises(InputError, match="at least one pair"):
        evaluate(Answers({"a": "b"}), [])


def test_intervals_hold_the_score_and_are_repeatable():
    pairs = [(word, word if number % 3 else "?") for number, word in enumerate("abcdefghijkl")]
    model = Answers({word: word for word in "abcdefghijkl"})
    one, same = (evaluate(model, pairs) for _ in range(2))
    assert one.intervals == same.intervals
    for value, around in zip(one.metrics.values(), one.intervals, strict=True):
        assert around.low < value < around.high


def test_the_document_is_strict_json_with_the_agreed_keys():
    model = Answers(PHONES, target="symbols")
    model.changes = {"log_prob": -math.inf}
    document = evaluate(model, PHONE_PAIRS, file="x.tsv", beam=2).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["format"], document["file"], document["beam"]) == (1, "x.tsv", 2)
    assert (document["items"], document["pairs"], document["level"]) == (3, 4, 0.95)
    names = ["word_error_rate", "symbol_error_rate", "exact_match"]
    for key in ("metrics", "signatures", "intervals", "better"):
        assert list(document[key]) == names
    (bucket, *_) = document["buckets"]["length of the source in characters"]
    assert set(bucket) == {"name", "items", "metrics"}
    assert list(bucket["metrics"]) == names
    assert document["confusions"] == [
        {"expected": "", "said": "Z", "count": 1},
        {"expected": "AO", "said": "AA", "count": 1},
    ]
    (worst, *_), sample = document["examples"], document["examples"][-1]
    assert (worst["kind"], worst["source"], worst["log_prob"]) == ("worst", "dog", None)
    assert (sample["kind"], sample["references"]) == ("sample", ["D AO G"])
    keys = {"sentences_per_second", "latency_ms", "peak_memory_mb", "threads", "latency_threads"}
    assert set(document["speed"]) == keys
    assert document["speed"]["latency_ms"]["p50"] <= document["speed"]["latency_ms"]["p95"]
    assert document["tokens_per_second"] > 0


def test_the_worst_are_wrong_for_their_length_not_the_longest():
    said = {"short": "zz", "long": "abcdefghijklmnopqrst", "right": "abc"}
    pairs = [("short", "ab"), ("long", "XbcdefghijklmnopqrsY"), ("right", "abc")]
    found = evaluate(Answers(said), pairs)
    assert [found.items[number].example.source for number in found.worst] == ["short", "long"]


def test_21_a_wrong_language_is_noticed():
    found = evaluate(Answers({"ab": "x"}), [("日本語の", "x")])
    assert found.findings == ("100 % unknown tokens: wrong language or tokenizer?",)
    assert "! 100 % unknown tokens" in str(found)
    assert evaluate(Answers({"ab": "x"}), [("ab", "x")]).findings == ()


def test_outputs_that_do_not_end_and_sources_that_are_too_long_are_told():
    model = Answers({"a": "x"})
    model.changes = {"finish_reason": "length"}
    assert evaluate(model, [("a", "x")]).findings == ("outputs that did not end and were cut: 1 of 1",)
    model.changes = {"reading": Reading(9, 0, 4)}
    (finding,) = evaluate(model, [("a", "x")]).findings
    assert finding == "inputs that were too long and were read in part: 1 of 1"


hostile = st.text(st.sampled_from("ab \x1b\x07\u202e漢字é\u0301👩<>&\"'\u200d"), min_size=1, max_size=90)


@given(st.lists(st.tuples(hostile, hostile, hostile), min_size=1, max_size=30, unique_by=lambda row: row[0]))
def test_the_panel_fits_a_terminal_and_commands_nothing(rows):
    model = Answers({source: said for source, said, _ in rows})
    found = evaluate(model, [(source, wanted) for source, _, wanted in rows], judging=Judging(samples=5))
    lines = str(found).split("\n")
    assert len(lines) <= 40
    assert max(map(cell_len, lines)) <= 100
    assert all(line.isprintable() for line in lines)


def test_the_panel_has_one_blank_line_between_its_parts(monkeypatch):
    monkeypatch.setattr("seqwright.evaluation.panel._buckets", lambda evaluation: [])
    found = evaluate(Answers({"a": "x", "b": "z"}), [("a", "x"), ("b", "y")])
    assert "\n\n\n" not in str(found)


def test_the_page_has_no_markup_but_its_own():
    tags: list[str] = []
    said: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)  # type: ignore[method-assign]
    parser.handle_data = said.append  # type: ignore[method-assign]
    hostile = "</td><script>alert('x')</script>"
    parser.feed(evaluate(Answers({hostile: hostile}), [(hostile, "&lt;b")])._repr_html_())
    assert set(tags) == {"div", "p", "table", "tr", "th", "td"}
    assert said.count(hostile) == 2
    assert "&lt;b" in said


def test_the_panel_shows_what_matters():
    text = str(evaluate(Answers(PHONES, target="symbols"), PHONE_PAIRS, file="cmu.tsv"))
    for part in ("cmu.tsv: 3 items (4 examples), beam 3", "word error rate ↓", "AO → AA 1", "∅ → Z 1", "ms"):
        assert part in text


def test_texts_have_no_word_error_rate_that_is_none_of_words():
    """Few different words make symbols of running text, too."""
    found = evaluate(
        Answers({"7": "seven", "107": "one hundred"}, target="symbols"),
        [("7", "seven"), ("107", "one hundred and seven")],
    )
    assert found.metrics["word_error_rate"] == 50
    assert found.to_json()["item"] == "text"
    for shown in (str(found), found._repr_html_(), str(compare(found, found).verdict)):
        assert "word error rate" not in shown
    assert "wrong outputs ↓" in str(found)
    assert evaluate(Answers(PHONES, target="symbols"), PHONE_PAIRS).to_json()["item"] == "word"


def test_one_item_is_no_items():
    assert str(evaluate(Answers({"a": "b"}), [("a", "b")])).startswith("in-memory data: 1 item, beam 3\n")


def test_a_file_is_read_like_pairs(run, test_file):
    model = load(run)
    pairs = [tuple(line.split("\t")) for line in test_file.read_text(encoding="utf-8").splitlines()]
    from_file, from_pairs = model.evaluate(test_file), model.evaluate(pairs)
    assert from_file.metrics == from_pairs.metrics
    assert from_file.file == str(test_file)
    assert 0 < from_file.metrics["exact_match"] < 100


def test_sources_of_several_fields_are_read_and_shown_as_lines(tmp_path):
    folder = make_run(tmp_path / "run", ending=f"{SYMBOL}V{SYMBOL}PST", data={"columns": "1,2+:3"})
    (tmp_path / "x.tsv").write_text("ab\tV;PST\tAB\nba\tV;PST\tBA\n", encoding="utf-8")
    found = load(folder).evaluate(tmp_path / "x.tsv")
    assert found.to_json()["examples"][-1]["source"] == "ba\tV;PST"
    assert [bucket.name for bucket in found.buckets["length of the source in characters"]] == ["2"]
    assert load(folder).evaluate([(("ab", "V;PST"), "AB"), (("ba", "V;PST"), "BA")]).metrics == found.metrics


def test_what_reading_leaves_out_is_told(run, tmp_path):
    (tmp_path / "x.tsv").write_text("ab\tAB\nab\t \n", encoding="utf-8")
    found = evaluate_files(load(run), [tmp_path / "x.tsv"])
    assert found.findings[0].startswith("1 skipped: blank target")


def test_a_model_is_judged_as_at_the_end_of_its_training_whatever_the_file(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    sentences = [("ab", "AB BA AA")]
    assert load(folder).evaluate(sentences).writing == "text"
    trained = evaluate(load(folder), [("ab", "AB")])
    write_json(folder / "evaluation.json", trained.to_json())
    found = load(folder).evaluate(sentences)
    assert list(found.metrics) == list(trained.metrics)
    assert (found.writing, found.item) == (trained.writing, trained.item) == ("characters", "word")


def test_a_model_that_put_nothing_aside_asks_for_a_file(run):
    with pytest.raises(InputError, match="name a file"):
        evaluate_files(load(run))


def test_check_can_leave_in_the_middle():
    def check() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Answers({"a": "b"}), [("a", "b")], check=check)

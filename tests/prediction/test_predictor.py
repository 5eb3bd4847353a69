"""One output per input, in order, independent of its batch; scores are log-probabilities."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import make_run, words

from seqwright.config import SearchConfig
from seqwright.data.batch import BEGIN, END, PAD
from seqwright.data.fields import FIELD, SYMBOL
from seqwright.data.results import Prediction, Predictions
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.prediction import predictor as module
from seqwright.prediction.predictor import Predictor, load
from seqwright.search import BeamOptions, SamplingOptions
from seqwright.search.request import SearchRequest
from seqwright.tasks.bases.generated_text import LONGEST
from seqwright.tasks.text_to_text import TextToText, field_kinds

LETTERS = "abcd"

texts = st.text(LETTERS, max_size=7)
several = st.lists(texts, min_size=1, max_size=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("predictor") / "run")


@pytest.fixture(scope="module")
def model(folder) -> Predictor:
    return load(folder)


def outputs_of(predictions) -> list[tuple[str, str]]:
    return [(prediction.text, prediction.finish_reason) for prediction in predictions]


def test_outputs_differ_with_their_inputs(model):
    assert len({prediction.text for prediction in model.predict(list(LETTERS))}) > 1


@given(inputs=several)
def test_one_output_for_each_input_in_order(model, inputs):
    outputs = model.predict(inputs)
    assert [output.source for output in outputs] == inputs
    assert outputs_of(outputs) == outputs_of(model.stream(inputs))


@given(inputs=several)
def test_60_alone_is_as_in_any_batch(model, inputs):
    together = model.predict(inputs, n_best=2)
    for text, output in zip(inputs, together, strict=True):
        (alone,) = model.predict(text, n_best=2)
        assert outputs_of([alone, *alone.alternatives]) == outputs_of([output, *output.alternatives])
        assert alone.score == pytest.approx(output.score, abs=1e-4)


@given(inputs=several)
def test_60_the_cut_into_batches_changes_nothing(model, inputs):
    with pytest.MonkeyPatch.context() as patch:
        whole = outputs_of(model.predict(inputs))
        patch.setattr(module, "TOKENS", 1)
        patch.setattr(module, "BLOCK", 2)
        assert outputs_of(model.predict(inputs)) == whole


def test_54_empty_inputs_have_empty_outputs(model):
    assert outputs_of(model.predict(["", "ab", ""]))[::2] == [("", "end")] * 2
    assert model.predict([]) == []
    assert model.predict("") == [replace(model.predict([""])[0])]
    assert model.predict(["", ""], n_best=3, prefix="A")[0].text == ""


def test_duplicates_have_the_same_output(model):
    assert len(set(outputs_of(model.predict(["abc", "d", "abc"]))[::2])) == 1


@given(text=st.text(LETTERS, min_size=1, max_size=5), best=st.integers(1, 5))
def test_the_best_come_first_and_differ(model, text, best):
    (first,) = model.predict(text, n_best=best, beam=5)
    found = [first, *first.alternatives]
    assert len(found) == best
    ended = [each.score for each in found if each.finish_reason == "end"]
    assert ended == sorted(ended, reverse=True)
    assert len({each.tokens for each in found}) == best


@given(text=st.text(LETTERS, min_size=1, max_size=5))
def test_the_log_probability_is_that_of_its_tokens_and_that_of_score(model, text):
    (output,) = model.predict(text)
    assert output.log_prob == pytest.approx(sum(output.token_scores), abs=1e-5)
    assert len(output.token_scores) == len(output.tokens) + (output.finish_reason == "end")
    assert "".join(output.tokens) == output.text
    if output.finish_reason == "end":
        assert model.score([(text, output.text)])[0] == pytest.approx(output.log_prob, abs=1e-4)


@given(pairs=st.lists(st.tuples(texts, st.text("ABCD", max_size=6)), min_size=1, max_size=6))
def test_scores_do_not_depend_on_neighbours_or_cuts(model, pairs):
    together = model.score(pairs)
    assert together == pytest.approx([model.score([pair])[0] for pair in pairs], abs=1e-4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOKENS", 12)
        assert model.score(pairs) == pytest.approx(together, abs=1e-4)


def test_scores_of_all_targets_sum_to_no_more_than_one(model):
    targets = ["", *("A", "B", "C", "D"), *(a + b for a in "ABCD" for b in "ABCD")]
    assert 0 < sum(map(math.exp, model.score([("ab", target) for target in targets]))) <= 1


def test_21_unknown_symbols_of_targets_cause_a_warning(model, caplog):
    first, second, known = model.score([("ab", "Aé"), ("ab", "Aö"), ("ab", "AB")])
    assert first == second != known
    assert "2 of 3 targets have symbols that the model does not know, first that of pair 1" in caplog.text
    caplog.clear()
    model.score([("éé", "AB")])  # what is unknown in a source changes no target
    assert caplog.text == ""


@given(text=st.text(LETTERS, min_size=1, max_size=5), prefix=st.text("ABCD", max_size=4))
def test_the_prefix_is_what_an_output_begins_with(model, text, prefix):
    assert model.predict(text, prefix=prefix)[0].text.startswith(prefix)


def test_59_prefixes_must_be_known_and_as_many_as_texts(model):
    with pytest.raises(ConfigError, match="'Aé' has symbols that the model does not know"):
        model.predict("ab", prefix="Aé")
    with pytest.raises(ConfigError, match="1 prefixes for 2 inputs"):
        model.predict(["a", "b"], prefix=["A"])
    both = model.predict(["a", "b"], prefix=["A", "BB"])
    assert [output.text.startswith(begin) for output, begin in zip(both, ("A", "BB"), strict=True)] == [
        True
    ] * 2


@pytest.mark.parametrize(("beam", "n_best"), [(0, 1), (-1, 1), (2, 3), (3, 0)])
def test_58_impossible_beams_are_refused(model, beam, n_best):
    with pytest.raises(ConfigError, match=r"beam|n_best"):
        model.predict("ab", beam=beam, n_best=n_best)


def test_more_best_ones_than_the_usual_beam_widen_it(model):
    assert len(model.predict("ab", n_best=4)[0].alternatives) == 3


def test_sampling_depends_on_the_seed_and_the_place_alone(model):
    inputs = ["ab", "dcba", "ab", "c"]
    drawn = [outputs_of(model.predict(inputs, options=SamplingOptions(seed=seed))) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOKENS", 1)
        patch.setattr(module, "BLOCK", 3)
        assert outputs_of(model.predict(inputs, options=SamplingOptions(seed=1))) == drawn[0]
    cold = model.predict(inputs, options=SamplingOptions(temperature=0))
    assert outputs_of(cold) == outputs_of(model.predict(inputs, beam=1))


def test_56_an_output_without_an_end_is_marked(model):
    short = Predictor(model.model, model.task, SearchConfig(beam=2, max_length=1))
    (output,) = short.predict("abcd", prefix="A")
    assert (output.text, output.finish_reason) == ("A", "length")


def test_21_unknown_symbols_in_an_input_are_survived(model):
    assert len(model.predict(["日本語", "a☃b", "\u0000"])) == 3


def test_the_model_is_left_in_the_mode_it_was_in(model):
    for training in (True, False):
        model.model.train(training)
        model.predict("ab")
        model.score([("a", "A")])
        assert model.model.training is training
    model.model.train()
    first, second = (model.score([("abcd", "DCBA")]) for _ in range(2))
    model.model.eval()
    assert first == second == model.score([("abcd", "DCBA")])


def test_check_can_leave_between_batches(model, monkeypatch):
    monkeypatch.setattr(module, "TOKENS", 1)
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(model.stream(["a", "bb", "ccc"], check=check))


def test_outputs_show_themselves_without_markup_of_their_own(model):
    (output,) = model.predict("ab", n_best=2)
    hostile = replace(
        output,
        text="<img onerror=x>",
        tokens=("<img", "\x1b[2J"),
        source='</table><script>"',
        alternatives=(),
    )
    for page in (hostile._repr_html_(), Predictions([hostile])._repr_html_()):
        assert "<img" not in page
        assert "<script" not in page
    shown = str(Predictions([replace(hostile, source="a\nb\x1b[2J\u2028", text="日本" * 50)]))
    assert len(shown.split("\n")) == 2
    assert "\x1b" not in shown


def test_the_less_probable_a_token_the_darker(model):
    (output,) = model.predict("ab")
    unsure = replace(output, tokens=("A", "B"), token_scores=(0.0, -3.0, 0.0), text="AB")
    sure, dark = (float(alpha) for alpha in re.findall(r"20, ([\d.]+)\)", unsure._repr_html_()))
    assert (sure, dark) == (0.0, round(0.8 * (1 - math.exp(-3)), 2))


def test_many_predictions_are_a_list_and_a_short_table(model):
    found = model.predict(words(60))
    assert isinstance(found[:3], Predictions)
    assert isinstance(found[0], Prediction)
    assert found.texts == [each.text for each in found]
    assert len(repr(found).split("\n")) == 1 + 50 + 1
    assert repr(found).endswith("and 10 more")


def test_a_table_has_the_alternatives_too(model):
    first, second = model.predict(["ab", "c"], n_best=2)
    header, *rows = repr(Predictions([first, second])).split("\n")
    assert header.split() == ["source", "output", "score", "probability"]
    assert [row.split()[:-2] for row in rows] == [
        *(["ab", first.text], [first.alternatives[0].text]),
        *(["c", second.text], [second.alternatives[0].text]),
    ]
    assert [float(row.split()[-2]) for row in rows[:2]] == [round(one.score, 3) for one in first.all]


def test_a_model_is_called_for_texts(model):
    assert model("abc") == model.predict("abc")[0].text
    assert model(["abc", "d"]) == model.predict(["abc", "d"]).texts
    assert model("abc", temperature=1.0, seed=5) == model.predict("abc", temperature=1.0, seed=5)[0].text


def test_the_repr_describes_the_model(model, folder):
    for part in (
        str(folder),
        "tiny, changed",
        "parameters",
        "characters with 12 ids → characters with 12 ids",
    ):
        assert part in repr(model)
    assert "Predictor" in repr(Predictor(model.model, model.task))


def test_a_model_loaded_by_a_fresh_process_has_the_same_outputs(model, folder):
    inputs = ["abcd", "", "dd", "acbd"]
    program = (
        "import json, sys, torch; torch.set_num_threads(1)\n"
        "from seqwright.prediction.predictor import load\n"
        "found = load(sys.argv[1]).predict(json.loads(sys.argv[2]), n_best=2)\n"
        "print(json.dumps([[p.text, p.score, p.token_scores] for p in found]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), json.dumps(inputs)],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [[p.text, p.score, list(p.token_scores)] for p in model.predict(inputs, n_best=2)]
    assert json.loads(done.stdout) == expected


def test_loaded_again_it_has_the_same_outputs(model, folder):
    again = load(folder)
    weights, others = model.model.weights(), again.model.weights()
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())
    inputs = ["abcd", "d", "cb"]
    assert again.predict(inputs, n_best=3) == model.predict(inputs, n_best=3)
    assert again.search == SearchConfig(beam=3, max_length=12)


def test_options_go_beyond_the_beam(model):
    options = BeamOptions(size=2, min_length=6, max_length=8)
    assert all(len(output.tokens) >= 6 for output in model.predict(["a", "b"], options=options))


@pytest.mark.parametrize("options", [BeamOptions(size=4, n_best=4), SamplingOptions(temperature=50)])
def test_padding_and_the_start_symbol_are_never_output(model, options):
    """Even with high scores: they have no text, and an output would hide them."""
    loud = load(model.folder)
    with torch.no_grad():
        weight = loud.model.output.weight
        weight[[PAD, BEGIN]] = 5 * weight[END + 1 :].mean(0)
    rows = loud.task.source.encode_batch(["abc", "ddd"])
    for found in loud.search_tokens(rows, [[], []], options, [0, 1]):
        for hypothesis in found:
            assert not {PAD, BEGIN} & set(hypothesis.tokens)


def test_keywords_mean_the_same_as_options(model):
    inputs = ["abc", "hgf", "dd"]
    for keywords, options in (
        ({"temperature": 0.7, "top_k": 5, "top_p": 0.9, "seed": 3}, SamplingOptions),
        ({"beam": 2, "n_best": 2, "length_penalty": -1.0}, BeamOptions),
    ):
        given = {("size" if name == "beam" else name): value for name, value in keywords.items()}
        wanted = model.predict(inputs, options=options(max_length=12, **given))
        assert model.predict(inputs, **keywords) == wanted
    assert model.predict(inputs, sample=True) == model.predict(inputs, options=SamplingOptions(max_length=12))
    assert model.predict(inputs, temperature=0).texts == model.predict(inputs, beam=1).texts
    assert all(len(output.tokens) <= 2 for output in model.predict(inputs, max_length=2))


def test_58_all_problems_are_reported_at_once():
    wrong = SearchRequest(beam=0, n_best=2, temperature=math.nan, top_k=-1, top_p=0.0, seed=1)
    with pytest.raises(ConfigError) as error:
        wrong.options(SearchConfig())
    for part in ("beam is 0", "n_best is 2", "temperature is nan", "top_k is -1", "top_p is 0.0"):
        assert part in str(error.value)
    for alone in ({"seed": 1}, {"sample": True, "beam": 2}, {"temperature": -1.0}, {"top_p": 1.5}):
        with pytest.raises(ConfigError):
            SearchRequest(**alone).options(SearchConfig())


def test_draws_depend_on_the_number_of_a_text_among_all(model):
    """So that a file can be cut into blocks and shares."""
    inputs = words(20)
    whole = [each.text for each in model.stream(inputs, options=SamplingOptions())]
    halves = [model.stream(inputs[k : k + 10], options=SamplingOptions(), first=k) for k in (0, 10)]
    assert [each.text for half in halves for each in half] == whole


# Long sources and learned positions -------------------------------------------------------------------


def test_55_a_long_source_is_cut_with_a_warning(model, monkeypatch, caplog):
    monkeypatch.setattr("seqwright.tasks.bases.generated_text.LONGEST", 4)
    long, short = model.predict(["abcdefgh", "abcd"])
    assert (long.reading.tokens, long.reading.unread, short.reading.unread) == (8, 4, 0)
    assert long.text == short.text
    assert "1 of 2 inputs are longer than the 4 tokens" in caplog.text
    assert "only the first 4 of 8 tokens" in str(Predictions([long]))
    with pytest.raises(InputError, match="source of pair 2 has 5 tokens, but at most 4 can be scored"):
        model.score([("abcd", "A"), ("abcde", "A")])


def test_11_a_source_of_a_megabyte_is_bounded(model):
    (output,) = model.predict("a" * (1 << 20), beam=1)
    assert output.reading.unread == (1 << 20) - LONGEST


def test_55_learned_positions_are_never_exceeded(tmp_path):
    position = {"kind": "learned", "length": 7}
    learned = load(make_run(tmp_path / "run", model={"position": position}))
    assert learned.longest == 6
    outputs = learned.predict(["abcdefgh", "a"], options=BeamOptions(size=2, min_length=7, max_length=50))
    assert [len(output.tokens) for output in outputs] == [7, 7]
    assert learned.score([("abcdef", "ABCDEF")])[0] < 0
    with pytest.raises(InputError, match="target of pair 1 has 7 tokens, but at most 6 can be scored"):
        learned.score([("a", "ABCDEFG")])


def test_21_unknown_symbols_are_counted(model):
    (output,) = model.predict("a☃b日")
    assert (output.reading.tokens, output.reading.unknown) == (4, 2)


# Sources of several fields ----------------------------------------------------------------------------

cells = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\u2028\u2029"), max_size=5
)
symbol_cells = st.lists(st.text("ABC", min_size=1, max_size=2), max_size=3).map(";".join)
roles = st.lists(st.sampled_from(["text", "symbols"]), min_size=1, max_size=3).map(tuple)


@given(roles=roles, data=st.data())
def test_a_source_is_shown_as_it_was_given(roles, data):
    given_cells = tuple(data.draw(cells if role == "text" else symbol_cells) for role in roles)
    task = TextToText(None, None, fields=roles)
    (pair,) = task.inputs(given_cells)
    line = task.to_line(pair)
    assert task.from_line(line) == pair
    assert list(task.inputs([line])) == [pair]


@pytest.fixture(scope="module")
def inflecting(tmp_path_factory) -> Predictor:
    ending = f"{SYMBOL}V{SYMBOL}PST"
    columns = {"columns": "1,3+:2"}
    return load(make_run(tmp_path_factory.mktemp("fields") / "run", ending=ending, data=columns))


def test_fields_are_a_tuple_or_a_line_with_tabs(inflecting):
    assert inflecting.task.fields == ("text", "symbols")
    three = inflecting.predict([("abc", "V;PST"), "abc\tV PST", f"abc{SYMBOL}V{SYMBOL}PST"])
    assert len(set(three.texts)) == 1
    assert {output.source for output in three} == {"abc\tV;PST"}
    assert inflecting(("abc", "V;PST")) == three[0].text
    assert inflecting.score([(("abc", "V;PST"), "ABC")]) == inflecting.score([("abc\tV;PST", "ABC")])
    assert inflecting.predict([("", " "), "\t"]).texts == ["", ""]


def test_fields_must_be_as_many_as_in_training(inflecting, model):
    with pytest.raises(InputError, match=r"3 fields, but the model takes 2 \(text, symbols\)"):
        inflecting.predict([("abc", "V", "PST")])
    with pytest.raises(InputError, match="1 field, but"):
        inflecting.task.from_line("abc")
    with pytest.raises(InputError, match="2 fields, but the model takes 1"):
        model.predict(("abc", "def"))


def test_python_and_the_command_line_require_the_same_fields(inflecting):
    """An empty field must be given; a missing field is an error."""
    for ask in (
        inflecting,
        inflecting.predict,
        inflecting.look,
        lambda text: inflecting.score([(text, "A")]),
    ):
        with pytest.raises(InputError, match="1 field, but the model takes 2"):
            ask("abc")
    empty = next(inflecting.task.inputs(("abc", ""))).source
    assert empty == "abc"  # nothing marks it as joined; it is read as one text
    assert inflecting(("abc", "")) == inflecting("abc\t") == inflecting(empty)
    assert inflecting.evaluate([(("abc", ""), "A")]).items[0].output.source == "abc\t"


@pytest.mark.parametrize("given", [None, 3, b"abc", ["abc", 3], ("abc", None), [["abc"]]])
def test_an_invalid_source_is_named(model, given):
    with pytest.raises(InputError, match=r"(None|3|b'abc'|\['abc'\]).* is not a source: give a text"):
        model(given)


def test_a_prediction_is_one_short_line(model, inflecting):
    (output,) = inflecting.predict(("abc", "V;PST"), n_best=3)
    shown = f"<Text: “{output.text}” for “abc\\tV;PST”, probability {output.probability:.3f}, "
    assert repr(output) == f"{shown}2 alternatives>"
    cut = replace(output, finish_reason="length", text="x" * 500, alternatives=())
    assert repr(cut).endswith("cut: length>")
    assert len(repr(cut)) < 140


def test_19_no_text_from_outside_passes_for_a_marker(inflecting):
    for hostile in (f"ab{SYMBOL}V", f"ab{FIELD}c"):
        assert next(inflecting.task.inputs((hostile, ""))).source == f"ab\ufffd{hostile[3:]}"
        assert TextToText(None, None).from_line(hostile).source == f"ab\ufffd{hostile[3:]}"


def test_field_kinds_come_from_the_columns():
    assert field_kinds(None) == field_kinds("1:2") == field_kinds("lemma:form") == ("text",)
    assert field_kinds("1,3+:2") == ("text", "symbols")
    assert field_kinds("1+,3=:2") == ("symbols", "text")
    with pytest.raises(ModelError, match="mark the columns"):
        list(TextToText(None, None, fields=field_kinds("1,3:2")).inputs(("a", "b")))

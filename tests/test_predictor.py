"""One output for each input, in order, the same whatever its neighbours; scores that are true."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqwright import predictor as module
from seqwright.config import SearchConfig, parse
from seqwright.errors import ConfigError
from seqwright.predictor import Predictor, load
from seqwright.search import BeamOptions, SamplingOptions
from seqwright.training.job import train

LETTERS = "abcd"

texts = st.text(LETTERS, max_size=7)
several = st.lists(texts, min_size=1, max_size=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that has learned a little: its outputs depend on its inputs, and it is not sure of them."""
    folder = tmp_path_factory.mktemp("predictor")
    words = [a + b + c for a in LETTERS for b in ("", *LETTERS) for c in ("", *LETTERS)]
    (folder / "pairs.tsv").write_text("".join(f"{word}\t{word[::-1].upper()}\n" for word in words))
    config = parse(
        {
            "data": {"train": [str(folder / "pairs.tsv")], "held_out": 0.1},
            "model": {"preset": "tiny", "share": False, "layers": 1, "size": 16, "hidden": 32, "heads": 2},
            "training": {"steps": 60, "tokens": 150, "validate_every": 60, "decode": 0, "average": 0.9}
            | {"optimizer": {"rate": 0.01}, "schedule": {"warmup": 5}},
            "search": {"beam": 3, "max_length": 12},
            "threads": 1,
        }
    )
    train(config, folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def model(folder) -> Predictor:
    return load(folder)


def said(predictions) -> list[tuple[str, str]]:
    return [(prediction.text, prediction.finish_reason) for prediction in predictions]


def test_outputs_differ_with_their_inputs(model):
    assert len({prediction.text for prediction in model.predict(list(LETTERS))}) > 1


@given(inputs=several)
def test_one_output_for_each_input_in_order(model, inputs):
    outputs = model.predict(inputs)
    assert [output.source for output in outputs] == inputs
    assert said(outputs) == said(model.stream(inputs))


@given(inputs=several)
def test_60_alone_is_as_in_any_batch(model, inputs):
    together = model.predict(inputs, n_best=2)
    for text, output in zip(inputs, together, strict=True):
        (alone,) = model.predict(text, n_best=2)
        assert said([alone, *alone.alternatives]) == said([output, *output.alternatives])
        assert alone.score == pytest.approx(output.score, abs=1e-4)


@given(inputs=several)
def test_60_the_cut_into_batches_changes_nothing(model, inputs):
    with pytest.MonkeyPatch.context() as patch:
        whole = said(model.predict(inputs))
        patch.setattr(module, "TOKENS", 1)
        patch.setattr(module, "BLOCK", 2)
        assert said(model.predict(inputs)) == whole


def test_54_empty_inputs_have_empty_outputs(model):
    assert said(model.predict(["", "ab", ""]))[::2] == [("", "end")] * 2
    assert model.predict([]) == []
    assert model.predict("") == [replace(model.predict([""])[0])]
    assert model.predict(["", ""], n_best=3, prefix="A")[0].text == ""


def test_duplicates_have_the_same_output(model):
    assert len(set(said(model.predict(["abc", "d", "abc"]))[::2])) == 1


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


@given(text=st.text(LETTERS, min_size=1, max_size=5), prefix=st.text("ABCD", max_size=4))
def test_the_prefix_is_what_an_output_begins_with(model, text, prefix):
    assert model.predict(text, prefix=prefix)[0].text.startswith(prefix)


def test_59_prefixes_must_be_known_and_as_many_as_texts(model):
    with pytest.raises(ConfigError, match="'Aé' has symbols that the model does not know"):
        model.predict("ab", prefix="Aé")
    with pytest.raises(ConfigError, match="1 prefixes for 2 texts"):
        model.predict(["a", "b"], prefix=["A"])
    both = model.predict(["a", "b"], prefix=["A", "BB"])
    assert [output.text.startswith(begin) for output, begin in zip(both, ("A", "BB"), strict=True)] == [
        True
    ] * 2


@pytest.mark.parametrize(("beam", "n_best"), [(0, 1), (-1, 1), (2, 3), (3, 0)])
def test_58_impossible_beams_are_refused(model, beam, n_best):
    with pytest.raises(ConfigError, match=r"size|n_best"):
        model.predict("ab", beam=beam, n_best=n_best)


def test_more_best_ones_than_the_usual_beam_widen_it(model):
    assert len(model.predict("ab", n_best=4)[0].alternatives) == 3


def test_sampling_depends_on_the_seed_and_the_place_alone(model):
    inputs = ["ab", "dcba", "ab", "c"]
    drawn = [said(model.predict(inputs, options=SamplingOptions(seed=seed))) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOKENS", 1)
        patch.setattr(module, "BLOCK", 3)
        assert said(model.predict(inputs, options=SamplingOptions(seed=1))) == drawn[0]
    cold = model.predict(inputs, options=SamplingOptions(temperature=0))
    assert said(cold) == said(model.predict(inputs, beam=1))


def test_56_what_does_not_end_says_so(model):
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


def test_outputs_are_html_without_markup_of_their_own(model):
    (output,) = model.predict("ab", n_best=2)
    hostile = replace(output, text="<img onerror=x>", source="</table><script>")
    page = hostile._repr_html_()
    assert "<img" not in page
    assert "<script" not in page


def test_a_model_loaded_by_a_fresh_process_says_the_same(model, folder):
    inputs = ["abcd", "", "dd", "acbd"]
    program = (
        "import json, sys, torch; torch.set_num_threads(1)\n"
        "from seqwright.predictor import load\n"
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


def test_saved_and_loaded_it_says_the_same(model, folder):
    again = load(folder)
    weights, others = model.model.weights(), again.model.weights()
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())
    inputs = ["abcd", "d", "cb"]
    assert again.predict(inputs, n_best=3) == model.predict(inputs, n_best=3)
    assert again.search == SearchConfig(beam=3, max_length=12)


def test_options_go_beyond_the_beam(model):
    options = BeamOptions(size=2, min_length=6, max_length=8)
    assert all(len(output.tokens) >= 6 for output in model.predict(["a", "b"], options=options))

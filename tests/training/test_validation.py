"""Validation: the mean loss over all, the same sentences every time, and no trace in the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from seqwright.data.batch import collate
from seqwright.data.tokenizer import END
from seqwright.evaluation.metrics.exact_match import ExactMatch
from seqwright.models.building import build_model
from seqwright.training.preparation import prepare
from seqwright.training.validation import Validator


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("validation")
    pairs = tiny.write_pairs(
        folder / "pairs.tsv", [(word, word[::-1].replace("f", "é")) for word in tiny.words(300)]
    )
    texts = [("abc", "cba"), ("abc", "bca"), *((word, word[::-1]) for word in ["fff", *tiny.words(20, 5)])]
    valid = tiny.write_pairs(folder / "valid.tsv", texts)
    return prepare(tiny.configuration(pairs, f"data.valid={[str(valid)]}"), folder)


@pytest.fixture(scope="module")
def model(prepared):
    config = tiny.configuration(tiny.Path("none"))
    return build_model(
        config.model,
        source_vocabulary=prepared.task.source.size,
        target_vocabulary=prepared.task.target.size,
    )


def validator(prepared, *, tokens: int = 60, decode: int = 8) -> Validator:
    return Validator(prepared.valid, prepared.task, "exact_match", tokens=tokens, decode=decode)


def test_the_loss_is_the_mean_over_all_tokens_for_any_batches(prepared, model):
    found = [validator(prepared, tokens=tokens).validate(model).loss for tokens in (8, 60, 10_000)]
    batch = collate(
        *(
            prepared.valid.column(side).gather(np.arange(len(prepared.valid)))
            for side in ("source", "target")
        ),
        np.arange(1),
    )
    with torch.no_grad():
        whole = model.eval().loss(batch)
    assert found == pytest.approx([float(whole.total) / whole.count] * 3, rel=1e-5)


def test_it_is_a_pure_function_and_leaves_no_trace(prepared, model):
    before = {name: weight.clone() for name, weight in model.weights().items()}
    model.train()
    torch.manual_seed(5)
    first = validator(prepared).validate(model)
    drawn = torch.rand(1)
    assert model.training
    again = validator(prepared).validate(model)
    assert (first.record(), first.items) == (again.record(), again.items)
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))  # no random number was used up


def test_equal_sources_are_one_item_with_all_their_references(prepared, model):
    items = validator(prepared, decode=1000).validate(model).items
    assert len({item.example.source for item in items}) == len(items)
    assert next(item for item in items if item.example.source == "abc").references == ("cba", "bca")


def test_spaces_between_symbols_are_not_part_of_a_reference(tmp_path):
    pairs = tiny.write_pairs(tmp_path / "pairs.tsv", [(word, " ".join(word)) for word in tiny.words(50)])
    valid = tiny.write_pairs(tmp_path / "valid.tsv", [("abc", "a  b c"), ("abc", "a b c"), ("ca", "c a ")])
    changes = f"data.valid={[str(valid)]}", "tokenizer.target=symbols"
    prepared = prepare(tiny.configuration(pairs, *changes), tmp_path)
    assert [answers for _, answers in validator(prepared).items] == [["a b c"], ["c a"]]


def test_unknown_symbols_are_counted_once(prepared, model):
    """é stands for f in the training targets: each f of the validation targets is unknown."""
    checked = validator(prepared)
    texts = [prepared.task.stored(prepared.valid, number)[:2] for number in range(len(prepared.valid))]
    tokens = sum(len(source) + len(target) for source, target in texts)
    assert checked.unknown == sum(target.count("f") for _, target in texts) / tokens > 0
    assert checked.validate(model).unknown == checked.unknown


@pytest.mark.parametrize("decode", [0, 1, 5])
def test_as_many_outputs_as_requested(prepared, model, decode):
    found = validator(prepared, decode=decode).validate(model)
    assert len(found.items) == decode
    assert [score.name for score in found.scores] == (["exact_match", "symbol_error_rate"] if decode else [])
    assert found.judged("loss") == (found.loss, "lower", 0.0)


def test_a_score_comes_with_its_standard_error_and_the_loss_decides_among_equals(prepared, model):
    found = validator(prepared, decode=5).validate(model)
    (right,) = (score.value for score in found.scores if score.name == "exact_match")
    judged = found.judged("exact_match")
    assert judged.value == pytest.approx(right, abs=1e-4)
    assert replace(found, loss=found.loss + 1).judged("exact_match").value < judged.value < right
    outputs = [item.output.text for item in found.items[:2]]
    half = ExactMatch().measured(outputs, [[outputs[0]], [outputs[1] + "!"]])
    assert replace(found, measured=(half,)).judged("exact_match").error == pytest.approx(50)


def test_a_model_that_finds_no_end_costs_a_bounded_time(prepared, monkeypatch):
    """Outputs are cut by the length of their own references, of which the shortest come first."""
    monkeypatch.setattr("seqwright.tasks.bases.generated_text.TOGETHER", 4)
    torch.manual_seed(0)
    sizes = {"source_vocabulary": prepared.task.source.size, "target_vocabulary": prepared.task.target.size}
    endless = build_model({**tiny.TABLE["model"], "output_bias": True}, **sizes)
    endless.weights()["output.bias"][END] = -1e9
    found = validator(prepared, decode=1000)
    items = found.validate(endless).items
    assert [item.example.source for item in items] == [pair.source for pair, _ in found.items]
    lengths = sorted(max(map(len, item.references)) for item in items)
    allowed = [2 * lengths[min(place | 3, len(lengths) - 1)] + 10 for place in range(len(lengths))]
    assert sorted(len(item.output.tokens) for item in items) == allowed
    assert {item.output.finish_reason for item in items} == {"length"}


def test_the_loss_of_long_texts_is_that_of_fewer(prepared, model, monkeypatch):
    counts = [len(validator(prepared).picked)]
    monkeypatch.setattr("seqwright.training.validation.TOKENS", 40)
    monkeypatch.setattr("seqwright.training.validation.LEAST", 1)
    counts.append(len(validator(prepared).picked))
    assert counts[0] == len(prepared.valid)
    assert 40 / 8 <= counts[1] <= 40 / 4  # a target has 2 to 6 letters and an end
    assert math.isfinite(validator(prepared).validate(model).loss)


def test_losses_with_right_and_wrong_sources_are_those_of_the_same_targets(prepared, model, monkeypatch):
    """Batches are ordered by length, and a mean over some of them is not that over all."""
    monkeypatch.setattr("seqwright.data.batch.Batch.with_shuffled_inputs", lambda batch: batch)
    found = validator(prepared, tokens=16).validate(model)
    assert found.shuffled_loss == pytest.approx(found.loss, rel=1e-12)


def test_one_sentence_has_no_other_source(prepared, model):
    """In batches of one row no sources can be exchanged, so the shuffled loss is NaN."""
    assert math.isnan(validator(prepared, tokens=1).validate(model).shuffled_loss)


def test_it_can_be_left_between_batches(prepared, model):
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    model.train()
    with pytest.raises(KeyboardInterrupt):
        validator(prepared, tokens=8).validate(model, check)
    assert model.training

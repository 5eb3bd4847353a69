"""Heads of models without a decoder or without an encoder: roles, importance, pruning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from read_off import (
    RNN,
    SENTENCES,
    TASKS,
    TRANSFORMER,
    classifier,
    hierarchical,
    language_model,
    masked_model,
    tagger,
    toy_configuration,
)
from torch.testing import assert_close

from seqwright import cli
from seqwright.data.readers.parses import Parse
from seqwright.lens.heads.analysis import analyse
from seqwright.lens.heads.gates import apply_gates, sites, without_heads
from seqwright.lens.heads.importance import HeadScorer, ablations, batches_of, gate_gradients
from seqwright.lens.heads.pruning import prunable, pruned
from seqwright.lens.heads.roles import FREQUENT, rarest
from seqwright.lens.heads.syntax_roles import syntax
from seqwright.prediction.predictor import load
from seqwright.training.run import train

LABELLED = [("look", "warm"), ("through the glass", "cold"), ("glass", "warm"), ("at the", "<b>mild</b>")]
TEXTS = ["through the looking glass", "look at the glass", "at"]
SUBJECTS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "enc": (
        lambda: classifier(TRANSFORMER, "attention"),
        LABELLED,
        {"kind": "encoder_only", "encoder": TRANSFORMER, "head": {"kind": "classes", "pooling": "attention"}},
    ),
    "dec": (
        lambda: language_model(TRANSFORMER),
        TEXTS,
        {"kind": "decoder_only", "decoder": TRANSFORMER},
    ),
}
every_kind = pytest.mark.parametrize("kind", SUBJECTS)


def subject(kind: str) -> tuple[Any, list[Any], dict[str, Any]]:
    make, examples, description = SUBJECTS[kind]
    predictor = make()
    predictor.model.double()
    return predictor, examples, description


def losses(predictor: Any, examples: list[Any], gates: Any) -> torch.Tensor:
    """The loss of each example by itself."""
    with apply_gates(gates), torch.no_grad():
        batches = [batch for one in examples for batch in batches_of(predictor.task, [one])]
        return torch.stack([predictor.model.loss(batch).total for batch in batches])


@every_kind
def test_the_gradient_per_example_is_a_finite_difference(kind):
    predictor, examples, _ = subject(kind)
    single = [batch for one in examples for batch in batches_of(predictor.task, [one])]
    found = gate_gradients(predictor.model, single)
    for site in sites(predictor.model):
        for number in range(site.attention.heads):
            step = torch.zeros(site.attention.heads, 1, 1, dtype=torch.float64)
            step[number] = 1e-5
            ahead, behind = (losses(predictor, examples, {site.attention: 1 + s * step}) for s in (1, -1))
            wanted = ((ahead - behind) / 2e-5).abs().mean()
            assert_close(found[site.key].by_example[number], wanted, atol=1e-4, rtol=1e-4)


@every_kind
def test_a_table_has_the_heads_of_the_one_side(kind):
    predictor, examples, _ = subject(kind)
    table = analyse(predictor, examples, scorer=HeadScorer(predictor, examples, "loss"))
    assert [(row.kind, row.layer, row.head) for row in table.rows] == [
        (kind, layer, head) for layer in (0, 1) for head in (0, 1)
    ]
    for row in table.rows:
        assert 0 < row.confidence <= 1
        assert row.importance > 0
        with without_heads(predictor.model, [row.id]):
            without = HeadScorer(predictor, examples, "loss")()
        assert row.ablation == pytest.approx(without - HeadScorer(predictor, examples, "loss")())
    json.dumps(table.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("make", "examples"),
    [
        (lambda: tagger(spelled=True), [("look at glass", "B-X I-X O"), ("glass", "O")]),
        (lambda: tagger(spelled=False), [("look at glass", "B-X I-X O")]),
        (masked_model, ["look at the looking glass through the looking glass"]),
    ],
)
def test_taggers_and_masked_models_have_a_table(make, examples):
    predictor = make()
    table = analyse(predictor, examples, scorer=HeadScorer(predictor, examples, "loss"))
    assert {row.kind for row in table.rows} == {"enc"}
    assert all(row.importance > 0 and row.ablation is not None for row in table.rows)


def test_a_metric_of_the_task_scores_a_classifier():
    predictor, examples, _ = subject("enc")
    predictor.model.float()
    scorer = HeadScorer(predictor, examples, "accuracy")
    right = sum(predictor.predict(text)[0].label == label for text, label in examples)
    assert scorer() == 100 * right / len(examples)
    assert set(ablations(scorer)) == set(prunable(predictor.model))


@every_kind
def test_a_closed_head_is_a_removed_head(kind):
    predictor, examples, description = subject(kind)
    model, (batch,) = predictor.model, batches_of(predictor.task, examples[:1])
    heads = [head for head in prunable(model) if head.head == 0 or head.layer == 0]
    with torch.no_grad(), without_heads(model, heads):
        without = model(batch)
    smaller, described = pruned(model, description, heads, predictor.task.facts())
    with torch.no_grad():
        assert_close(smaller(batch), without, atol=1e-10, rtol=1e-8)
    assert described["encoder" if kind == "enc" else "decoder"]["heads"] == [0, 1]


def test_the_rarest_token_of_a_causal_head_is_among_those_it_sees():
    ranks = np.arange(FREQUENT + 9)
    ids = torch.tensor([[FREQUENT + 2, 3, FREQUENT + 7, 4]])
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    found = rarest(ids, causal[None], ranks)
    assert found[0, :, 0].tolist() == [0, 0, 2, 2]
    assert found[0, 1:, 1].tolist() == [1, 0, 0]


@every_kind
def test_relations_are_found_in_the_self_attention(kind):
    """A decoder cannot find a later word, so it is not asked for one."""
    predictor, *_ = subject(kind)
    parse = Parse("look at glass", ((0, 4), (5, 7), (8, 13)), (-1, 0, 0), ("root", "advmod", "obj"))
    found = syntax(predictor, [parse])
    assert set(found) == set(prunable(predictor.model))
    directions = {(relation.name, relation.direction) for relation in next(iter(found.values()))}
    back = {("advmod", "dependent to head"), ("obj", "dependent to head")}
    forth = {("advmod", "head to dependent"), ("obj", "head to dependent")}
    assert directions == (back | forth if kind == "enc" else back)


@pytest.mark.parametrize(
    ("make", "examples"),
    [
        (lambda: classifier(RNN, "mean"), LABELLED),
        (lambda: language_model(RNN), TEXTS),
        (hierarchical, [(SENTENCES, "warm")]),
    ],
)
def test_a_recurrent_model_has_no_heads(make, examples):
    table = analyse(make(), examples)
    assert table.rows == ()
    assert table.notes == ("The model has no attention heads.",)


@pytest.fixture(scope="module", params=TASKS)
def run(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    train(toy_configuration(request.param, folder), folder / "run")
    return folder / "run"


@pytest.mark.parametrize("way", [["--prune", 1], ["--gates", "--keep", 3, "--minutes", 0.01]])
def test_a_smaller_run_predicts_and_verifies(run, tmp_path, capsys, way):
    out = tmp_path / "smaller"
    options = ["--pairs", 20, "--metric", "loss", *way, "--out", out]
    assert cli.main(["heads", *map(str, [run, *options])]) == 0
    assert f"{out}: kept 3 of 4 heads" in capsys.readouterr().out
    assert sum(site.attention.heads for site in sites(load(out).model)) == 3
    assert cli.main(["verify", str(out)]) == 0
    assert "outputs unchanged" in capsys.readouterr().out


def test_look_works_on_a_run_in_the_terminal_and_as_json(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert cli.main(["look", str(run), "abe", "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert cli.main(["look", str(run), "abe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "abe"
    assert cli.main(["look", str(run), "abe", "--beam", "3"]) != 0
    assert "does not search" in capsys.readouterr().err

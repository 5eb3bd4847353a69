"""Law: a closed head is a removed head, wherever it is and whatever its attention is made of."""

from __future__ import annotations

import json

import headed
import pytest
import torch
from torch.testing import assert_close

from seqwright import build_model
from seqwright.errors import ConfigError, WriteError
from seqwright.lens.heads.gates import Head, sites, without_heads
from seqwright.lens.heads.importance import HeadScorer, batches_of
from seqwright.lens.heads.pruning import curve, prunable, pruned, write_pruned
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES
from seqwright.prediction.predictor import Predictor, load

PAIRS = headed.pairs(6)
MODELS = {name: {"position": name} for name in POSITIONS.names()}
MODELS |= {f"score {name}": {"score": name} for name in SCORES.names()}
MODELS |= {
    "no bias": {"bias": False},
    "shaw per head": {"position": {"kind": "shaw", "distance": 2, "per_head": True}},
    "deep encoder": {"encoder": {"layers": 4}, "decoder": {"layers": 1}},
    "deep decoder": {
        "encoder": {"layers": 1},
        "decoder": {"layers": 3, "cross_heads": 4},
        "position": "alibi",
    },
    "heads per layer": {"heads": [1, 3], "head_size": 6},
    "tied": {"share": True, "tie": True},
    "window, post": {"window": 1, "order": "post", "position": "rotary"},
}


def scores(model) -> torch.Tensor:
    (batch,) = batches_of(headed.task(), PAIRS)
    with torch.no_grad():
        return model(batch)


def some(model) -> list[Head]:
    """The first head of every attention, and all of the first one of each kind."""
    return [head for head in prunable(model) if head.head == 0 or head.layer == 0]


@pytest.mark.parametrize("name", MODELS)
def test_a_closed_head_is_a_removed_head(name):
    options = MODELS[name]
    model = headed.model(**options)
    heads = some(model)
    with without_heads(model, heads):
        without = scores(model)
    smaller, description = pruned(model, headed.SMALL | options, heads)
    assert_close(scores(smaller), without, atol=1e-10, rtol=1e-8)
    assert not torch.allclose(without, scores(model), atol=1e-4)
    left = {site.key: site.attention.heads for site in sites(smaller)}
    assert left == {site.key: sum(head not in heads for head in site.heads) for site in sites(model)}
    fresh = build_model(json.loads(json.dumps(description)), source_vocabulary=12, target_vocabulary=12)
    fresh.double().take_weights(smaller.weights())
    assert_close(scores(fresh.eval()), scores(smaller))


@pytest.mark.parametrize("kind", ["enc", "dec", "cross"])
@pytest.mark.parametrize("bias", [True, False])
def test_of_an_attention_without_heads_the_bias_of_its_output_is_left(kind, bias):
    """In decoding, too: greedy, and in beams that share their keys."""
    model = headed.model(bias=bias)
    heads = [head for head in prunable(model) if head.kind == kind]
    smaller, _ = pruned(model, headed.SMALL | {"bias": bias}, heads)
    with without_heads(model, heads):
        masked = {
            beam: Predictor(model, headed.task()).predict(headed.words(8), beam=beam) for beam in (1, 3)
        }
    for beam, outputs in masked.items():
        found = Predictor(smaller, headed.task()).predict(headed.words(8), beam=beam)
        assert [output.text for output in found] == [output.text for output in outputs]
        assert [output.score for output in found] == pytest.approx([output.score for output in outputs])
    site = next(site for site in sites(smaller) if site.key == (kind, 0))
    assert (site.attention.out.bias is not None) == bias
    assert site.attention.out.weight.numel() == 0


def test_what_is_pruned_can_be_pruned_again():
    model = headed.model(heads=4)
    one, other = Head("enc", 0, 1), Head("enc", 0, 3)
    both, _ = pruned(model, headed.SMALL | {"heads": 4}, [one, other])
    first, description = pruned(model, headed.SMALL | {"heads": 4}, [one])
    second, _ = pruned(first, description, [Head("enc", 0, 2)])  # what was the fourth is the third now
    assert_close(scores(second), scores(both))


def test_a_smaller_model_has_fewer_weights_and_trains():
    model = headed.model()
    smaller, _ = pruned(model, headed.SMALL, some(model))
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())
    (batch,) = batches_of(headed.task(), PAIRS)
    smaller.train().loss(batch).mean.backward()
    assert all(p.grad is not None for p in smaller.parameters())


def test_the_attention_of_a_recurrent_decoder_is_not_pruned():
    options = {"decoder": {"kind": "rnn", "layers": 1, "attention": "multi-head"}}
    model = headed.model(**options)
    assert {head.kind for head in prunable(model)} == {"enc"}
    smaller, _ = pruned(model, headed.SMALL | options, [Head("enc", 0, 0)])
    with without_heads(model, [Head("enc", 0, 0)]):
        assert_close(scores(smaller), scores(model))
    with pytest.raises(ConfigError, match=r"removed from decoder.attention, part of a recurrent decoder"):
        pruned(model, headed.SMALL | options, [Head("cross", 0, 0)])
    with pytest.raises(ConfigError, match="no heads that can be removed"):
        curve(HeadScorer(Predictor(model, headed.task()), PAIRS), [])


# Curves and folders --------------------------------------------------------------------------------------


def test_a_curve_has_the_score_at_each_step():
    predictor = headed.predictor()
    order = prunable(predictor.model)
    scorer = HeadScorer(predictor, PAIRS)
    found = curve(scorer, order, steps=4, seeds=2)
    assert [(point.closed, point.share) for point in found.points] == [(0, 0), (3, 0.25), (6, 0.5), (9, 0.75)]
    for point in found.points:
        with without_heads(predictor.model, order[: point.closed]):
            assert point.value == scorer()
    assert found.points[0].random == (found.points[0].value,) * 2
    assert len(set(found.points[2].random)) == 2  # two seeds, two orders
    assert found == curve(scorer, order, steps=4, seeds=2)
    assert json.loads(json.dumps(found.to_json()))["points"][1]["closed"] == 3
    drawing = str(found).splitlines()
    assert len(drawing) == 2 + 4
    assert "9 heads  75 %" in drawing[-1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return headed.trained(tmp_path_factory.mktemp("pruning"))


def test_a_pruned_run_folder_loads_like_any_other(run, tmp_path):
    whole = load(run)
    heads = some(whole.model)
    made = write_pruned(load(run), tmp_path / "smaller", heads)
    smaller = load(made.folder)
    assert made.config["model"]["encoder"]["heads"] == [0, 1]
    assert made.config["model"]["decoder"]["cross_heads"] == [0, 1]
    assert (made.folder / "model.safetensors").stat().st_size < (run / "model.safetensors").stat().st_size
    with without_heads(whole.model, heads):
        expected, outputs = whole.score(PAIRS), whole.predict([source for source, _ in PAIRS])
    assert smaller.score(PAIRS) == pytest.approx(expected, abs=1e-5)
    assert [each.text for each in smaller.predict([source for source, _ in PAIRS])] == [
        each.text for each in outputs
    ]
    with pytest.raises(WriteError, match="already"):
        write_pruned(load(run), tmp_path / "smaller", heads)

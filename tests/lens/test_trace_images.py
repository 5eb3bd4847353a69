"""Traces of image classifiers: rollout, saliency and positions against naive computations."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from read_off import RNN, classifier
from seen_images import ENCODERS, HOSTILE, PIXELS, TASK, predictor

from seqwright.data.batch import Images
from seqwright.errors import InputError
from seqwright.lens.trace.document import Trace
from seqwright.lens.trace.entries import SizeBudget
from seqwright.lens.trace.rollout import attention_rollout
from seqwright.lens.trace.saliency import saliency_entry, saliency_maps
from seqwright.lens.trace.schema import TraceFile
from seqwright.prediction.predictor import Predictor

every_encoder = pytest.mark.parametrize("name", ENCODERS)


def readout(subject: Predictor) -> Any:
    return subject.task.readout(subject.model, next(subject.task.inputs(PIXELS)))


@every_encoder
def test_a_trace_is_complete_and_agrees_with_predict(name, tmp_path):
    subject = predictor(name)
    trace = subject.look(PIXELS)
    TraceFile.model_validate(trace.document)
    trace.save(tmp_path / "x.json")
    assert Trace.load(tmp_path / "x.json").document == subject.look(PIXELS).document
    (predicted,) = subject.predict(PIXELS)
    assert trace.output == predicted.label
    assert math.exp(trace.log_probs[0]) == pytest.approx(predicted.probability, abs=1e-5)
    assert trace.document["image"]["uri"].startswith("data:image/png;base64,")
    assert predicted.label in str(trace)


@every_encoder
def test_saliency_is_the_slope_of_the_score(name):
    """Against central differences of float64 scores, pixel by pixel and channel by channel."""
    subject = predictor(name)
    own, step = readout(subject), 1e-6  # of the range from black to white
    model = copy.deepcopy(subject.model).double().eval()
    maps = saliency_maps(model, own, [0, 2])
    draw = np.random.default_rng(0)
    for row, column in draw.integers(0, 8, (4, 2)):
        slopes = []
        for channel in range(3):
            scores = []
            for change in (-step, step):
                pixels = own.batch.source.pixels.double()
                pixels[0, row, column, channel] += 255 * change
                with torch.no_grad():
                    scores.append(model(replace(own.batch, source=Images(pixels)))[0, [0, 2]])
            slopes.append((scores[1] - scores[0]).numpy() / (2 * step))
        assert maps[:, row, column] == pytest.approx(np.abs(slopes).max(0), rel=1e-4, abs=1e-9)


@every_encoder
def test_a_trace_has_the_saliency_of_each_label(name):
    subject = predictor(name)
    stored = subject.look(PIXELS).saliency()
    assert sorted(stored) == [HOSTILE, "cat", "dog"]
    maps = saliency_maps(
        subject.model.eval(), readout(subject), [TASK.labels.numbers[each] for each in stored]
    )
    for found, wanted in zip(stored.values(), maps, strict=True):
        assert found.shape == (8, 8)
        assert np.abs(found - wanted).max() <= wanted.max() / 65535


def naive_rollout(layers: list[np.ndarray]) -> np.ndarray:
    """The sum over all paths: from place i of the last layer down to place j of the input."""
    size = layers[0].shape[-1]

    def flow(depth: int, i: int, j: int) -> float:
        if depth == 0:
            return float(i == j)
        heads = layers[depth - 1]
        total = 0.0
        for k in range(size):
            weight = (sum(float(head[i, k]) for head in heads) / len(heads) + (i == k)) / 2
            total += weight * flow(depth - 1, k, j)
        return total

    return np.array([[flow(len(layers), i, j) for j in range(size)] for i in range(size)])


def test_rollout_is_the_sum_over_all_paths():
    draw = np.random.default_rng(0)
    layers = [draw.dirichlet(np.ones(4), (3, 4)) for _ in range(3)]  # (H, S, S)
    assert attention_rollout(layers) == pytest.approx(naive_rollout(layers), abs=1e-12)
    without_heads = np.zeros((0, 4, 4))
    assert attention_rollout([layers[0], without_heads]) == pytest.approx(attention_rollout(layers[:1]))


@pytest.mark.parametrize("name", ["class_token", "hybrid"])
def test_a_trace_has_the_rollout_of_its_layers(name):
    trace = predictor(name).look(PIXELS)
    layers = [trace.attention("enc", layer) for layer in range(2)]
    found = trace.attention("rollout", 0)
    assert found[0] == pytest.approx(attention_rollout(layers), abs=1e-3)
    assert found[0].sum(-1) == pytest.approx(1.0, abs=1e-3)
    cells = trace.document["image"]["rows"] * trace.document["image"]["columns"]
    assert found.shape[-1] == cells + (name == "class_token")


@pytest.mark.parametrize("name", ["patches", "class_token"])
def test_positions_are_compared_by_their_cosines(name):
    subject = predictor(name)
    table = subject.model.encoder.transformer.positions.detach().numpy()
    found = subject.look(PIXELS).position_similarity()
    cells = table[len(table) - len(found) :]
    assert len(found) == (16 if name == "patches" else 4)
    for i, j in [(0, 0), (1, 3), (3, 2)]:
        cosine = cells[i] @ cells[j] / np.linalg.norm(cells[i]) / np.linalg.norm(cells[j])
        assert found[i, j] == pytest.approx(cosine, abs=1e-6)


@pytest.mark.parametrize("name", ["sinusoidal", "resnet"])
def test_positions_that_are_not_learned_are_absent(name):
    trace = predictor(name).look(PIXELS)
    with pytest.raises(InputError, match="does not learn positions"):
        trace.position_similarity()
    assert trace.layers("rollout") == (name == "sinusoidal")


def test_a_text_has_no_saliency():
    trace = classifier(RNN, "mean").look("look")
    with pytest.raises(InputError, match="its source is not an image"):
        trace.saliency()


def test_saliency_shrinks_to_the_first_label_where_space_is_short():
    subject = predictor("cnn")
    model, own = subject.model.eval(), readout(subject)
    found = [saliency_entry(model, own, SizeBudget(left)) for left in (9999, 199, 9)]
    counts = [None if each is None else len(each["labels"]) for each in found]
    assert counts == [3, 1, None]

"""The contenders of the benchmarks compute the same model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from bench.decoding import as_texts, export, sources
from bench.shapes import Shape
from bench.training import CURRENT, TorchTransformer, our_model
from seqwright.config.presets import PRESETS
from seqwright.data.batch import BEGIN, source_tokens
from seqwright.nn.positions import Sinusoidal

SHAPE = Shape(layers=2, size=16, hidden=32, heads=2, dropout=0.1, tokens=64, vocabulary=40)


def test_our_model_has_the_parts_and_parameters_of_the_other_toolkits():
    model, other = our_model(SHAPE), TorchTransformer(SHAPE)
    assert isinstance(model.encoder.stack.position, Sinusoidal)
    assert model.encoder.stack.blocks[0].attention.out.weight.any()
    count, expected = (sum(weight.numel() for weight in each.parameters()) for each in (model, other))
    assert count == expected


def test_the_current_parts_are_those_of_the_preset():
    assert PRESETS["tiny"].model["encoder"].items() >= CURRENT.items()


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_an_exported_model_has_the_same_probabilities(tmp_path, position):
    engine = pytest.importorskip("ctranslate2")
    torch.manual_seed(1)
    model, given = our_model(SHAPE, position=position).eval(), sources(8, SHAPE.vocabulary)
    export(model, SHAPE, tmp_path / "model")
    translator = engine.Translator(str(tmp_path / "model"), compute_type="float32", intra_threads=1)
    targets = torch.randint(4, SHAPE.vocabulary, (8, 9))
    scored = translator.score_batch(as_texts(given), [list(map(str, row)) for row in targets.tolist()])
    found = torch.tensor([each.log_probs[:-1] for each in scored])  # the last one is that of the end
    with torch.inference_mode():
        prefixed = F.pad(targets, (1, 0), value=BEGIN)
        expected, _ = model.prefill(prefixed, model.start(source_tokens(given)))
    assert_close(found, expected, atol=1e-4, rtol=1e-4)

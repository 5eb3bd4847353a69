"""Long texts and large models: bounded, and never silently."""

from __future__ import annotations

import numpy as np
import pytest
from looked import LETTERS, case, looked, predictor

from seqwright import build_model
from seqwright.lens.trace.build import look
from seqwright.prediction.predictor import Predictor
from seqwright.search import BeamOptions
from seqwright.tasks.text_to_text import TextToText

SHORT = BeamOptions(size=1, max_length=3)


def test_a_trace_of_the_mandated_size_is_below_five_megabytes():
    """256 tokens to 256, 6 layers of 8 heads of 3 kinds; nothing is learned yet, and all is noise."""
    spec = {"layers": 6, "size": 32, "heads": 8, "hidden": 32}
    model = build_model(spec, source_vocabulary=LETTERS.size, target_vocabulary=LETTERS.size)
    subject = Predictor(model, TextToText(LETTERS, LETTERS))
    options = BeamOptions(size=2, n_best=2, min_length=256, max_length=256)
    trace = look(subject, ("look at " * 32)[:255], options=options)
    assert len(trace.document["steps"]) == 256
    assert [entry["block"] for entry in trace.document["attention"]] == [[1, 1]] * 18
    assert len(trace.to_bytes()) <= 5_000_000
    assert trace.attention("dec", 5).shape == (8, 256, 256)
    assert "144 heads" in trace.why("ablations")


def test_two_thousand_tokens_are_stored_in_blocks():
    trace = looked("transformer-sinusoidal", text="look" * 500, options=SHORT)
    assert len(trace.to_bytes()) <= 5_000_000
    assert "neighbouring weights are stored as one" in trace.why("attention")
    entry = trace.document["attention"][0]
    queries, keys = entry["block"]
    assert (entry["queries"], entry["keys"]) == (2001, 2001)
    assert queries == keys > 1
    weights = trace.attention("enc", 0)
    assert weights.shape == (2, -(-2001 // queries), -(-2001 // keys))
    assert weights.sum(-1) == pytest.approx(1.0, abs=0.05)
    assert {row["importance"] for row in trace.document["heads"]} == {None}
    assert "too large for a terminal" not in str(trace)  # the look at the source is not: three steps


def test_two_thousand_tokens_of_a_recurrent_model():
    trace = looked("rnn-bahdanau", text="look" * 500, options=SHORT)
    assert len(trace.to_bytes()) <= 5_000_000
    assert trace.attention("cross", 0).shape[2] == 2001


def test_a_deep_encoder_and_a_shallow_decoder():
    subject = predictor("transformer-depths", encoder={"layers": 12}, decoder={"layers": 3}, size=8)
    trace = look(subject, "look", options=SHORT, ablate=False)
    assert trace.document["model"]["layers"] == {"enc": 12, "dec": 3, "cross": 3}
    assert [trace.layers(kind) for kind in ("enc", "dec", "cross")] == [12, 3, 3]


def test_blocks_hold_what_the_weights_hold(monkeypatch):
    _, whole = case("transformer-sinusoidal")
    monkeypatch.setattr("seqwright.lens.trace.recorders.CELLS", 200)
    small = looked("transformer-sinusoidal")
    for entry in small.document["attention"]:
        kind, layer, (queries, keys) = entry["kind"], entry["layer"], entry["block"]
        weights = whole.attention(kind, layer)
        corner = weights[:, :queries, :keys].mean(1).sum(-1)
        assert small.attention(kind, layer)[:, 0, 0] == pytest.approx(corner, abs=1e-3)
    assert sum(np.prod(entry["weights"]["shape"]) for entry in small.document["attention"]) <= 200


def test_layers_of_different_numbers_of_heads_are_stored_in_the_same_blocks(monkeypatch):
    """As they are after pruning; where the model looked is their mean."""
    monkeypatch.setattr("seqwright.lens.trace.recorders.CELLS", 200)
    subject = predictor("transformer-pruned", heads=[1, 3], cross_heads=[1, 3])
    trace = look(subject, "look at it", options=SHORT, ablate=False)
    blocks = {entry["kind"]: set() for entry in trace.document["attention"]}
    for entry in trace.document["attention"]:
        blocks[entry["kind"]].add(tuple(entry["block"]))
    assert [len(found) for found in blocks.values()] == [1, 1, 1]
    assert "look" in str(trace)


def test_vectors_that_do_not_fit_are_missed_from_the_first_layers():
    size = len(case("transformer-sinusoidal")[1].to_bytes())
    trace = looked("transformer-sinusoidal", size=size // 4)
    kept = [(entry["kind"], entry["layer"]) for entry in trace.document["attention"] if entry["vectors"]]
    assert kept
    assert len(kept) < 6
    assert ("cross", 1) in kept
    assert f"of {6 - len(kept)} layers" in trace.why("vectors")
    cells = looked("rnn-bahdanau", size=0)
    assert cells.document["recurrent"] == []
    assert "of 5 layers" in cells.why("vectors")
    assert "too large" in cells.why("contributions")
    assert all(0 < step["source_share"] < 1 for step in cells.document["steps"])

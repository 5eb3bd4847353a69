"""Traces and heads of decoders that read source and output as one sequence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from looked import OPTIONS, PROMPTED, REFERENCE, TEXT, case, predictor
from torch.testing import assert_close

from seqwright.lens.capture import capture
from seqwright.lens.heads.analysis import analyse
from seqwright.lens.heads.gates import apply_gates, sites, without_heads
from seqwright.lens.heads.importance import HeadScorer, batches_of, gate_gradients
from seqwright.lens.trace.schema import TraceFile

PAIRS = [("look", "at"), ("through the glass", "look"), ("at", "the glass")]
every_decoder = pytest.mark.parametrize("name", PROMPTED)


@every_decoder
def test_a_trace_is_whole_and_has_the_probabilities_of_predict_and_score(name):
    subject, trace = case(name)
    TraceFile.model_validate(json.loads(trace.to_bytes()))
    (found,) = subject.predict([TEXT], options=OPTIONS)
    assert [one["text"] for one in trace.document["hypotheses"]] == [one.text for one in found.all]
    assert trace.output == found.text
    assert trace.document["output"]["log_prob"] == pytest.approx(float(trace.log_probs.sum()), abs=1e-4)
    (score,) = subject.score([(TEXT, REFERENCE)])
    assert trace.document["reference"]["log_prob"] == pytest.approx(score, abs=1e-4)
    assert trace.document["lattice"]["step"]
    assert trace.document["branches"]
    if name == "transformer":
        assert "Self-attention to the source, mean of all heads" in str(trace)


def test_the_weights_of_one_sequence_are_shown_as_two():
    """To the source and to the output so far: together they are what `capture` sees, after the source."""
    subject, trace = case("transformer")
    ids = [step["id"] for step in trace.document["steps"]]
    source = [piece["id"] for piece in trace.document["source"]["pieces"]]
    with capture(subject.model.eval()) as seen, torch.no_grad():
        whole = torch.tensor([[*source, 2, *ids[:-1]]])
        subject.model.decoder(whole, subject.model.start(1))
    for layer in range(2):
        both = np.concatenate([trace.attention("cross", layer), trace.attention("dec", layer)], 2)
        wanted = seen[f"decoder.stack.blocks.{layer}.attention"][0][0, :, len(source) :]
        assert np.abs(both - wanted.numpy()).max() < 1e-4
    assert trace.document["kinds"]["cross"]["title"] == "Self-attention to the source"
    shares = [step["source_share"] for step in trace.document["steps"]]
    assert all(0 < share < 1 for share in shares)


def test_an_ablation_decodes_again_without_the_head():
    subject, trace = case("transformer")
    for row in trace.document["ablations"]:
        with without_heads(subject.model, [("dec", row["layer"], row["head"])]):
            (found,) = subject.predict([TEXT], options=OPTIONS)
        assert row["text"] == found.text
        assert row["changed"] == (found.text != trace.output)


def test_the_heads_have_roles_and_the_gradient_of_the_loss_by_their_gates():
    subject = predictor("transformer")
    subject.model.double().eval()
    table = analyse(subject, PAIRS, scorer=HeadScorer(subject, PAIRS))
    assert [row.id for row in table.rows] == [("dec", layer, head) for layer in (0, 1) for head in (0, 1)]
    assert all(row.ablation is not None and row.importance > 0 for row in table.rows)
    single = [batch for pair in PAIRS for batch in batches_of(subject.task, [pair])]
    found = gate_gradients(subject.model, single)

    def losses(site, number, step):
        gate = site.ones(site.attention.heads, 1, 1)
        gate[number] += step
        with apply_gates({site.attention: gate}), torch.no_grad():
            return torch.stack([subject.model.loss(batch).total for batch in single])

    for site in sites(subject.model):
        for number in range(2):
            slopes = (losses(site, number, 1e-5) - losses(site, number, -1e-5)) / 2e-5
            assert_close(found[site.key].by_example[number], slopes.abs().mean(), atol=1e-4, rtol=1e-4)


def test_a_pointer_shows_what_it_copies():
    """The probability of a token is what is generated, and what is copied of it from the source."""
    subject, trace = case("pointer")
    copied = trace.attention("copied", 0)[0]  # (T, S)
    source = [piece["id"] for piece in trace.document["source"]["pieces"]]
    assert copied.shape == (len(trace.document["steps"]), len(source))
    assert (copied.sum(1) > 0).all()
    assert (copied.sum(1) < 1).all()
    for row, step in zip(copied, trace.document["steps"], strict=True):
        own = row[np.array(source) == step["id"]].sum()
        assert own <= np.exp(step["log_prob"]) + 1e-4
    assert trace.document["kinds"]["copied"]["title"] == "Copied from the source"
    (found,) = subject.predict([TEXT], options=OPTIONS)
    assert trace.output == found.text

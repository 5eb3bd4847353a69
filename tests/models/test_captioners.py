"""The parts of captioners: the gate and the coverage of Xu et al. 2015, and their presets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens
from seqwright.errors import ConfigError
from seqwright.lens.capture import capture
from seqwright.models import DECODERS
from seqwright.models.building import build_model
from seqwright.nn.loss import collected_terms

FACTS = {"channels": 3, "image_size": 32, "target_vocabulary": 12}
SMALL = {"size": 16, "embedding_size": 16, "dropout": 0.0}
TARGET = torch.tensor([[BEGIN, 5, 6, 7], [BEGIN, 8, PAD, PAD]])
EXPECTED = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD]])


def model(**options):
    torch.manual_seed(1)
    decoder = {"size": 16, "embedding_size": 16, "dropout": 0.0, **options}
    encoder = {"size": 16, "layers": 1, "norm": "group"}
    return build_model({"preset": "xu2015", "encoder": encoder, "decoder": decoder}, **FACTS)


def batch(captioner) -> Batch:
    lengths = torch.tensor([4, 2])
    return Batch(captioner.encoder.sample([1, 1], [3, 4]), Tokens(TARGET, lengths), EXPECTED, np.arange(2))


def test_the_coverage_term_is_that_of_the_recorded_weights():
    captioner = model(coverage=2.0).train()
    given = batch(captioner)
    with capture(captioner) as seen, collected_terms() as terms:
        captioner.loss(given)
    weights = torch.cat(seen["decoder.attention"], 2)[:, 0]  # (2, T, K)
    expected = 0.0
    for row, length in ((0, 4), (1, 2)):
        expected += 2.0 * float((1 - weights[row, :length].sum(0)).square().sum())
    (term,) = terms
    assert_close(term.item(), expected, atol=1e-4, rtol=1e-4)


def test_the_coverage_term_trains_the_attention_and_changes_no_reported_loss():
    captioner = model(coverage=1.0).train()
    with collected_terms() as terms:
        loss = captioner.loss(batch(captioner))
    assert_close(loss.total, model(coverage=0.0).train().loss(batch(captioner)).total)
    terms[0].backward()
    assert captioner.decoder.attention.query.weight.grad.abs().sum() > 0
    with collected_terms() as terms, torch.no_grad():
        captioner.eval().loss(batch(captioner))
    assert terms == []  # nothing is computed outside of a training


def test_an_open_gate_changes_nothing_and_a_closed_one_hides_the_image():
    plain, gated = model(gate=False, coverage=0.0).eval(), model(coverage=0.0).eval()
    gated.load_state_dict(plain.state_dict(), strict=False)
    given = batch(plain)
    with torch.no_grad():
        gated.decoder.gate.weight.zero_()
        gated.decoder.gate.bias.fill_(50.0)
        assert_close(gated(given), plain(given))
        gated.decoder.gate.bias.fill_(-50.0)
        state = gated.start(given.source)
        other = gated.start(gated.encoder.sample([1, 1], [5, 6]))
        same_start = type(state)(**{**vars(other), "cells": state.cells})
        assert_close(gated.decoder(TARGET, state)[0], gated.decoder(TARGET, same_start)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "none", "gate": True}, "options of the attention"),
        ({"coverage": 1.0, "query": "current", "feed": "output"}, "coverage needs query"),
        ({"readout": "sum", "embedding_size": 8, "readout_size": 4}, "embeddings of 8 to an output of 4"),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        DECODERS.build({"kind": "rnn", "size": 16, **options}, vocabulary=12, memory_size=16)


@pytest.mark.parametrize("preset", ["vinyals2015", "xu2015", "cnn-transformer", "vit-transformer"])
def test_captioners_learn_two_images(preset):
    torch.manual_seed(0)
    captioner = build_model({"preset": preset, "dropout": 0.0}, **FACTS).train()
    given, optimizer = batch(captioner), torch.optim.AdamW(captioner.parameters(), 3e-3)
    for _ in range(30):
        optimizer.zero_grad()
        with collected_terms() as terms:
            loss = captioner.loss(given)
        (loss.objective + sum(terms)).backward()
        optimizer.step()
    with torch.no_grad():
        batches = (given, given.with_shuffled_inputs())
        right, shuffled = (float(captioner.loss(each).mean) for each in batches)
    assert right < 0.3
    assert shuffled > 1.0

"""An ensemble averages the probabilities of its members, and each of them trains as if alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens
from seqwright.errors import ConfigError
from seqwright.models import ensemble
from seqwright.models.building import build_model
from seqwright.models.ensemble import Ensemble
from seqwright.search import BeamOptions, Start, beam_search

VOCABULARY = 7
FAMILIES = {
    "transformer": {"heads": 2, "hidden": 12},
    "rnn": {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn"}, "tie": False},
}


@pytest.fixture(params=FAMILIES)
def model(request) -> Ensemble:
    torch.manual_seed(3)
    table = {"kind": "ensemble", "members": 3, "size": 8, "layers": 1, "dropout": 0.0}
    table |= FAMILIES[request.param]
    built = build_model(table, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    return built.double().eval()


def batch(rows: int = 4, length: int = 5) -> Batch:
    torch.manual_seed(7)
    ids = torch.randint(4, VOCABULARY, (3, rows, length))
    expected = ids[2].clone()
    expected[0, 3:] = PAD
    target = torch.cat([torch.full((rows, 1), BEGIN), expected[:, :-1]], dim=1)
    return Batch(Tokens(ids[0], None), Tokens(target, None), expected, np.arange(rows))


def test_the_output_is_the_mean_of_the_probabilities(model):
    outputs = [member(batch()).softmax(-1) for member in model.members]
    torch.testing.assert_close(model(batch()).exp(), sum(outputs) / 3)
    assert not torch.allclose(outputs[0], outputs[1])


def test_steps_equal_the_whole_also_after_a_change_of_rows(model):
    given, rows = batch(), [2, 0, 2]
    whole = model(given)
    state = model.start(given.source)
    for place in range(2):
        scores, state = model.step(given.target.ids[:, place, None], state)
        torch.testing.assert_close(scores, whole[:, place])
    scores, _ = model.step(given.target.ids[rows][:, 2, None], state.select(rows))
    torch.testing.assert_close(scores, whole[rows, 2])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [3, 512])
def test_the_loss_is_that_of_the_mean(model, smoothing, rows, monkeypatch):
    monkeypatch.setattr(ensemble, "ROWS", rows)
    found, given = model.loss(batch(), smoothing=smoothing), batch()
    scores, wanted = model(given).flatten(0, 1), given.expected.flatten()
    options = {"ignore_index": PAD, "label_smoothing": smoothing, "reduction": "sum"}
    torch.testing.assert_close(found.total, F.cross_entropy(scores, wanted, **options))
    assert found.count == int((wanted != PAD).sum())


def test_in_training_each_member_has_its_own_loss_and_gradient(model):
    model.train()
    alone = [member.loss(batch(), smoothing=0.1) for member in model.members]
    together = model.loss(batch(), smoothing=0.1)
    torch.testing.assert_close(together.total, sum(loss.total for loss in alone))
    assert together.count == sum(loss.count for loss in alone)
    together.total.backward()
    for member, loss in zip(model.members, alone, strict=True):
        found = [parameter.grad for parameter in member.parameters()]
        torch.testing.assert_close(found, list(torch.autograd.grad(loss.total, list(member.parameters()))))


@pytest.mark.parametrize(("members", "count", "each"), [(4, 2, [2, 2]), (3, 3, [1, 1, 1]), (3, 2, [3])])
def test_learners_have_all_members_between_them_and_their_losses_add_up(members, count, each):
    table = {"kind": "ensemble", "members": members, "size": 8, "layers": 1, "heads": 2, "dropout": 0.0}
    model = build_model(table, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY).double()
    learners = model.learners(count)
    assert [len(learner.members) for learner in learners] == each
    owned = [id(weight) for learner in learners for weight in learner.parameters()]
    assert sorted(owned) == sorted(map(id, model.parameters()))
    whole, losses = model.loss(batch()), [learner.loss(batch()) for learner in learners]
    torch.testing.assert_close(whole.total, sum(loss.total for loss in losses))
    assert whole.count == sum(loss.count for loss in losses)


def test_a_beam_scores_as_teacher_forcing_does(model):
    given, start = batch(), Start(rows=4, first=BEGIN, end=END)
    with torch.inference_mode():
        found = beam_search(model.step, model.start(given.source), start, BeamOptions(size=3, max_length=6))
        for row, hypotheses in enumerate(found):
            best = hypotheses[0]
            outputs = torch.tensor([*best.tokens, *([END] if best.finish_reason == "end" else [])])
            before = torch.tensor([BEGIN, *best.tokens])[: len(outputs)]
            source = Tokens(given.source.ids[row, None], None)
            again = Batch(source, Tokens(before[None], None), outputs[None], np.arange(1))
            scores = model(again)[0].gather(1, outputs[:, None]).squeeze(1)
            torch.testing.assert_close(scores, torch.tensor(best.token_scores).double())


def test_one_member_is_the_model_itself():
    table = {"kind": "ensemble", "members": 1, "size": 8, "layers": 1, "heads": 2}
    one = build_model(table, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY).double().eval()
    torch.testing.assert_close(one(batch()), one.members[0](batch()).log_softmax(-1))
    assert math.isfinite(float(one.loss(batch()).total.detach()))
    with pytest.raises(ConfigError, match="members"):
        build_model({**table, "members": 0}, source_vocabulary=9, target_vocabulary=9)

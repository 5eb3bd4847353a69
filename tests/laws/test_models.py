"""Laws of whole models: steps, prompts and losses agree with `forward`; weights can be saved and divided."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import GENERATIVE, TOLERANCE, example, of_kind, source
from torch.testing import assert_close

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens
from seqwright.models import MODELS

TARGET = torch.tensor([[BEGIN, 5, 6, 7], [BEGIN, 8, PAD, PAD]])
EXPECTED = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD]])
LENGTHS = torch.tensor([4, 2])


def batch(kind: str):
    if kind in GENERATIVE:
        return Batch(source([[4, 5, 6], [7]]), Tokens(TARGET, LENGTHS), EXPECTED, np.arange(2))
    return example(of_kind(kind), [3, 1], [1, 2])


@pytest.mark.parametrize("kind", GENERATIVE)
def test_steps_give_what_the_whole_gives(kind):
    model, given = of_kind(kind), batch(kind)
    with torch.no_grad():
        whole, state = model(given).log_softmax(-1), model.start(given.source)
        for t in range(4):
            scores, state = model.step(TARGET[:, t : t + 1], state)
            assert_close(scores.log_softmax(-1), whole[:, t], **TOLERANCE)


@pytest.mark.parametrize("kind", GENERATIVE)
def test_a_prompt_has_the_probabilities_of_the_whole(kind):
    model, given = of_kind(kind), batch(kind)
    with torch.no_grad():
        whole = model(given).log_softmax(-1)
        scores, state = model.prefill(TARGET, model.start(given.source))
        assert_close(scores, whole[:, :3].gather(-1, TARGET[:, 1:, None])[..., 0], **TOLERANCE)
        after, _ = model.step(TARGET[:, 3:], state)
        assert_close(after.log_softmax(-1), whole[:, 3], **TOLERANCE)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", GENERATIVE)
def test_the_loss_is_the_cross_entropy_of_the_scores(kind, smoothing):
    model, given = of_kind(kind), batch(kind)
    loss, scores = model.loss(given, smoothing=smoothing), model(given)
    options = {"ignore_index": PAD, "label_smoothing": smoothing, "reduction": "sum"}
    assert_close(loss.total, F.cross_entropy(scores.flatten(0, 1), EXPECTED.flatten(), **options))
    assert loss.count == 6


@pytest.mark.parametrize("kind", MODELS.names())
def test_weights_are_all_there_is(kind):
    """Copied into a model that was changed, they make it the same again."""
    model, given = of_kind(kind), batch(kind)
    with torch.no_grad():
        weights = {name: weight.clone() for name, weight in model.weights().items()}
        before = model(given)
        model.take_weights({name: 2 * weight for name, weight in weights.items()})
        changed = model(given)
        model.take_weights(weights)
        assert not torch.allclose(changed, before)
        assert_close(model(given), before)


@pytest.mark.parametrize("kind", MODELS.names())
def test_learners_have_every_weight_once_and_the_loss_between_them(kind):
    model, given = of_kind(kind), batch(kind)
    learners = model.learners(2)
    owned = [id(weight) for learner in learners for weight in learner.parameters()]
    assert sorted(owned) == sorted(map(id, model.parameters()))
    torch.manual_seed(0)  # dropout
    whole = model.train().loss(given)
    torch.manual_seed(0)
    losses = [learner.train().loss(given) for learner in learners]
    model.eval()
    assert_close(whole.total, torch.stack([loss.total for loss in losses]).sum())
    assert whole.count == sum(loss.count for loss in losses)

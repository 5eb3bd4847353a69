"""Laws of whole models: steps, prompts and losses agree with `forward`; weights can be saved and divided."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import CAPPED, GENERATIVE, TOLERANCE, example, of_kind, source
from torch.testing import assert_close

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens
from seqwright.models import MODELS

TARGET = torch.tensor([[BEGIN, 5, 6, 7], [BEGIN, 8, PAD, PAD]])
EXPECTED = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD]])
LENGTHS = torch.tensor([4, 2])
SOURCES = [[4, 5, 6], [7]]
WRITERS = [*GENERATIVE, *CAPPED]


def batch(kind: str):
    if kind in WRITERS:
        return Batch(source(SOURCES), Tokens(TARGET, LENGTHS), EXPECTED, np.arange(2))
    return example(of_kind(kind), [3, 1], [1, 2])


@pytest.mark.parametrize("cuts", [[0, 1, 2, 3, 4], [0, 2, 3, 4], [0, 1, 4], [0, 4]], ids=str)
@pytest.mark.parametrize("kind", WRITERS)
def test_steps_give_what_the_whole_gives(kind, cuts):
    """One token at a time, or several."""
    model, given = of_kind(kind), batch(kind)
    with torch.no_grad():
        whole, state = model(given).log_softmax(-1), model.start(given.source)
        for begin, end in pairwise(cuts):
            scores, state = model.step(TARGET[:, begin:end], state)
            assert_close(scores.log_softmax(-1), whole[:, end - 1], **TOLERANCE)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_row_with_padding_has_the_scores_that_it_has_alone(kind):
    """The padding of a source is a word, so that reading or copying it would show."""
    model, given = of_kind(kind), batch(kind)
    with torch.no_grad():
        together = model(given)
        for row, (own, count) in enumerate(zip(SOURCES, LENGTHS.tolist(), strict=True)):
            target, expected = TARGET[row : row + 1, :count], EXPECTED[row : row + 1, :count]
            alone = model(Batch(source([own]), Tokens(target), expected, np.arange(1)))
            assert_close(together[row, :count], alone[0], **TOLERANCE)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_prompt_has_the_probabilities_of_the_whole(kind):
    model, given = of_kind(kind), batch(kind)
    with torch.no_grad():
        whole = model(given).log_softmax(-1)
        scores, state = model.prefill(TARGET, model.start(given.source))
        assert_close(scores, whole[:, :3].gather(-1, TARGET[:, 1:, None])[..., 0], **TOLERANCE)
        after, _ = model.step(TARGET[:, 3:], state)
        assert_close(after.log_softmax(-1), whole[:, 3], **TOLERANCE)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", WRITERS)
def test_the_loss_is_the_cross_entropy_of_the_scores(kind, smoothing):
    """And its gradient is that of the cross-entropy."""
    model, given = of_kind(kind), batch(kind)
    loss, scores = model.loss(given, smoothing=smoothing), model(given)
    options = {"ignore_index": PAD, "label_smoothing": smoothing, "reduction": "sum"}
    expected = F.cross_entropy(scores.flatten(0, 1), EXPECTED.flatten(), **options)
    assert_close(loss.total, expected)
    assert loss.count == 6
    weights = list(model.parameters())
    slopes = [torch.autograd.grad(total, weights, allow_unused=True) for total in (loss.total, expected)]
    for found, wanted in zip(*slopes, strict=True):
        assert_close(found, wanted)


@pytest.mark.parametrize("kind", CAPPED)
def test_no_score_is_larger_than_the_cap(kind):
    model = of_kind(kind)
    model = getattr(model, "members", [model])[0]
    hidden = 100 * torch.randn(5, model.decoder.size, dtype=torch.float64)
    scores = model.output(hidden)
    assert 0.29 < scores.abs().max() <= 0.3
    assert_close(scores, 0.3 * torch.tanh(F.linear(hidden, model.output.weight, model.output.bias) / 0.3))


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

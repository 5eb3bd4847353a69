"""Heads: losses follow their definitions; padding and ignored positions have no influence."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from seqwright.errors import ConfigError
from seqwright.lens.capture import capture
from seqwright.models import HEADS
from seqwright.models.heads.tags import IGNORE
from seqwright.nn.masks import Places
from seqwright.nn.pooling import POOLINGS

SIZE = 6
FACTS = {"input_size": SIZE, "vocabulary": 9, "classes": 3, "values": 2}


def head(kind: str, **options):
    return HEADS.build({"kind": kind, **options}, **FACTS).double().eval()


@pytest.fixture
def hidden() -> torch.Tensor:
    return torch.randn(4, 5, SIZE, dtype=torch.float64)


PLACES = Places.padded(torch.arange(5) < torch.tensor([[5], [3], [1], [2]]))


@pytest.mark.parametrize("pooling", POOLINGS.names())
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(("balance", "weights"), [(0.0, None), (0.5, [3.0, 1.5, 0.75])])
def test_the_loss_of_classes_is_the_weighted_cross_entropy(hidden, pooling, smoothing, balance, weights):
    """16, 64 and 256 examples: their weights are as 4 : 2 : 1 and have the mean 1 over all 336 examples."""
    options = {"balance": balance, "class_counts": [16, 64, 256]}
    part, expected = head("classes", pooling=pooling, **options), torch.tensor([0, 2, 1, 2])
    scores = part(hidden, PLACES)
    assert scores.shape == (4, 3)
    loss = part.loss(hidden, expected, PLACES, smoothing=smoothing)
    wanted = F.cross_entropy(
        scores,
        expected,
        weight=None if weights is None else torch.tensor(weights).double(),
        label_smoothing=smoothing,
        reduction="sum",
    )
    assert_close(loss.total, wanted)
    assert loss.count == 4


@pytest.mark.parametrize("kind", ["classes", "values"])
@pytest.mark.parametrize("pooling", POOLINGS.names())
def test_padding_is_not_pooled(hidden, kind, pooling):
    part = head(kind, pooling=pooling)
    whole = part(hidden, PLACES)
    for row, length in enumerate([5, 3, 1, 2]):
        assert_close(whole[row], part(hidden[row : row + 1, :length])[0])
    nothing = Places.padded(torch.zeros(4, 5, dtype=torch.bool))
    assert_close(part(hidden, nothing), part.linear.bias.expand(4, -1))


def test_max_pooling_takes_the_largest_values(hidden):
    torch.testing.assert_close(POOLINGS.build("max", size=hidden.shape[-1])(hidden), hidden.max(1).values)


def test_attention_pooling_is_a_weighted_mean(hidden):
    part = POOLINGS.build("attention", size=SIZE).double()
    weights = torch.stack([part.query @ torch.tanh(part.map(h)) for h in hidden[0]]).softmax(0)
    assert_close(part(hidden)[0], sum(w * h for w, h in zip(weights, hidden[0], strict=True)))


def test_the_weights_of_attention_pooling_are_captured(hidden):
    part = head("classes", pooling="attention")
    before = part(hidden, PLACES)
    with capture(part) as seen:
        assert torch.equal(part(hidden, PLACES), before)
    (weights,) = seen["pooling"]
    assert weights.shape == (4, 1, 1, 5)
    assert_close(weights.sum(-1), torch.ones(4, 1, 1).double())
    assert not weights[~PLACES.seen[:, None, None]].any()
    assert_close(part.linear((weights[:, 0] @ hidden)[:, 0]), before)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_ignored_positions_have_no_tag(hidden, smoothing):
    part, expected = head("tags"), torch.randint(3, (4, 5))
    expected[~PLACES.seen] = IGNORE
    scores = part(hidden, PLACES)
    loss = part.loss(hidden, expected, PLACES, smoothing=smoothing)
    options = {"ignore_index": IGNORE, "label_smoothing": smoothing, "reduction": "sum"}
    assert_close(loss.total, F.cross_entropy(scores.flatten(0, 1), expected.flatten(), **options))
    assert loss.count == int((expected != IGNORE).sum()) == 11


def test_values_have_a_squared_error_and_missing_ones_none(hidden):
    part = head("values")
    expected = torch.tensor([[1.0, 2.0], [float("nan"), 0.0], [3.0, float("nan")], [0.0, 0.0]]).double()
    found, loss = part(hidden, PLACES), part.loss(hidden, expected, PLACES)
    real = ~expected.isnan()
    assert_close(loss.total, F.mse_loss(found[real], expected[real], reduction="sum"))
    assert loss.count == 6
    (gradient,) = torch.autograd.grad(loss.total, part.linear.weight)
    assert gradient.isfinite().all()


def test_the_pinball_loss_is_least_at_the_quantiles():
    """Without inputs the best constant is the quantile of the data."""
    part = head("values", quantiles=[0.1, 0.5, 0.9])
    torch.nn.init.zeros_(part.linear.weight)
    data = torch.arange(101.0).double()[:, None].expand(-1, 2) / 100
    hidden = torch.zeros(101, 1, SIZE, dtype=torch.float64)
    losses = []
    for shift in (-0.02, 0.0, 0.02):
        part.linear.bias.data = torch.tensor([0.5, 0.1, 0.5, 0.9] * 2).double()
        part.linear.bias.data.unflatten(0, (2, 4))[:, 1:] += shift  # the mean comes first and stays
        losses.append(float(part.loss(hidden, data).objective.detach()))
    assert losses[1] < min(losses[0], losses[2])
    assert part(hidden).shape == (101, 2, 4)


def test_a_gaussian_has_the_likelihood_and_the_quantiles_of_a_normal_distribution(hidden):
    part = head("gaussian", level=0.8)
    expected = torch.tensor([[1.0, 2.0], [float("nan"), 0.0], [3.0, float("nan")], [0.0, 0.0]]).double()
    found, loss = part(hidden, PLACES), part.loss(hidden, expected, PLACES)
    assert found.shape == (4, 2, 3)
    raw = part.linear(part.pooling(hidden, PLACES)).unflatten(-1, (2, 2))
    normal = torch.distributions.Normal(raw[..., 0], F.softplus(raw[..., 1]) + 1e-3)
    assert_close(found[..., 1], normal.icdf(torch.tensor(0.1).double()), atol=1e-6, rtol=1e-6)
    assert_close(found[..., 2], normal.icdf(torch.tensor(0.9).double()), atol=1e-6, rtol=1e-6)
    real = ~expected.isnan()
    wanted = -normal.log_prob(expected.nan_to_num())[real] - 0.5 * torch.log(torch.tensor(2 * torch.pi))
    assert_close(loss.objective, wanted.sum(), atol=1e-6, rtol=1e-6)
    assert_close(loss.total, F.mse_loss(found[..., 0][real], expected[real], reduction="sum"))
    assert loss.count == 6
    (gradient,) = torch.autograd.grad(loss.objective, part.linear.weight)
    assert gradient.isfinite().all()


def test_the_best_variance_of_a_gaussian_is_that_of_the_data():
    part = head("gaussian")
    torch.nn.init.zeros_(part.linear.weight)
    data = torch.randn(400, 2, generator=torch.Generator().manual_seed(1)).double() * 3
    hidden = torch.zeros(400, 1, SIZE, dtype=torch.float64)
    losses = []
    for scale in (0.8, 1.0, 1.25):
        deviation = scale * data.std(0, correction=0) - 1e-3
        raw = torch.expm1(deviation).log()  # the inverse of softplus
        part.linear.bias.data = torch.stack([data.mean(0), raw], -1).flatten()
        losses.append(float(part.loss(hidden, data).objective.detach()))
    assert losses[1] < min(losses[0], losses[2])


def test_the_log_probabilities_of_tokens_are_those_of_the_scores(hidden, monkeypatch):
    monkeypatch.setattr("seqwright.models.heads.tokens.ROWS", 3)
    part, tokens = head("tokens", bias=True), torch.randint(9, (4, 5))
    wanted = part(hidden).log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
    assert_close(part.log_probabilities(hidden, tokens), wanted)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("classes", {"balance": 2.0}, "balance of head classes is 2.0"),
        ("classes", {"pooling": "means"}, "did you mean 'mean'"),
        ("values", {"quantiles": [0.5, 1.0]}, "quantiles has 1.0"),
        ("gaussian", {"level": 1.0}, "level of head gaussian is 1.0"),
        ("tags", {"classes": 0}, "classes of head tags is 0"),
    ],
)
def test_wrong_options_are_named(kind, options, words):
    with pytest.raises(ConfigError, match=words):
        head(kind, **options)

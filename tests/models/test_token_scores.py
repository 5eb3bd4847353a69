"""The loss equals F.cross_entropy in value and gradients, in one chunk and in many."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from seqwright.models.heads.tokens import TokenScores
from seqwright.nn import loss as loss_module
from seqwright.nn.embedding import Embedding

SIZE, VOCABULARY = 5, 7
token_scores = partial(TokenScores, input_size=SIZE, vocabulary=VOCABULARY)


def reference(
    part: TokenScores, hidden: torch.Tensor, expected: torch.Tensor, smoothing: float
) -> torch.Tensor:
    hidden = hidden if part.transform is None else part.transform(hidden)
    scores = F.linear(hidden, part.weight, part.bias).flatten(0, -2)
    scores = scores if part.cap is None else part.cap * torch.tanh(scores / part.cap)
    return F.cross_entropy(
        scores, expected.flatten(), label_smoothing=smoothing, ignore_index=0, reduction="sum"
    )


@pytest.mark.parametrize("rows", [2, 3, None])  # of a chunk; None: as it is
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("cap", "transform"), [(None, False), (1.5, False), (None, True)])
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5)),
    smoothing=st.sampled_from([0.0, 0.1, 0.6]),
    seed=st.integers(0, 99),
)
def test_equals_cross_entropy(bias, cap, transform, rows, shape, smoothing, seed):
    generator = torch.Generator().manual_seed(seed)
    part = token_scores(bias=bias, cap=cap, transform=transform).double()
    if bias:
        nn.init.normal_(part.bias)
    hidden = torch.randn(*shape, SIZE, dtype=torch.float64, requires_grad=True)
    expected = torch.randint(0, VOCABULARY, shape, generator=generator)  # 0 is to be ignored
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            patch.setattr(loss_module, "ROWS", rows)
        loss = part.loss(hidden, expected, smoothing=smoothing)
    other = reference(part, hidden, expected, smoothing)
    assert loss.count == int((expected != 0).sum())
    assert_close(loss.total, other)
    wanted = [hidden, *part.parameters()]
    assert_close(torch.autograd.grad(3 * loss.total, wanted), torch.autograd.grad(3 * other, wanted))
    assert cap is None or float(part(hidden.detach()).detach().abs().max()) <= cap


def test_a_transform_is_a_layer_with_gelu_and_a_norm():
    part, hidden = token_scores(transform=True), torch.randn(2, 3, SIZE)
    first, _, norm = part.transform
    inner = F.layer_norm(F.gelu(F.linear(hidden, first.weight, first.bias)), (SIZE,), norm.weight, norm.bias)
    assert_close(part(hidden), F.linear(inner, part.weight))
    with torch.no_grad():
        assert_close(part(hidden), F.linear(inner, part.weight))


def test_more_rows_than_one_chunk_of_real_size():
    part, count = token_scores(), 2 * loss_module.ROWS + 7
    hidden, expected = (
        torch.randn(1, count, SIZE, requires_grad=True),
        torch.randint(1, VOCABULARY, (1, count)),
    )
    loss, other = part.loss(hidden, expected, smoothing=0.1), reference(part, hidden, expected, 0.1)
    assert_close(loss.total, other)
    wanted = (hidden, part.weight)
    found, right = torch.autograd.grad(loss.total, wanted), torch.autograd.grad(other, wanted)
    assert_close(found, right, atol=1e-3, rtol=1e-4)


def test_tied_weights_get_the_gradients_of_both_uses():
    embedding = Embedding(VOCABULARY, SIZE).double()
    part = token_scores(weight=embedding.weight)
    ids, expected = torch.tensor([[4, 5, 6]]), torch.tensor([[5, 6, 0]])
    found = torch.autograd.grad(part.loss(embedding(ids).tanh(), expected).total, embedding.weight)
    assert part.weight is embedding.weight
    assert_close(
        found, torch.autograd.grad(reference(part, embedding(ids).tanh(), expected, 0.0), embedding.weight)
    )


def test_without_targets_the_loss_is_zero():
    part, hidden = (
        token_scores(bias=True),
        torch.randn(2, 3, SIZE, requires_grad=True),
    )
    loss = part.loss(hidden, torch.zeros(2, 3, dtype=torch.long), smoothing=0.1)
    assert (loss.count, loss.total.item(), loss.mean.item()) == (0, 0.0, 0.0)
    gradients = torch.autograd.grad(loss.total, [hidden, *part.parameters()])
    assert not any(bool(g.any()) for g in gradients)


def test_the_mean_is_the_total_by_the_count():
    part, hidden = token_scores(), torch.randn(2, 3, SIZE)
    loss = part.loss(hidden, torch.tensor([[1, 2, 0], [3, 0, 0]]))
    assert_close(loss.mean, loss.total / 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_under_autocast_the_loss_is_that_of_the_weights_precision(dtype):
    part, expected = token_scores(bias=True), torch.tensor([[1, 2, 3]])
    hidden = torch.randn(1, 3, SIZE).to(dtype).requires_grad_()
    wanted = (hidden, part.weight, part.bias)
    plain = reference(part, hidden.float(), expected, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = part.loss(hidden, expected, smoothing=0.1).total
        with torch.no_grad():
            assert_close(part.loss(hidden, expected, smoothing=0.1).total, loss.detach())
    assert_close(loss, plain)
    assert_close(torch.autograd.grad(loss, wanted), torch.autograd.grad(plain, wanted))


def test_a_second_derivative_is_refused_not_wrong():
    part, x = token_scores(), torch.randn(1, 3, SIZE, requires_grad=True)
    loss = part.loss(x.tanh(), torch.tensor([[1, 2, 3]])).total
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(loss, x, create_graph=True)


class Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket.__name__ in ("mm", "addmm", "addmm_", "linear", "bmm")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_none_are_computed(mode):
    """Validation needs the value only; gradients would be two more products of the size of the scores."""
    part, hidden, expected = (
        token_scores(),
        torch.randn(1, 3, SIZE),
        torch.tensor([[1, 2, 3]]),
    )
    with Products() as training:
        trained = part.loss(hidden, expected).total
    with mode(), Products() as validation:
        loss = part.loss(hidden, expected)
    assert_close(loss.total, trained.detach())
    assert (training.count, validation.count) == (3, 1)

"""Dropout: its rate, its scale, the same places forward and backward, and the seed that decides all."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from seqwright.errors import ConfigError
from seqwright.nn.dropout import Dropout

COUNT = 100_000


@pytest.mark.parametrize("rate", [1 / 256, 0.1, 0.3, 0.5, 0.9, 0.99])
def test_rate_scale_and_mean(rate):
    """To the nearest 1/256; the kept are scaled so that the mean stays. Bounds: five deviations."""
    near = round(rate * 256) / 256
    out = Dropout(rate)(torch.ones(COUNT))
    gone = float((out == 0).float().mean())
    assert abs(near - rate) <= 1 / 512
    assert abs(gone - near) < 5 * math.sqrt(near * (1 - near) / COUNT)
    assert_close(out[out != 0], torch.full_like(out[out != 0], 1 / (1 - near)))
    assert abs(float(out.mean()) - 1) < 5 * math.sqrt(near / (1 - near) / COUNT)


def test_neighbours_are_dropped_independently():
    """Eight elements share one random number; they are independent all the same."""
    gone = (Dropout(0.5)(torch.ones(COUNT // 8 * 8)) == 0).double().view(-1, 8)
    together = torch.corrcoef(gone.T) - torch.eye(8)
    assert together.abs().max() < 5 / math.sqrt(len(gone))
    assert (gone.mean(0) - 0.5).abs().max() < 5 * 0.5 / math.sqrt(len(gone))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 11), (1, 1), (0, 4)])
def test_backward_uses_the_places_of_forward(shape):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    out = Dropout(0.4)(x)
    assert out.shape == x.shape
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert_close(gradient * x, out)


def test_a_transposed_input_keeps_its_order():
    x = torch.randn(4, 6).t()
    out = Dropout(0.5)(x)
    kept = out != 0
    assert_close(out[kept], x[kept] * 2)
    assert 0 < int(kept.sum()) < kept.numel()


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.99])
def test_eval_is_the_identity(rate):
    x = torch.randn(10)
    assert Dropout(rate).eval()(x) is x


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e-3])
def test_rates_below_half_a_step_drop_nothing(rate):
    x = torch.randn(10)
    assert Dropout(rate)(x) is x


def test_a_rate_near_one_leaves_something():
    out = Dropout(0.9999)(torch.ones(COUNT))
    assert out.isfinite().all()
    assert out.any()


def test_the_seed_decides():
    x, dropout = torch.ones(1000), Dropout(0.5)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, math.nan])
def test_a_rate_is_a_share(rate):
    with pytest.raises(ConfigError, match=rf"dropout is {rate}; it must be at least 0 and below 1"):
        Dropout(rate)

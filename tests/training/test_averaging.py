"""The moving average follows its formula; applying it leaves the model unchanged."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seqwright.models import Model
from seqwright.training.averaging import Average


class Toy(Model):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 2)
        self.second.weight = nn.Parameter(torch.randn(2, 2))


def drift(model: Model) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


@given(decay=st.floats(0.05, 0.999), steps=st.integers(1, 30))
def test_it_equals_the_naive_formula(decay, steps):
    model = Toy()
    average = Average(model, decay)
    naive = {name: weight.clone().double() for name, weight in model.weights().items()}
    for step in range(1, steps + 1):
        drift(model)
        average.update(step)
        kept = min(decay, (1 + step) / (10 + step))
        naive = {name: kept * naive[name] + (1 - kept) * model.weights()[name].double() for name in naive}
    for name, weight in average.weights.items():
        torch.testing.assert_close(weight.double(), naive[name], atol=1e-5, rtol=1e-5)


def test_applied_restores_the_weights_bit_for_bit():
    model = Toy()
    average = Average(model, 0.9)
    drift(model)
    average.update(1)
    own = {name: weight.clone() for name, weight in model.weights().items()}
    averaged = {name: weight.clone() for name, weight in average.weights.items()}
    with average.applied():
        assert all(torch.equal(weight, averaged[name]) for name, weight in model.weights().items())
    assert all(torch.equal(weight, own[name]) for name, weight in model.weights().items())
    assert not any(torch.equal(own[name], averaged[name]) for name in own)
    with pytest.raises(KeyboardInterrupt), average.applied():
        raise KeyboardInterrupt
    assert all(torch.equal(weight, own[name]) for name, weight in model.weights().items())
    assert all(torch.equal(weight, averaged[name]) for name, weight in average.weights.items())


def test_a_loaded_average_continues_bit_for_bit():
    model = Toy()
    average = Average(model, 0.9)
    drift(model)
    average.update(1)
    again = Average(model, 0.9)
    again.load({name: weight.clone() for name, weight in average.weights.items()})
    drift(model)
    average.update(2)
    again.update(2)
    assert all(torch.equal(weight, again.weights[name]) for name, weight in average.weights.items())

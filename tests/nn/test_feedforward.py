"""Activations against what torch derives."""

import torch
from torch.testing import assert_close

from seqwright.nn.feedforward import squared_relu


def test_squared_relu_and_its_gradient_are_those_of_torch():
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    other = x.detach().clone().requires_grad_()
    weights = torch.randn(5, 7, dtype=torch.float64)
    (squared_relu(x) * weights).sum().backward()
    (other.relu().square() * weights).sum().backward()
    assert_close(x.grad, other.grad)
    assert_close(squared_relu(x), squared_relu(x.detach()))


def test_squared_relu_without_gradient_keeps_its_input():
    x = torch.tensor([-1.0, 0.0, 3.0])
    assert squared_relu(x).tolist() == [0.0, 0.0, 9.0]
    assert x.tolist() == [-1.0, 0.0, 3.0]

"""Law: the gradient from output t to what was read after t, or lies beyond a window, is exactly zero."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from cases import DECODER_CASES, SIZE, positions, source, with_decoder
from torch import Tensor

from seqwright.nn.blocks import Stack
from seqwright.nn.masks import Places
from seqwright.nn.positions import POSITIONS

LENGTH = 7


@contextmanager
def leaf_embeddings(embedding):
    """Record the embedded tokens of each call as leaves of the graph."""
    leaves: list[Tensor] = []

    def swap(module, inputs, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    handle = embedding.register_forward_hook(swap)
    try:
        yield leaves
    finally:
        handle.remove()


def influence(outputs: Tensor, inputs: Tensor) -> Tensor:
    """(T, T) bool: whether output t depends on input s, of the first row.

    Along a random direction, since the plain sum of what a norm gives out is constant.
    """
    direction = torch.randn(outputs.shape[-1], dtype=outputs.dtype)
    rows = []
    for t in range(outputs.shape[1]):
        (gradient,) = torch.autograd.grad(outputs[0, t] @ direction, inputs, retain_graph=True)
        rows.append((gradient[0] != 0).any(-1))
    return torch.stack(rows)


@pytest.mark.parametrize("case", DECODER_CASES)
def test_no_decoder_sees_the_future(case):
    model = with_decoder(case)
    with leaf_embeddings(model.decoder.embedding) as leaves:
        hidden, _ = model.decoder(torch.tensor([[4, 5, 6, 7, 8, 4, 5]]), model.start(source([[4, 5]])))
    found = influence(hidden, leaves[-1])  # a prompt is embedded before the target
    assert not found.triu(1).any()
    assert found.diagonal().all()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("window", [0, 1, 2])
@pytest.mark.parametrize("position", positions())
def test_a_window_reaches_so_far_and_no_further(position, window, layers, causal):
    """Each layer adds `window` neighbours on each side, or on the left side only."""
    options = {"size": SIZE, "heads": 2, "layers": layers, "position": positions()[position]}
    stack = Stack(causal=causal, window=window, **options).double().eval()
    embedded = torch.randn(1, LENGTH, stack.embedding_size, dtype=torch.float64, requires_grad=True)
    outputs, _ = stack(embedded, Places.run(0, LENGTH))
    reach = window * layers
    expected = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(0 if causal else reach).triu(-reach)
    assert torch.equal(influence(outputs, embedded), expected)


@pytest.mark.parametrize("position", POSITIONS.names())
def test_without_causality_everybody_sees_everybody(position):
    stack = Stack(size=SIZE, heads=2, layers=1, position=position).double().eval()
    embedded = torch.randn(1, LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    assert influence(stack(embedded, Places.run(0, LENGTH))[0], embedded).all()

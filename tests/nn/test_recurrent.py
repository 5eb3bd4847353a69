"""Recurrent layers equal torch's with copied weights; steps equal the whole."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seqwright.nn.recurrent import CELLS, Recurrent

INPUT, SIZE = 3, 4
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}


def pair(cell: str, layers: int, bidirectional: bool) -> tuple[Recurrent, nn.Module]:
    ours = Recurrent(
        INPUT, size=SIZE, layers=layers, cell=cell, bidirectional=bidirectional, dropout=0.0
    ).double()
    twin = TORCH[cell](INPUT, SIZE, layers, batch_first=True, bidirectional=bidirectional).double()
    names = {"l0": "l{}", "l0_reverse": "l{}_reverse"}
    with torch.no_grad():
        for i, layer in enumerate(ours.layers):
            for name, parameter in layer.named_parameters():
                kind, _, place = name.rpartition("_l0")
                getattr(twin, f"{kind}_{names['l0' + place].format(i)}").copy_(parameter)
    return ours, twin


def states(cell: str, state) -> tuple[torch.Tensor, ...]:
    return state if cell == "lstm" else (state,)


def test_every_cell_has_its_twin():
    assert set(TORCH) == set(CELLS)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@given(
    layers=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    packed=st.booleans(),
)
def test_equals_torch(cell, bidirectional, layers, lengths, packed):
    ours, twin = pair(cell, layers, bidirectional)
    x = torch.randn(len(lengths), max(lengths), INPUT, dtype=torch.float64, requires_grad=True)
    if packed:
        found, end = ours(x, lengths=torch.tensor(lengths))
        sequence = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        expected, last = twin(sequence)
        expected, _ = pad_packed_sequence(expected, batch_first=True, total_length=max(lengths))
    else:
        found, end = ours(x)
        expected, last = twin(x)
    assert_close(found, expected)
    assert_close(end, states(cell, last))
    wanted = (x, ours.layers[0].weight_hh_l0), (x, twin.weight_hh_l0)
    one = torch.autograd.grad(found.square().sum() + end[-1].sum(), wanted[0])
    assert_close(one, torch.autograd.grad(expected.square().sum() + states(cell, last)[-1].sum(), wanted[1]))


@pytest.mark.parametrize("cell", CELLS)
@given(layers=st.integers(1, 3), length=st.integers(1, 5))
def test_steps_equal_the_whole(cell, layers, length):
    recurrent = Recurrent(INPUT, size=SIZE, layers=layers, cell=cell, dropout=0.0).double()
    x = torch.randn(2, length, INPUT, dtype=torch.float64)
    start = tuple(torch.randn(layers, 2, SIZE, dtype=torch.float64) for _ in range(recurrent.parts))
    whole, end = recurrent(x, start)
    state, outputs = start, []
    for t in range(length):
        output, state = recurrent.step(x[:, t], state)
        outputs.append(output)
    assert_close(torch.stack(outputs, 1), whole)
    assert_close(state, end)


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_can_be_continued(cell):
    recurrent = Recurrent(INPUT, size=SIZE, layers=2, cell=cell, dropout=0.0).double()
    x = torch.randn(2, 6, INPUT, dtype=torch.float64)
    first, state = recurrent(x[:, :2])
    second, _ = recurrent(x[:, 2:], state)
    assert_close(torch.cat([first, second], 1), recurrent(x)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_dropout_works_between_layers_only(cell):
    x = torch.randn(2, 4, INPUT)
    for layers, changes in ((1, False), (2, True)):
        recurrent = Recurrent(INPUT, size=SIZE, layers=layers, cell=cell, dropout=0.5).train()
        assert torch.equal(recurrent(x)[0], recurrent.eval()(x)[0]) is not changes

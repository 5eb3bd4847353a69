"""Law: decoding a target whole = decoding it in any pieces, with gradients and with the cache."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from cases import DECODER_CASES, MODES, TOLERANCE, alone, ids, source, with_decoder
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


@st.composite
def cut_targets(draw):
    """Two rows of one length, and how they are cut."""
    length = draw(st.integers(2, 8))
    rows = [draw(st.lists(ids, min_size=length, max_size=length)) for _ in range(2)]
    cuts = draw(st.sets(st.integers(1, length - 1), min_size=1))
    return torch.tensor(rows), [0, *sorted(cuts), length]


@pytest.mark.parametrize("mode", ["grad", "no_grad"])
@pytest.mark.parametrize("case", DECODER_CASES)
@given(target=cut_targets())
def test_pieces_make_the_whole(case, mode, target):
    model, (tokens, cuts) = with_decoder(case), target
    with MODES[mode]():
        start = model.start(source([[4, 5, 6], [7]]))
        whole, _ = model.decoder(tokens, start)
        pieces, state = [], start
        for begin, end in pairwise(cuts):
            hidden, state = model.decoder(tokens[:, begin:end], state)
            pieces.append(hidden)
    assert_close(torch.cat(pieces, 1), whole, **TOLERANCE)


@pytest.mark.parametrize("case", DECODER_CASES)
def test_a_long_target_step_by_step(case):
    """Long enough for a buffer to be replaced and for a window to be cut more than once."""
    model = with_decoder(case)
    tokens = torch.randint(4, 9, (1, 40))
    with torch.inference_mode():
        start = model.start(source([[4, 5, 6, 7]]))
        whole, _ = model.decoder(tokens, start)
        pieces, state = [], start
        for t in range(tokens.shape[1]):
            hidden, state = model.decoder(tokens[:, t : t + 1], state)
            pieces.append(hidden)
    assert_close(torch.cat(pieces, 1), whole, **TOLERANCE)


@pytest.mark.parametrize("case", DECODER_CASES)
def test_pieces_have_the_gradients_of_the_whole(case):
    model = with_decoder(case)
    tokens = torch.tensor([[4, 5, 6, 7, 8], [8, 4, 4, 5, 6]])
    found = []
    for cuts in ([0, 5], [0, 1, 3, 5]):
        state, pieces = model.start(source([[4, 5, 6], [7]])), []
        for begin, end in pairwise(cuts):
            hidden, state = model.decoder(tokens[:, begin:end], state)
            pieces.append(hidden)
        used = [p for p in model.decoder.parameters() if p.requires_grad]
        total = torch.cat(pieces, 1).square().sum()
        found.append(torch.autograd.grad(total, used, allow_unused=True, materialize_grads=True))
    assert any(bool(g.any()) for g in found[0])
    assert_close(found[1], found[0], **TOLERANCE)


@pytest.mark.parametrize(
    "case", ["transformer:sinusoidal-window", "transformer:global", "alone-transformer:global"]
)
def test_a_window_keeps_its_memory_small(case):
    """Restricted to r neighbours, a step costs the same however long the output is: after prompts of
    different length, for states that joined and for a beam.
    """
    model, prompts = with_decoder(case), [[4, 5, 6] * 7, [7, 8, 4]]
    mask = model.decoder.stack.blocks[0].attention.mask
    most = 2 * mask.window + mask.global_tokens + 1

    def steps(state, tokens, width=1):
        for token in tokens:
            _, state = model.decoder(torch.full((state.groups * width, 1), token), state)
        assert all(keys.count <= most * width for keys in state.past)
        return state

    with torch.inference_mode():
        padded = source(prompts)
        _, state = model.decoder(padded.ids, model.start(source([[4, 5], [6]])), padded.real)
        other = steps(model.start(source([[7, 8]])), [5] * 30)
        state = steps(steps(state, [6, 7]).join([other]), [8, 4] * 4)
        state = steps(state.select([0, 0, 1, 1, 2, 2]), [5, 6] * 6, width=2)
        scores, _ = model.step(torch.full((6, 1), 4), state)
    after = [8, 4] * 4 + [5, 6] * 6 + [4]
    expected = [alone(model, [4, 5], [*prompts[0], 6, 7, *after])] * 2
    expected += [alone(model, [6], [*prompts[1], 6, 7, *after])] * 2
    expected += [alone(model, [7, 8], [5] * 30 + after)] * 2
    assert_close(scores, torch.stack(expected), **TOLERANCE)


def test_a_step_copies_no_keys():
    """Thirty steps move to a larger buffer now and then, not each time."""
    model = with_decoder("transformer:sinusoidal")
    with torch.inference_mode():
        state, buffers = model.start(source([[4, 5]])), []
        for _ in range(30):
            _, state = model.decoder(torch.tensor([[4]]), state)
            buffers.append(state.past[0].k)
    assert len({keys.data_ptr() for keys in buffers}) <= 4

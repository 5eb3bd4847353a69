"""Attention in blocks equals attention with a mask, forward and backward."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seqwright.data.batch import within
from seqwright.models.decoders.transformer import Transformer
from seqwright.nn import band
from seqwright.nn.blocks import Stack
from seqwright.nn.masks import Places
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES

OPTIONS = {"size": 8, "layers": 2, "heads": 2, "hidden": 8, "dropout": 0.0}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(band, "LEAST_SIZE", 3)
    monkeypatch.setattr(band, "LEAST_BLOCKS", 2)


def made(**options):
    torch.manual_seed(1)
    return Stack(**OPTIONS | options).double().eval()


def with_blocks(stack, x, places, *, blocks: bool):
    """The output and the gradient of the input, computed in blocks or with a mask."""
    x = x.clone().requires_grad_()
    if not blocks:
        found, band.LEAST_BLOCKS = band.LEAST_BLOCKS, 10**9
    try:
        hidden, _ = stack(x, places)
    finally:
        if not blocks:
            band.LEAST_BLOCKS = found
    weights = torch.linspace(-1, 1, hidden.numel(), dtype=hidden.dtype).view_as(hidden)
    real = places.seen[..., None] if places.seen is not None else torch.ones(1, dtype=torch.bool)
    (slope,) = torch.autograd.grad((hidden * weights * real).sum(), x)
    return hidden * real, slope


def assert_equal_in_blocks(stack, x, places):
    assert_close(
        with_blocks(stack, x, places, blocks=True),
        with_blocks(stack, x, places, blocks=False),
        atol=1e-10,
        rtol=1e-8,
    )


@pytest.mark.parametrize("causal", [True, False])
@given(
    length=st.integers(1, 23),
    window=st.integers(0, 5),
    everywhere=st.integers(0, 3),
    lengths=st.none() | st.lists(st.integers(1, 23), min_size=2, max_size=2),
)
def test_blocks_change_nothing(causal, length, window, everywhere, lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(band, "LEAST_SIZE", 3)
        patch.setattr(band, "LEAST_BLOCKS", 2)
        stack = made(causal=causal, window=window, global_tokens=everywhere)
        places = Places.run(0, length)
        if lengths is not None:
            places = places.with_seen(torch.arange(length) < torch.tensor(lengths)[:, None])
        assert_equal_in_blocks(stack, torch.randn(2, length, 8, dtype=torch.float64), places)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "options",
    [{"position": name} for name in POSITIONS.names()]
    + [{"score": name} for name in SCORES.names()]
    + [{"value_residual": True}],
    ids=str,
)
def test_every_position_and_score_works_in_blocks(options, causal):
    stack = made(causal=causal, window=2, global_tokens=1, **options)
    assert_equal_in_blocks(stack, torch.randn(2, 17, 8, dtype=torch.float64), Places.run(0, 17))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("everywhere", [0, 2])
@given(cuts=st.sets(st.integers(1, 29), min_size=1, max_size=4))
def test_a_prompt_in_pieces_is_the_prompt_at_once(everywhere, cuts):
    stack = made(causal=True, window=4, global_tokens=everywhere)
    x = torch.randn(2, 30, 8, dtype=torch.float64)
    with torch.inference_mode():
        whole, _ = stack(x, Places.run(0, 30))
        pieces, past = [], None
        for begin, end in pairwise([0, *sorted(cuts), 30]):
            hidden, past = stack(x[:, begin:end], Places.run(begin, end - begin), past)
            pieces.append(hidden)
    assert_close(torch.cat(pieces, 1), whole, atol=1e-10, rtol=1e-8)


@pytest.mark.usefixtures("small_blocks")
def test_recording_sees_the_weights_of_the_whole():
    stack, seen = made(causal=True, window=2), []
    x = torch.randn(1, 17, 8, dtype=torch.float64)
    with torch.inference_mode():
        before, _ = stack(x, Places.run(0, 17))
        stack.blocks[0].attention.recorder = seen.append
        after, _ = stack(x, Places.run(0, 17))
    assert torch.equal(before, after)
    (look,) = seen
    far = torch.arange(17)[:, None] - torch.arange(17) > 2
    assert look.weights.shape[-2:] == (17, 17)
    assert not look.weights[..., far].any()
    assert_close(look.weights.sum(-1), torch.ones_like(look.weights[..., 0]))


@pytest.mark.parametrize("shorter", [0, 20])
def test_blocks_need_memory_in_proportion_to_the_length(shorter):
    """No tensor of a pass has more elements than a few per token and neighbour. shorter: of two prompts, the
    second one has so many tokens less.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            for each in found if isinstance(found, tuple | list) else [found]:
                if isinstance(each, torch.Tensor):
                    self.elements = max(self.elements, each.numel())
            return found

    options = OPTIONS | {"layers": 1, "window": 16}
    decoder = Transformer(vocabulary=9, memory_size=None, **options).eval()
    sizes = []
    for length in (1024, 4096):
        lengths = torch.tensor([length, length - shorter])
        real = within(lengths, length) if shorter else None
        with Largest() as largest:
            hidden, _ = decoder(torch.randint(4, 9, (2, length)), decoder.start(None, 2), real)
            hidden.sum().backward()
        sizes.append(largest.elements)
    assert sizes[1] <= 4.2 * sizes[0]
    assert sizes[1] < 4096 * 4096 / 4

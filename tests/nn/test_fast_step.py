"""The fast step computes what the blocks compute, and runs exactly where it applies."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import seqwright
from seqwright.nn.blocks import BoundStack, Stack
from seqwright.nn.fast_step import FastStep, FoldedMemory, SeparateMemory
from seqwright.nn.kv_cache import StackedCache
from seqwright.nn.masks import Mask, Places

SIZE, LAYERS = 12, 3


def stack(memory_size: int | None = 10, **options) -> Stack:
    torch.manual_seed(0)
    options = {"heads": 3, "head_size": 4, "hidden": 16, "dropout": 0.1, **options}
    found = Stack(memory_size, causal=True, size=SIZE, layers=LAYERS, **options).double().eval()
    for parameter in found.parameters():  # biases and norms, too, must tell
        torch.nn.init.normal_(parameter, std=0.4)
    return found


def steps(found: Stack, memory=None, groups=1, width=1, count=4, seed=1):
    """Hidden of some steps of one token each, and the last past."""
    torch.manual_seed(seed)
    bound, past, hidden = found.bound(), None, []
    for t in range(count):
        x = torch.randn(groups, width, SIZE, dtype=torch.float64)
        out, past = bound(x, Places.run(t, 1, width=width), past, memory, width)
        hidden.append(out)
    return torch.cat(hidden, 1), past


def memory_of(found: Stack, groups: int, length: int, hidden: int = 0):
    """The first group has `hidden` places of padding at its end."""
    real = torch.ones(groups, length, dtype=torch.bool)
    real[0, length - hidden :] = False
    source = torch.randn(groups, length, 10, dtype=torch.float64)
    places = Places.padded(real) if hidden else Places.run(0, length)
    return found.memory(source, places)


@pytest.mark.parametrize("width", [1, 4, 10])
@pytest.mark.parametrize(("groups", "length", "hidden"), [(1, 3, 0), (1, 4, 2), (1, 9, 0), (2, 3, 1)])
@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("bias", [True, False])
def test_it_computes_what_the_blocks_compute(monkeypatch, width, groups, length, hidden, bias, position):
    found = stack(bias=bias, position=position)
    with torch.inference_mode():
        memory = memory_of(found, groups, length, hidden)
        quick, past = steps(found, memory, groups, width)
        monkeypatch.setattr(FastStep, "suits", lambda *_: False)
        slow, pieces = steps(found, memory, groups, width)
    assert isinstance(past, StackedCache)
    folded = groups == 1 and length <= 4
    assert isinstance(past.prepared.layers[0], FoldedMemory if folded else SeparateMemory)
    assert_close(quick, slow, atol=1e-10, rtol=1e-8)
    for ours, theirs in zip(past, pieces, strict=True):
        assert_close(ours.both, theirs.both, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "rms"},
        {"feed_forward": "gated"},
        {"score": "dot"},
        {"score": {"kind": "scaled_dot", "temperature": 2.0}},
        {"position": "learned"},
        {"position": "none"},
        {"position": {"kind": "rotary", "base": 100.0}},
        {"position": "rotary", "score": "cosine", "cross_score": "scaled_dot"},
        {"score": "cosine", "cross_score": "dot", "norm": "rms", "bias": False},
        {"feed_forward": {"kind": "plain", "activation": "squared_relu"}},
        {"cross_heads": 2, "cross_head_size": 6},
        {"heads": 1, "head_size": 7},
    ],
    ids=str,
)
def test_all_that_it_is_for(monkeypatch, options):
    found = stack(**options)
    with torch.inference_mode():
        for groups, width in ((1, 1), (1, 3), (2, 2)):
            memory = memory_of(found, groups, 3)
            quick, past = steps(found, memory, groups, width)
            assert isinstance(past, StackedCache)
            with monkeypatch.context() as patch:
                patch.setattr(FastStep, "suits", lambda *_: False)
                assert_close(quick, steps(found, memory, groups, width)[0], atol=1e-10, rtol=1e-8)


def test_without_a_memory_there_is_only_the_past(monkeypatch):
    found = stack(None)
    with torch.inference_mode():
        quick, past = steps(found)
        assert isinstance(past, StackedCache)
        monkeypatch.setattr(FastStep, "suits", lambda *_: False)
        assert_close(quick, steps(found)[0], atol=1e-10, rtol=1e-8)


def test_either_way_goes_on_from_the_other(monkeypatch):
    """A step that is watched is computed by the blocks; what comes before and after it need not be."""
    found = stack()
    with torch.inference_mode():
        memory = memory_of(found, 1, 3)
        bound, past, kinds, hidden = found.bound(), None, [], []
        torch.manual_seed(1)
        for t in range(4):
            x = torch.randn(1, 1, SIZE, dtype=torch.float64)
            if t == 1:
                with seqwright.capture(found):
                    out, past = bound(x, Places.run(t, 1), past, memory)
            else:
                out, past = bound(x, Places.run(t, 1), past, memory)
            kinds.append(isinstance(past, StackedCache))
            hidden.append(out)
        assert kinds == [True, False, True, True]
        assert_close(torch.cat(hidden, 1), steps(found, memory)[0], atol=1e-10, rtol=1e-8)


def test_a_past_goes_on_with_another_memory(monkeypatch):
    found = stack()
    with torch.inference_mode():
        one, other = memory_of(found, 1, 3), memory_of(found, 1, 3)
        _, past = steps(found, one)
        bound, x, place = found.bound(), torch.randn(1, 1, SIZE, dtype=torch.float64), Places.run(4, 1)
        quick = [bound(x, place, past, memory)[0] for memory in (one, other)]
        assert not torch.equal(*quick)
        monkeypatch.setattr(FastStep, "suits", lambda *_: False)
        assert_close(quick, [bound(x, place, past, memory)[0] for memory in (one, other)])


def test_two_futures_of_one_past_do_not_meet():
    found = stack()
    with torch.inference_mode():
        memory = memory_of(found, 1, 3)
        _, past = steps(found, memory)
        one, other = torch.randn(2, 1, 1, SIZE, dtype=torch.float64)
        bound, place = found.bound(), Places.run(4, 1)
        _, first = bound(one, place, past, memory)
        kept = first[0].both.clone()
        _, second = bound(other, place, past, memory)
        assert_close(first[0].both, kept)
        assert not torch.equal(second[0].both, kept)


def test_rows_are_selected_with_their_keys():
    found = stack()
    with torch.inference_mode():
        memory = memory_of(found, 2, 3)
        _, past = steps(found, memory, groups=2)
        chosen = past.select([1], [1], 1)
        assert chosen.prepared is None
        assert_close(chosen[2].both, past[2].both[1:])
        assert past.select(None, [0, 1], 1).prepared is past.prepared


@pytest.mark.parametrize(
    "options",
    [
        {"order": "post"},
        {"position": "shaw"},
        {"value_residual": True},
        {"score": "cosine"},
        {"score": "bilinear"},
        {"score": "additive"},
        {"window": 2},
        {"heads": [3, 2, 3]},
    ],
    ids=str,
)
def test_other_blocks_have_no_fast_step(options):
    with torch.inference_mode():
        assert BoundStack(stack(**options)).fast_step is None


def test_nor_has_a_memory_that_is_seen_in_part():
    found = stack()
    for block in found.blocks:
        block.cross.mask = Mask(window=1)
    with torch.inference_mode():
        assert BoundStack(found).fast_step is None


def through_blocks(found: Stack, memory) -> bool:
    return not isinstance(steps(found, memory)[1], StackedCache)


def test_who_learns_drops_or_switches_goes_through_the_blocks():
    found = stack()
    with torch.no_grad():
        memory = memory_of(found, 1, 3)
        assert not through_blocks(found, memory)
        assert through_blocks(found.train(), memory)
        own = found.eval().blocks[0].attention
        own.gate = torch.zeros(3, 1, 1, dtype=torch.float64)
        assert through_blocks(found, memory)
        own.gate = None
        own.score.factor *= 2
        assert through_blocks(found, memory)
        own.score.factor /= 2
        assert not through_blocks(found, memory)
        with torch.autocast("cpu", torch.bfloat16):
            assert through_blocks(found, memory)
    assert through_blocks(found, memory)


def test_who_sees_nothing_or_is_padding_goes_through_the_blocks():
    found = stack()
    with torch.no_grad():
        assert through_blocks(found, memory_of(found, 1, 3, hidden=3))
        assert through_blocks(found, memory_of(found, 2, 3, hidden=3))
        memory, x = memory_of(found, 2, 3), torch.randn(2, 1, SIZE, dtype=torch.float64)
        _, past = found(x, Places.padded(torch.tensor([[True], [False]])), None, memory)
        assert not isinstance(past, StackedCache)


@pytest.mark.parametrize(
    "name",
    [
        "blocks.1",
        "blocks.1.attention",
        "blocks.1.cross",
        "blocks.1.feed_forward",
        "blocks.0.around_attention.norm",
    ],
)
def test_a_hook_is_called_as_from_the_blocks(name):
    found, shapes = stack(), []
    with torch.no_grad():
        memory = memory_of(found, 1, 3)
        quick, _ = steps(found, memory)
        handle = found.get_submodule(name).register_forward_hook(
            lambda _, given, __: shapes.append(given[0].shape)
        )
        hooked, past = steps(found, memory)
        assert not isinstance(past, StackedCache)
        assert shapes == [(1, 1, SIZE)] * 4
        assert_close(hooked, quick, atol=1e-10, rtol=1e-8)
        handle.remove()
        assert not through_blocks(found, memory)

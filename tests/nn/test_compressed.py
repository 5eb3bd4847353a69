"""Memory-compressed attention against a loop, and its causality."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seqwright.nn.blocks import Stack
from seqwright.nn.kv_cache import Compressed, Last
from seqwright.nn.masks import Places

OPTIONS = {"size": 8, "layers": 1, "heads": 2, "hidden": 8, "dropout": 0.0, "growth": "compressed"}


def made(**options) -> Stack:
    torch.manual_seed(3)
    stack = Stack(**{**OPTIONS, **options}).double().eval()
    for block in stack.blocks:
        if isinstance(block.growth, Compressed):
            for weight in block.growth.parameters():
                torch.nn.init.normal_(weight, std=0.5)
    return stack


@pytest.mark.parametrize("causal", [True, False])
def test_a_loop_over_blocks_gives_the_same(causal):
    stack, length = made(causal=causal, position="none"), 11
    attention, growth = stack.blocks[0].attention, stack.blocks[0].growth
    x, places = torch.randn(1, length, 8, dtype=torch.float64), Places.run(0, length)
    seen = []
    attention.recorder = seen.append
    with torch.inference_mode():
        stack(x, places)
    (look,) = seen
    raw = attention.keys(stack.blocks[0].around_attention.norm(x), places)
    maps = [growth.key_maps.unflatten(0, (3, -1)), growth.value_maps.unflatten(0, (3, -1))]
    for found, each, own in zip(look.keys.pair, raw.pair, maps, strict=True):
        assert not found[:, :, 0].any()  # the key of zeros
        for block in range(4):
            tokens = range(3 * block, min(3 * block + 3, length))
            expected = sum(each[0, :, t] @ own[t - 3 * block] for t in tokens)
            assert_close(found[0, :, 1 + block], expected, atol=1e-12, rtol=1e-9)
    visible = look.weights[0, 0] > 0  # (Q, 1 + blocks)
    for place in range(length):
        complete = (place + 1) // 3 if causal else 4
        assert visible[place].tolist() == [True] * (1 + complete) + [False] * (4 - complete)


def test_a_block_starts_as_the_mean_of_its_keys():
    growth = Compressed(key_size=4, value_size=2, stride=2)
    rows = torch.randn(5, 2, 4)
    assert_close(rows.flatten(1) @ growth.key_maps, rows.mean(1))


@pytest.mark.parametrize("position", ["rotary", "alibi", "shaw"])
def test_rotated_keys_are_compressed_before_they_are_rotated(position):
    """A shift of all places by whole blocks changes no score."""
    stack = made(causal=True, position=position)
    x = torch.randn(1, 9, 8, dtype=torch.float64)
    seen = []
    stack.blocks[0].attention.recorder = seen.append
    with torch.inference_mode():
        stack(x, Places.run(0, 9))
        stack(x, Places.run(6, 9))
    first, second = (look.scores[0, :, 2:, 1:] for look in seen)  # without the key of zeros
    assert_close(second[..., 2:], first, atol=1e-9, rtol=1e-7)


def test_layers_take_the_ways_to_grow_in_turn():
    stack = made(causal=True, layers=3, window=2, growth=["last", "compressed"])
    assert [type(block.growth) for block in stack.blocks] == [Last, Compressed, Last]
    assert [block.attention.mask.window for block in stack.blocks] == [2, None, 2]


def test_a_step_keeps_a_third_of_the_keys():
    stack = made(causal=True)
    with torch.inference_mode():
        _, past = stack(torch.randn(1, 30, 8, dtype=torch.float64), Places.run(0, 30))
    assert past[0].count == 1 + 10

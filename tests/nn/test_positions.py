"""Every position equals a loop over positions; relative ones know the distance only."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seqwright.data.batch import Trees
from seqwright.errors import ConfigError, InputError
from seqwright.nn.attention import Attention
from seqwright.nn.blocks import Stack
from seqwright.nn.masks import AttentionContext, Mask, Places
from seqwright.nn.positions import POSITIONS, Alibi, Depth, Learned, Rotary, Shaw, Sinusoidal, Syntax

INSIDE = [name for name in POSITIONS.names() if POSITIONS.get(name).inside]
DOUBLE = {"dtype": torch.float64}
places_drawn = st.lists(st.integers(0, 40), min_size=1, max_size=5)


def sinusoid(pos: int, dimension: int, size: int, base: float = 10000.0) -> float:
    angle = pos / base ** (2 * (dimension // 2) / size)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@given(size=st.integers(1, 9), pos=places_drawn)
def test_sinusoids_follow_the_formula(size, pos):
    expected = torch.tensor([[sinusoid(p, i, size) for i in range(size)] for p in pos], **DOUBLE)
    embedded = (
        Sinusoidal(size=size)
        .double()
        .embed(torch.zeros(1, len(pos), size, **DOUBLE), Places(torch.tensor(pos)))
    )
    assert_close(embedded[0], expected)


@given(first=st.integers(0, 700), count=st.integers(1, 5))
def test_sinusoids_of_a_run_equal_those_of_its_positions(first, count):
    """A run is a slice of the table; other positions are gathered. Both let the table grow."""
    x, run = torch.zeros(1, count, 6, **DOUBLE), Places.run(first, count)
    by_run, by_place = (Sinusoidal(size=6).double().embed(x, p) for p in (run, Places(run.pos)))
    assert_close(by_run, by_place)
    assert_close(by_run[0, -1, 0], torch.tensor(sinusoid(first + count - 1, 0, 6), **DOUBLE))


@given(size=st.integers(1, 5).map(lambda n: 2 * n), shift=st.integers(0, 50), pos=st.integers(0, 200))
def test_sinusoids_of_a_later_place_are_a_rotation(size, shift, pos):
    """PE(pos + k) = R(k) PE(pos) for every pos (Vaswani et al. 2017, 3.5); R is made of 2 × 2 blocks."""
    turn = torch.zeros(size, size, **DOUBLE)
    for i in range(0, size, 2):
        angle = shift / 10000.0 ** (i / size)
        cos, sin = math.cos(angle), math.sin(angle)
        turn[i : i + 2, i : i + 2] = torch.tensor([[cos, sin], [-sin, cos]], **DOUBLE)
    table = Sinusoidal(size=size).double()
    here, there = (table.vectors(Places.run(p, 1))[0] for p in (pos, pos + shift))
    assert_close(turn @ here, there, atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_concatenated_positions_follow_the_embedding(kind):
    position = POSITIONS.build({"kind": kind, "combine": "concat", "dimensions": 3}, size=8)
    x, places = torch.randn(2, 4, 5), Places.run(2, 4)
    embedded = position.embed(x, places)
    assert position.taken == 3
    assert torch.equal(embedded[..., :5], x)
    assert torch.equal(embedded[1, :, 5:], position.vectors(places))


def test_learned_vectors_are_rows_of_the_table():
    position, pos = Learned(size=4, length=6), [[5, 0, 3], [1, 1, 2]]
    x = torch.randn(2, 3, 4)
    embedded = position.embed(x, Places(torch.tensor(pos)))
    for b, t in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        assert torch.equal(embedded[b, t], x[b, t] + position.table[pos[b][t]])


@pytest.mark.parametrize("places", [Places.run(0, 7), Places(torch.tensor([[0, 6]]))])
def test_a_learned_table_ends(places):
    position = Learned(size=4, length=6)
    with pytest.raises(InputError, match=r"position 7 .* 6 positions; shorten .* position.length = 7"):
        position.embed(torch.zeros(1, places.count, 4), places)


@given(pos=places_drawn, size=st.integers(1, 4).map(lambda n: 2 * n), base=st.sampled_from([100.0, 10000.0]))
def test_rotary_turns_pairs_of_dimensions(pos, size, base):
    x = torch.randn(2, 3, len(pos), size, **DOUBLE)
    turned = Rotary(key_size=size, base=base).turn(x, Places(torch.tensor(pos)))
    for t, p in enumerate(pos):
        for i in range(0, size, 2):
            angle = p / base ** (i / size)
            cos, sin = math.cos(angle), math.sin(angle)
            turn = torch.tensor([[cos, -sin], [sin, cos]], **DOUBLE)
            assert_close(turned[:, :, t, i : i + 2], x[:, :, t, i : i + 2] @ turn.T)


def test_rotary_places_may_differ_by_row():
    rotary, x, pos = Rotary(key_size=4), torch.randn(2, 3, 3, 4), torch.tensor([[0, 1, 2], [0, 0, 1]])
    turned = rotary.turn(x, Places(pos))
    for b in range(2):
        assert_close(turned[b : b + 1], rotary.turn(x[b : b + 1], Places(pos[b])))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_rotary_angles_are_exact_in_half_precision(kind):
    """A model may be halved after training; its angles at far positions must not move."""
    x, far = torch.tensor([1.0, 0.0]).repeat(4)[None, None, None], Places.run(1000, 1)
    exact, halved = Rotary(key_size=8).turn(x, far), Rotary(key_size=8).to(kind).turn(x.to(kind), far)
    assert_close(halved.float(), exact, atol=1e-2, rtol=0)


def test_rotary_needs_pairs():
    with pytest.raises(ConfigError, match=r"rotary.*pairs.*3.*even"):
        Rotary(key_size=3)


@given(heads=st.integers(1, 9), q_pos=places_drawn, k_pos=places_drawn)
def test_alibi_falls_with_the_distance(heads, q_pos, k_pos):
    context = AttentionContext(Places(torch.tensor(q_pos)))
    bias = (
        Alibi(heads=heads)
        .double()
        .bias(torch.zeros(1, heads, len(q_pos), 2, **DOUBLE), context, Places(torch.tensor(k_pos)))
    )
    for h in range(heads):
        slope = 2 ** (-8 * (h + 1) / heads)
        expected = [[-slope * abs(i - j) for j in k_pos] for i in q_pos]
        assert_close(bias[0, h], torch.tensor(expected, **DOUBLE), atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("per_head", [False, True])
@given(q_pos=places_drawn, k_pos=places_drawn, distance=st.integers(1, 6), heads=st.integers(1, 3))
def test_shaw_adds_vectors_of_the_distance(per_head, q_pos, k_pos, distance, heads):
    """e_ij = q_i·aᴷ_ij and z_i = Σ_j α_ij aⱽ_ij, a the vector of clip(j − i) (Shaw et al. 2018, eq. 3–4)."""
    shaw = Shaw(heads=heads, key_size=4, value_size=3, distance=distance, per_head=per_head).double()
    q = torch.randn(2, heads, len(q_pos), 4, **DOUBLE)
    weights = torch.rand(2, heads, len(q_pos), len(k_pos), **DOUBLE)
    bias, extra = torch.zeros_like(weights), torch.zeros(2, heads, len(q_pos), 3, **DOUBLE)
    with torch.no_grad():
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, weights.shape)).tolist():
            row = max(-distance, min(distance, k_pos[j] - q_pos[i])) + distance
            owner = h if per_head else 0
            bias[b, h, i, j] = q[b, h, i] @ shaw.key_table[owner, row]
            extra[b, h, i] += weights[b, h, i, j] * shaw.value_table[owner, row]
    context, keys = AttentionContext(Places(torch.tensor(q_pos))), Places(torch.tensor(k_pos))
    assert_close(shaw.bias(q, context, keys), bias)
    assert_close(shaw.values(weights, context, keys), extra)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", INSIDE)
@given(shift=st.integers(0, 60), length=st.integers(1, 6))
def test_relative_positions_know_the_distance_only(name, causal, shift, length):
    attention = Attention(8, heads=2, position=name, mask=Mask(causal)).double()
    x, found = torch.randn(1, length, 8, **DOUBLE), []
    for first in (0, shift):
        places = Places.run(first, length)
        found.append(attention(x, AttentionContext(places), attention.keys(x, places)))
    assert_close(found[1], found[0])


@pytest.mark.parametrize("name", INSIDE)
def test_relative_positions_do_know_the_distance(name):
    attention = Attention(8, heads=2, position=name).double()
    x, found = torch.randn(1, 2, 8, **DOUBLE), []
    for gap in (1, 5):
        places = Places(torch.tensor([0, gap]))
        found.append(attention(x, AttentionContext(places), attention.keys(x, places)))
    assert not torch.allclose(found[0], found[1])


def test_dimensions_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"8 position dimensions do not fit into a model of size 8"):
        Sinusoidal(size=8, combine="concat", dimensions=8)
    with pytest.raises(ConfigError, match=r"dimensions = 3 is for combine = \"concat\""):
        Sinusoidal(size=8, dimensions=3)


def arcs_between(heads: list[int], one: int, other: int) -> int:
    """The arcs between two words, numbered from 1; 0: the root. By walking up from both."""

    def up(word: int) -> list[int]:
        return [word] if word == 0 else [word, *up(heads[word - 1])]

    ways = up(one), up(other)
    meet = next(word for word in ways[0] if word in ways[1])
    return ways[0].index(meet) + ways[1].index(meet)


@st.composite
def parsed_rows(draw):
    """Rows of tokens: the word of each token, 0 for the end, and the heads; some rows have no tree."""
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 5))
        order = draw(st.permutations(range(1, count + 1)))
        heads = [0] * count
        for i, word in enumerate(order[1:], start=1):
            heads[word - 1] = draw(st.sampled_from([0, *order[:i]]))
        pieces = [word for word in range(1, count + 1) for _ in range(draw(st.integers(1, 2)))]
        rows.append((pieces, heads if draw(st.booleans()) else []))
    return rows


@given(rows=parsed_rows(), distance=st.integers(1, 3), tree=st.integers(1, 4))
def test_syntax_adds_vectors_of_the_distance_in_the_tree(rows, distance, tree):
    """e_ij and z_i as with Shaw et al., plus the vector of the arcs between the words: a loop over pairs."""
    width = max(len(pieces) for pieces, _ in rows) + 1
    trees = Trees.of([np.array(p) for p, _ in rows], [np.array(h, np.int64) for _, h in rows], width)
    syntax = Syntax(heads=2, key_size=4, value_size=3, distance=distance, tree_distance=tree).double()
    places = Places.run(0, width).with_trees(trees)
    q = torch.randn(len(rows), 2, width, 4, **DOUBLE)
    weights = torch.rand(len(rows), 2, width, width, **DOUBLE)
    context = AttentionContext(places)
    bias, extra = syntax.linear.bias(q, context, places), syntax.linear.values(weights, context, places)
    found = syntax.bias(q, context, places), syntax.values(weights, context, places)
    with torch.no_grad():
        for b, i, j in torch.cartesian_prod(*map(torch.arange, (len(rows), width, width))).tolist():
            pieces, heads = rows[b]
            if heads:
                one, other = (pieces[at] if at < len(pieces) else 0 for at in (i, j))
                arcs = arcs_between(heads, one, other) * (1 if j > i else -1)
                row = max(-tree, min(tree, arcs)) + tree
                bias[b, :, i, j] += q[b, :, i] @ syntax.tree.key_table[0, row]
                extra[b, :, i] += weights[b, :, i, j, None] * syntax.tree.value_table[0, row]
    assert_close(found, (bias, extra))


@given(rows=parsed_rows(), deepest=st.integers(1, 4))
def test_depth_adds_the_vector_of_the_depth_in_the_tree(rows, deepest):
    width = max(len(pieces) for pieces, _ in rows) + 1
    trees = Trees.of([np.array(p) for p, _ in rows], [np.array(h, np.int64) for _, h in rows], width)
    depth, places = Depth(size=6, deepest=deepest).double(), Places.run(0, width)
    zeros = torch.zeros(len(rows), width, 6, **DOUBLE)
    expected = Sinusoidal(size=6).double().embed(zeros, places)
    assert_close(depth.embed(zeros, places), expected)
    for b, (pieces, heads) in enumerate(rows):
        for t, word in enumerate(pieces if heads else []):
            expected[b, t] += depth.table[min(arcs_between(heads, word, 0), deepest)].detach()
        if heads:
            expected[b, len(pieces) :] += depth.table[0].detach()
    assert_close(depth.embed(zeros, places.with_trees(trees)), expected)


def test_a_tree_changes_the_output_of_a_stack():
    stack = Stack(size=8, heads=2, layers=1, position="syntax").double().eval()
    places, x = Places.run(0, 3), torch.randn(1, 3, 8, **DOUBLE)
    first, second = (
        stack(x, places.with_trees(Trees.of([np.array([1, 2])], [np.array(heads)], 3)))[0]
        for heads in ([0, 1], [2, 0])
    )
    assert not torch.allclose(first, second)
    assert not torch.allclose(first, stack(x, places)[0])

"""The one attention equals torch's with copied weights, and a loop where torch has none."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from seqwright.errors import ConfigError
from seqwright.nn.attention import Attention
from seqwright.nn.masks import AttentionContext, Mask, Places, mask_bias
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES

INSIDE = [name for name in POSITIONS.names() if POSITIONS.get(name).inside]
ROWS = 2


def by_head(weight: Tensor, heads: int, parts: int) -> list[Tensor]:
    """Rows that lie head by head, each with its parts, as one run of rows for each part."""
    return [part.flatten(0, 1) for part in weight.unflatten(0, (heads, parts, -1)).unbind(1)]


def torch_twin(ours: Attention, size: int, memory_size: int) -> nn.MultiheadAttention:
    twin = nn.MultiheadAttention(
        size, ours.heads, kdim=memory_size, vdim=memory_size, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        key, value = by_head(ours.key_value.weight, ours.heads, 2)
        if twin.in_proj_weight is None:
            twin.q_proj_weight.copy_(ours.query.weight)
            twin.k_proj_weight.copy_(key)
            twin.v_proj_weight.copy_(value)
        else:
            twin.in_proj_weight.copy_(torch.cat([ours.query.weight, key, value]))
        twin.in_proj_bias.copy_(torch.cat([ours.query.bias, *by_head(ours.key_value.bias, ours.heads, 2)]))
        twin.out_proj.load_state_dict(ours.out.state_dict())
    return twin


def random_biases(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("memory_size", [None, 12, 6])
@given(
    heads=st.sampled_from([1, 2, 4]), queries=st.integers(1, 4), keys=st.integers(1, 5), padded=st.booleans()
)
def test_equals_torch_multi_head_attention(memory_size, causal, heads, queries, keys, padded):
    """memory_size None: self-attention, where torch keeps its three projections in one."""
    ours = Attention(8, memory_size, heads=heads, mask=Mask(causal)).double()
    random_biases(ours)
    twin = torch_twin(ours, 8, memory_size or 8)
    query = torch.randn(ROWS, queries, 8, dtype=torch.float64, requires_grad=True)
    if memory_size is None:
        keys, memory = queries, query
    else:
        memory = torch.randn(ROWS, keys, memory_size, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([keys, max(1, keys - 2)])
    seen = torch.arange(keys) < lengths[:, None] if padded else None

    found = ours(
        query, AttentionContext(Places.run(0, queries)), ours.keys(memory, Places(torch.arange(keys), seen))
    )
    future = torch.ones(queries, keys, dtype=torch.bool).triu(1) if causal else None
    expected, _ = twin(
        query,
        memory,
        memory,
        attn_mask=future,
        key_padding_mask=None if seen is None else ~seen,
        need_weights=False,
    )
    assert_close(found, expected)
    direction = torch.randn_like(expected)
    wanted = (query, ours.out.weight, ours.query.bias), (query, twin.out_proj.weight, twin.in_proj_bias)
    one = torch.autograd.grad((found * direction).sum(), wanted[0])
    other = torch.autograd.grad((expected * direction).sum(), wanted[1])
    assert_close(one, (*other[:2], other[2][:8]))


def by_loop(part: Attention, query: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
    """softmax(score) · v, one query after the other; scaled dot products."""
    rows = []
    for b in range(len(query)):
        for i in range(query.shape[1]):
            heads = []
            for h in range(part.heads):
                q = part.query(query[b, i]).view(part.heads, -1)[h]
                both = [part.key_value(memory[b, j]).view(part.heads, -1)[h] for j in range(memory.shape[1])]
                kv = [(x[: part.key_size], x[part.key_size :]) for x in both]
                powers = [
                    float(allowed[b, i, j]) * (q @ k / math.sqrt(len(q))).exp() for j, (k, _) in enumerate(kv)
                ]
                heads.append(sum(p * v for p, (_, v) in zip(powers, kv, strict=True)) / sum(powers))
            rows.append(part.out(torch.cat(heads)))
    return torch.stack(rows).view(len(query), query.shape[1], -1)


@given(
    heads=st.integers(1, 5),
    head_size=st.integers(1, 5),
    value_size=st.integers(1, 5),
    queries=st.integers(1, 3),
    keys=st.integers(1, 4),
)
def test_all_sizes_are_free(heads, head_size, value_size, queries, keys):
    """Any number of heads, any size of keys and of values, any number of queries and of keys."""
    sizes = {"heads": heads, "head_size": head_size, "value_size": value_size}
    part = Attention(7, 5, **sizes, mask=Mask(causal=True)).double()
    random_biases(part)
    query, memory = torch.randn(ROWS, queries, 7).double(), torch.randn(ROWS, keys, 5).double()
    allowed = torch.ones(ROWS, queries, keys, dtype=torch.bool).tril()
    found = part(query, AttentionContext(Places.run(0, queries)), part.keys(memory, Places.run(0, keys)))
    assert_close(found, by_loop(part, query, memory, allowed))


@pytest.mark.parametrize("projections", ["", "q", "k", "v", "o", "qk", "qv", "kv", "qkv", "qko", "qkvo"])
@pytest.mark.parametrize("score", SCORES.names())
def test_projections_are_free(projections, score):
    """Without a projection the vectors themselves are split into heads."""
    part = Attention(6, heads=2, projections=projections, score=score)
    x, places = torch.randn(ROWS, 4, 6), Places.run(0, 4)
    keys = part.keys(x, places)
    plain = x.view(ROWS, 4, 2, 3).transpose(1, 2)
    assert ("k" in projections) or torch.equal(keys.k, part.score.prepare_keys(plain))
    assert ("v" in projections) or torch.equal(keys.v, plain)
    context = part(x, AttentionContext(places), keys)
    assert context.shape == (ROWS, 4, part.out_size)
    assert isinstance(part.query, nn.Linear) == ("q" in projections)
    assert isinstance(part.out, nn.Linear) == ("o" in projections)


def test_luong_dot_needs_no_weights():
    """Luong et al. 2015: softmax(hᵀ h̄) over the source states themselves."""
    part = Attention(4, projections="", score="dot")
    query, memory = torch.randn(ROWS, 3, 4), torch.randn(ROWS, 5, 4)
    found = part(query, AttentionContext(Places.run(0, 3)), part.keys(memory, Places.run(0, 5)))
    assert not list(part.parameters())
    assert_close(found, (query @ memory.transpose(1, 2)).softmax(-1) @ memory)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("position", [*INSIDE, "none"])
@pytest.mark.parametrize("score", SCORES.names())
def test_fused_and_plain_agree(score, position, queries, padded):
    """The fused kernel is a faster way to the same outputs and gradients."""
    part = Attention(8, heads=2, value_size=3, score=score, position=position, mask=Mask(window=2)).double()
    query = torch.randn(ROWS, queries, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(ROWS, 5, 8, dtype=torch.float64)
    seen = torch.arange(5) < torch.tensor([[5], [2]]) if padded else None
    found = []
    for fused in (True, False):
        computing = part.bind()
        computing.fusible &= fused
        keys = computing.keys(memory, Places(torch.arange(5), seen, 0, 4))
        context = computing(query, AttentionContext(Places.run(1, queries)), keys)
        wanted = [query, *part.parameters()]
        found.append((context, *torch.autograd.grad(context.square().sum(), wanted, allow_unused=True)))
    assert_close(found[0], found[1])


@pytest.mark.parametrize("queries", [1, 3])
def test_dropout_works_on_the_weights(queries):
    """With one key, the output of a head is either zero or scaled."""
    part = Attention(16, heads=16, projections="", score="dot", dropout=0.5).train()
    memory = torch.randn(64, 1, 16)
    context = part(
        torch.randn(64, queries, 16),
        AttentionContext(Places.run(0, queries)),
        part.keys(memory, Places.run(0, 1)),
    )
    ratio = context / memory
    assert ((ratio == 0) | torch.isclose(ratio, torch.tensor(2.0))).all()
    assert 0.4 < float((ratio == 0).float().mean()) < 0.6
    part.eval()
    context = part(
        torch.randn(64, queries, 16),
        AttentionContext(Places.run(0, queries)),
        part.keys(memory, Places.run(0, 1)),
    )
    assert_close(context, memory.expand(-1, queries, -1))


def test_scaled_dot_product_attention_is_the_reference():
    part = Attention(8, heads=2)
    x, places = torch.randn(ROWS, 5, 8), Places.run(0, 5)
    keys = part.keys(x, places)
    q = part.query(x).view(ROWS, 5, 2, 4).transpose(1, 2)
    reference = F.scaled_dot_product_attention(q, keys.k, keys.v).transpose(1, 2).flatten(2)
    assert_close(part(x, AttentionContext(places), keys), part.out(reference))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, r"heads is 3, which does not divide size 8; try [24]"),
        ({"heads": -1}, r"heads is -1"),
        ({"projections": "qx"}, r"'qx'.*'x'.*q, k, v, o"),
        ({"score": "scaled"}, r"unknown score 'scaled'; did you mean 'scaled_dot'\?"),
        ({"position": "rotory"}, r"unknown position 'rotory'; did you mean 'rotary'\?"),
        ({"heads": 8, "position": "rotary"}, r"rotary.*1.*even"),
        ({"dropout": 1.0}, r"dropout is 1.0.*below 1"),
        ({"memory_size": 6, "projections": "", "score": "dot"}, r"query has 8 and a key 6.*bilinear"),
    ],
)
def test_what_does_not_fit_is_named(options, message):
    with pytest.raises(ConfigError, match=message):
        Attention(8, **options)


@pytest.mark.parametrize("mask", [Mask(), Mask(causal=True), Mask(causal=True, window=1)])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_shortcuts_for_masks_change_nothing(width, padded, mask):
    """Padding that is hidden once for all calls, and queries that see themselves: as if computed again."""
    groups = 2
    real = torch.tensor([[False, True], [True, True]]).repeat(1, width) if padded else None
    places = Places.run(0, 2, width=width).with_seen(real)
    old = places.own(groups, width)
    for queries in (places, Places.run(2, 1, width=width)):
        keys = old if queries is places else old.append(queries, groups, width)
        context = AttentionContext(queries, width)
        for _ in range(2):
            found = context.mask_bias(mask, keys, torch.float64)
            wanted = mask_bias(mask.allowed(queries, keys, width), torch.float64)
            for one, other in zip(found, wanted, strict=True):
                assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize("biased", ["query", "key_value"])
def test_one_bias_of_two_is_kept(biased):
    """Query, key and value of one product, as without gradients, are those of two."""
    attention = Attention(8, heads=2, bias=False).double().eval()
    part = getattr(attention, biased)
    part.bias = torch.nn.Parameter(torch.randn(part.out_features, dtype=torch.float64))
    x, places = torch.randn(1, 3, 8, dtype=torch.float64), Places.run(0, 3)
    apart = attention(x, AttentionContext(places), attention.keys(x, places))
    with torch.no_grad():
        q, keys = attention.bound().queries_and_keys(x, places)
        assert_close(attention.bound().attend(q, AttentionContext(places), keys), apart.detach())

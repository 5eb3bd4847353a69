"""A stack equals torch's Transformer with copied weights, and without positions it knows no order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from seqwright.errors import ConfigError
from seqwright.nn.attention import Attention
from seqwright.nn.blocks import Block, Stack
from seqwright.nn.feedforward import FEED_FORWARDS
from seqwright.nn.kv_cache import Append, Last
from seqwright.nn.masks import AttentionContext, Places
from seqwright.nn.pooling import masked_mean
from seqwright.nn.positions import POSITIONS

SIZE, HEADS, LAYERS = 8, 2, 2
OPTIONS = {"size": SIZE, "heads": HEADS, "layers": LAYERS, "hidden": 12, "position": "none"}
DOUBLE = {"dtype": torch.float64}


def by_head(weight: Tensor) -> list[Tensor]:
    """Rows that lie head by head, key and value in each, as those of all keys and those of all values."""
    return [part.flatten(0, 1) for part in weight.unflatten(0, (HEADS, 2, -1)).unbind(1)]


def copy_attention(twin: nn.MultiheadAttention, ours: Attention) -> None:
    twin.in_proj_weight.copy_(torch.cat([ours.query.weight, *by_head(ours.key_value.weight)]))
    twin.in_proj_bias.copy_(torch.cat([ours.query.bias, *by_head(ours.key_value.bias)]))
    twin.out_proj.load_state_dict(ours.out.state_dict())


def copy_block(twin: nn.Module, ours: Block) -> None:
    copy_attention(twin.self_attn, ours.attention)
    residuals = [ours.around_attention, ours.around_feed_forward]
    if ours.cross is not None:
        copy_attention(twin.multihead_attn, ours.cross)
        residuals.insert(1, ours.around_cross)
    for i, residual in enumerate(residuals):
        getattr(twin, f"norm{i + 1}").load_state_dict(residual.norm.state_dict())
    twin.linear1.load_state_dict(ours.feed_forward.rise.state_dict())
    twin.linear2.load_state_dict(ours.feed_forward.fall.state_dict())


def pair(order: str, activation: str, memory: bool) -> tuple[Stack, nn.Module]:
    """A stack with random norms and biases, and torch's with the same weights."""
    feed_forward = {"kind": "plain", "activation": activation}
    ours = (
        Stack(SIZE if memory else None, causal=memory, order=order, feed_forward=feed_forward, **OPTIONS)
        .double()
        .eval()
    )
    for parameter in ours.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    make_layer, make = (
        (nn.TransformerDecoderLayer, nn.TransformerDecoder)
        if memory
        else (nn.TransformerEncoderLayer, nn.TransformerEncoder)
    )
    layer = make_layer(
        SIZE, HEADS, 12, 0.0, activation, batch_first=True, norm_first=order == "pre", **DOUBLE
    )
    further = {} if memory else {"enable_nested_tensor": False}
    twin = make(layer, LAYERS, norm=nn.LayerNorm(SIZE, **DOUBLE) if order == "pre" else None, **further)
    with torch.no_grad():
        for one, other in zip(twin.layers, ours.blocks, strict=True):
            copy_block(one, other)
        if twin.norm is not None:
            twin.norm.load_state_dict(ours.norm.state_dict())
    return ours, twin  # torch's stays in training mode: its fast path of eval has no gradients


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["pre", "post"])
@given(length=st.integers(1, 6), padded=st.booleans())
def test_equals_torch_transformer_encoder(order, activation, length, padded):
    ours, twin = pair(order, activation, memory=False)
    x = torch.randn(2, length, SIZE, **DOUBLE, requires_grad=True)
    real = torch.arange(length) < torch.tensor([[length], [max(1, length - 2)]])
    found, _ = ours(x, Places(torch.arange(length), real if padded else None, 0, length - 1))
    expected = twin(x, src_key_padding_mask=~real if padded else None)
    _same(ours, twin, x, found, expected, real if padded else torch.ones_like(real))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["pre", "post"])
@given(length=st.integers(1, 6), source=st.integers(1, 5))
def test_equals_torch_transformer_decoder(order, activation, length, source):
    ours, twin = pair(order, activation, memory=True)
    x = torch.randn(2, length, SIZE, **DOUBLE, requires_grad=True)
    memory = torch.randn(2, source, SIZE, **DOUBLE)
    real = torch.arange(source) < torch.tensor([[source], [max(1, source - 2)]])
    places = Places.run(0, length)
    found, _ = ours(x, places, memory=ours.memory(memory, Places(torch.arange(source), real)))
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    expected = twin(x, memory, tgt_mask=future, memory_key_padding_mask=~real)
    _same(ours, twin, x, found, expected, torch.ones(2, length, dtype=torch.bool))


def _same(ours: Stack, twin: nn.Module, x: Tensor, found: Tensor, expected: Tensor, real: Tensor) -> None:
    """Outputs at real places, and gradients of the input and of weights from below and above."""
    assert_close(found[real], expected[real])
    direction = torch.randn_like(expected) * real[..., None]
    block, layer = ours.blocks[0], twin.layers[0]
    mine = (
        x,
        block.feed_forward.rise.weight,
        block.around_attention.norm.weight,
        ours.blocks[-1].attention.out.weight,
    )
    theirs = (x, layer.linear1.weight, layer.norm1.weight, twin.layers[-1].self_attn.out_proj.weight)
    one = torch.autograd.grad((found * direction).sum(), mine)
    assert_close(one, torch.autograd.grad((expected * direction).sum(), theirs))


@pytest.mark.parametrize("feed_forward", FEED_FORWARDS.names())
@given(order=st.permutations(range(5)))
def test_without_positions_the_order_is_unknown(feed_forward, order):
    """Permuted inputs give permuted outputs: a self-attention reads a set."""
    stack = Stack(**OPTIONS, feed_forward=feed_forward).double().eval()
    x, places = torch.randn(1, 5, SIZE, **DOUBLE), Places.run(0, 5)
    assert_close(stack(x[:, order], places)[0], stack(x, places)[0][:, order])


@pytest.mark.parametrize("position", [name for name in POSITIONS.names() if name != "none"])
def test_with_positions_the_order_is_known(position):
    stack = Stack(**{**OPTIONS, "position": position}).double().eval()
    x, places, order = torch.randn(1, 5, SIZE, **DOUBLE), Places.run(0, 5), [3, 0, 4, 1, 2]
    assert not torch.allclose(stack(x[:, order], places)[0], stack(x, places)[0][:, order], atol=1e-4)


@pytest.mark.parametrize("kind", FEED_FORWARDS.names())
def test_a_feed_forward_works_on_each_token_by_itself(kind):
    part = FEED_FORWARDS.build(kind, size=6, hidden=10)
    x = torch.randn(2, 3, 6)
    single = torch.stack([torch.stack([part(token) for token in row]) for row in x])
    assert_close(part(x), single)


def test_feed_forward_formulas():
    """Vaswani et al. 2017, eq. 2; Shazeer 2020, eq. 6 (SwiGLU)."""
    x = torch.randn(3, 4)
    plain = FEED_FORWARDS.build("plain", size=4, hidden=6)
    assert_close(plain(x), plain.fall((plain.rise.weight @ x.T).T.clamp(min=0)))  # biases are zero at first
    gated = FEED_FORWARDS.build("gated", size=4, hidden=6)
    gate, value = (x @ gated.rise.weight.T).split(6, -1)
    assert_close(gated(x), (gate * gate.sigmoid() * value) @ gated.fall.weight.T)


def test_heads_per_layer():
    stack = Stack(SIZE, size=SIZE, layers=2, heads=[1, 4], cross_heads=[2, 8], position="none").eval()
    assert [block.attention.heads for block in stack.blocks] == [1, 4]
    assert [block.cross.heads for block in stack.blocks] == [2, 8]
    x, places = torch.randn(1, 3, SIZE), Places.run(0, 3)
    assert stack(x, places, memory=stack.memory(x, places))[0].shape == (1, 3, SIZE)


@pytest.mark.parametrize("position", POSITIONS.names())
def test_a_layer_without_heads_is_a_layer_without_attention(position):
    """Without heads the attention outputs its bias."""
    options = {**OPTIONS, "position": position, "heads": [0, 2], "cross_heads": 0, "head_size": 4}
    stack = Stack(SIZE, True, **options).eval()
    assert [block.cross.heads for block in stack.blocks] == [0, 0]
    x, places = torch.randn(2, 3, SIZE), Places.run(0, 3)
    empty = stack.blocks[0].attention
    nn.init.normal_(empty.out.bias)
    assert torch.equal(
        empty(x, AttentionContext(places), empty.keys(x, places)), empty.out.bias.expand(2, 3, -1)
    )
    hidden, _ = stack(x, places, memory=stack.memory(x, places))
    assert hidden.isfinite().all()


def test_concatenated_positions_leave_the_rest_to_the_embedding():
    stack = Stack(**{**OPTIONS, "position": {"kind": "sinusoidal", "combine": "concat", "dimensions": 2}})
    assert stack.embedding_size == SIZE - 2
    assert stack(torch.randn(1, 3, SIZE - 2), Places.run(0, 3))[0].shape == (1, 3, SIZE)


def test_masked_mean_counts_what_is_real():
    hidden, real = torch.randn(2, 3, 4), torch.tensor([[True, True, False], [False, False, False]])
    mean = masked_mean(hidden, Places(torch.arange(3), real))
    assert_close(mean[0], hidden[0, :2].mean(0))
    assert not mean[1].any()


def test_a_list_of_heads_has_one_for_each_layer():
    with pytest.raises(ConfigError, match=r"heads = \[2, 2\] has 2 numbers for 3 layers"):
        Stack(size=8, layers=3, heads=[2, 2])


@pytest.mark.parametrize(
    ("window", "causal", "kind"), [(None, True, Append), (2, True, Last), (2, False, Append)]
)
def test_keys_grow_by_the_window_unless_told_otherwise(window, causal, kind):
    options = {"size": 8, "layers": 1, "heads": 2, "window": window, "causal": causal}
    assert type(Stack(**options).blocks[0].growth) is kind
    assert type(Stack(**options, growth="append").blocks[0].growth) is Append


def test_the_last_keys_need_a_window():
    with pytest.raises(ConfigError, match="growth last needs a window"):
        Stack(size=8, layers=1, heads=2, causal=True, growth="last")


@pytest.mark.parametrize("feed_forward", FEED_FORWARDS.names())
@pytest.mark.parametrize("memory_size", [None, 6])
def test_a_stack_that_starts_at_zero_is_the_identity(feed_forward, memory_size):
    options = {"heads": 2, "hidden": 8, "bias": False, "feed_forward": feed_forward, "position": "none"}
    stack = Stack(memory_size, causal=True, size=8, layers=3, zero_start=True, **options).eval()
    stack.norm = nn.Identity()
    x, places = torch.randn(2, 4, 8), Places.run(0, 4)
    memory = None if memory_size is None else stack.memory(torch.randn(2, 3, 6), Places.run(0, 3))
    assert torch.equal(stack(x, places, None, memory)[0], x)


def test_a_norm_of_the_embeddings_comes_before_the_first_block():
    torch.manual_seed(1)
    options = {"order": "post", "size": SIZE, "layers": 2, "heads": 1, "hidden": 8, "dropout": 0.0}
    normed = Stack(position={"kind": "learned", "length": 5}, embedding_norm=True, **options)
    plain = Stack(position="none", **options)
    plain.load_state_dict({k: v for k, v in normed.state_dict().items() if k.startswith("blocks")})
    x, places = torch.randn(2, 5, SIZE), Places.run(0, 5)
    embedded = nn.functional.layer_norm(x + normed.position.table, (SIZE,))
    assert_close(normed(x, places)[0], plain(embedded, places)[0])


def test_values_are_mixed_with_those_of_the_first_layer():
    """With a share of 1 nothing is mixed; with 0 every layer attends to the values of the first."""
    torch.manual_seed(1)
    plain = Stack(causal=True, size=8, layers=2, heads=2, hidden=8)
    mixed = Stack(causal=True, size=8, layers=2, heads=2, hidden=8, value_residual=True)
    mixed.load_state_dict(plain.state_dict(), strict=False)
    x, places = torch.randn(2, 4, 8), Places.run(0, 4)
    for stack in (plain, mixed):
        stack.eval()
    with torch.no_grad():
        mixed.blocks[1].share.fill_(1.0)
        torch.testing.assert_close(mixed(x, places)[0], plain(x, places)[0])
        mixed.blocks[1].share.fill_(0.0)
        (first, second) = mixed(x, places)[1]
        torch.testing.assert_close(second.v, first.v)
        assert not torch.allclose(mixed(x, places)[0], plain(x, places)[0])
    with pytest.raises(ConfigError, match="the same number of heads in each layer"):
        Stack(size=8, layers=2, heads=[1, 2], head_size=4, value_residual=True)

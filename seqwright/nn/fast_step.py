"""The fast path of decoding: the stack of a decoder for one new token of each row.

The equations are those of `seqwright.nn.blocks`. Without gradients, dropout, gates and recorders they are
computed here with as few operations as possible: at this size an operation costs more than its arithmetic.
Measurements: docs/decisions/0006-products-with-few-rows.md.

A short memory of a single source is multiplied with the projections of query and output once for all steps
(x: a query before its projection; s: a place of the memory; h: a head; f: the factor of the score):

    score_hs  = f (W_q x + b_q)_h · k_hs   = x · (f W_qhᵀ k_hs) + f b_qh · k_hs
    W_o c + b = Σ_h W_oh Σ_s w_hs v_hs + b = Σ_hs w_hs (W_oh v_hs + b / H),  as Σ_s w_hs = 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.nn.attention import BoundAttention, by_head, by_row
from seqwright.nn.inference_weights import FewRows, Function, bias_of
from seqwright.nn.kv_cache import LEAST, Append, CacheBuffer, Keys, Memory, Past, StackedCache
from seqwright.nn.masks import AttentionContext, MaskBias, Places
from seqwright.nn.positions import Rotary
from seqwright.nn.scores import EPSILON, Cosine, Score


class Layer:
    """The functions of one block."""

    def __init__(self, block: Any):
        own, cross = block.attention, block.cross
        self.norm: Function = block.around_attention.before
        self.joint, self.out = own.joint, own.out
        cosine = isinstance(own.score, Cosine)
        self.factor = own.score.scale.item() if cosine else own.score.factor
        if cross is not None:
            self.cross_norm: Function = block.around_cross.before
            self.cross_query, self.cross_out = cross.query, cross.out
        self.feed_norm: Function = block.around_feed_forward.before
        self.feed: Function = block.feed_forward
        parts = [part for part in (own, cross) if part is not None]
        self.homes = [(part.home, part.score, part.score.factor) for part in parts]

    @property
    def watched(self) -> bool:
        """Whether its attentions are recorded, gated or changed."""
        for home, score, factor in self.homes:
            if home.recorder is not None or home.gate is not None or score.factor != factor:
                return True
        return False


CrossAttention = Callable[[Layer, Tensor], Tensor]
"""The attention of a layer to its memory with its residual: hidden (G · W, D) -> (G · W, D)."""


class PreparedMemory(NamedTuple):
    """The attention of each layer to a memory, prepared for all steps. first: the memory's first keys."""

    first: Keys | None
    layers: Sequence[CrossAttention | None]


@dataclass(frozen=True)
class SeparateMemory:
    """Keys and values of a memory, (G, H, S, E), the bias of the mask, and the factor of the scores."""

    k: Tensor
    v: Tensor
    bias: Tensor | None
    factor: float

    def __call__(self, layer: Layer, hidden: Tensor) -> Tensor:
        groups, heads, _, size = self.k.shape
        rows = hidden.shape[0]
        x = layer.cross_query(layer.cross_norm(hidden))
        q = by_head(x, groups, rows // groups, heads, size)
        attended = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=self.bias, scale=self.factor)
        return torch.add(hidden, layer.cross_out(by_row(attended, rows)))


@dataclass(frozen=True)
class FoldedMemory:
    """A memory times the projections: scores = x · keys + bias, output = weights · values."""

    keys: Tensor  # (D, H · S)
    bias: Tensor  # (H · S)
    values: Tensor  # (H · S, D)
    heads: int

    def __call__(self, layer: Layer, hidden: Tensor) -> Tensor:
        rows = hidden.shape[0]
        scores = torch.addmm(self.bias, layer.cross_norm(hidden), self.keys)
        weights = scores.view(rows, self.heads, -1).softmax(-1).view(rows, -1)
        return torch.addmm(hidden, weights, self.values)


class FastStep:
    """The blocks of a stack, all of one shape, for one token of each row."""

    def __init__(self, blocks: Sequence[Any]):
        self.layers = [Layer(block) for block in blocks]
        self.own: BoundAttention = blocks[0].attention
        self.crosses: list[BoundAttention] = [block.cross for block in blocks if block.cross is not None]
        self.sizes = (self.own.key_size, self.own.value_size)
        self.joint_sizes = (self.own.query_size, self.own.pair_size)
        self.heads, self.normalises = self.own.heads, isinstance(self.own.score, Cosine)
        self.rotary = self.own.position if self.own.inside else None

    def suits(self, hidden: Tensor, context: AttentionContext, memory: Memory) -> bool:
        """Whether this call has one token for each row, hidden (G, W, D), and nothing is recorded."""
        groups, count, _ = hidden.shape
        new = context.queries
        if not groups or count != context.width or not self.own.fuses(groups, count):
            return False
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return False
        if new.seen is not None or bool(self.crosses) != (memory is not None):
            return False
        if memory is not None and self._memory_bias(context, memory, hidden.dtype).blind is not None:
            return False
        return not any(layer.watched for layer in self.layers)

    def __call__(
        self, hidden: Tensor, context: AttentionContext, past: Past | None, memory: Memory
    ) -> tuple[Tensor, StackedCache]:
        """hidden (G, W, D) -> (G, W, D), and the keys of all blocks."""
        groups, width, size = hidden.shape
        rows, joint_size = groups * width, sum(self.joint_sizes)
        cache = self._cache_of(hidden, context, past)
        prepared, first = cache.prepared, None if memory is None else memory[0]
        if prepared is None or prepared.first is not first:
            prepared = PreparedMemory(first, self._across(memory, context, hidden.dtype))
        places = cache.places.append(context.queries, groups, width)
        buffer, end = cache.grown(width), cache.length + width
        buffer.filled = end
        slots = buffer.data.narrow(3, cache.length, width).unbind()
        keys, values = buffer.data.narrow(3, 0, end).split_with_sizes(self.sizes, -1)
        bias, _ = context.mask_bias(self.own.mask, places, hidden.dtype)  # each token sees itself
        hidden = hidden.reshape(rows, size)
        turns = None if self.rotary is None else self.rotary.turns(context.queries, hidden)
        if turns is not None:  # all new tokens are at one place or, after a join, each at its own
            turns = turns if turns.dim() == 2 else turns.reshape(rows, 1, -1)
            turns = torch.cat([turns, turns], -1)  # a query and its key turn together
        each = zip(self.layers, slots, keys.unbind(), values.unbind(), prepared.layers, strict=True)
        for layer, slot, k, v, across in each:
            joint = layer.joint(layer.norm(hidden))
            if self.normalises:
                both = joint.view(rows, self.heads, -1).narrow(-1, 0, 2 * self.sizes[0])
                both = both.unflatten(-1, (2, -1))
                both.div_(torch.linalg.vector_norm(both, dim=-1, keepdim=True).clamp_min_(EPSILON))
            if turns is not None:
                pairs = torch.view_as_complex(joint.view(rows, self.heads, -1, 2))
                pairs.narrow(-1, 0, turns.shape[-1]).mul_(turns)
            joint = by_head(joint, groups, width, self.heads, joint_size)
            q, both = joint.split_with_sizes(self.joint_sizes, -1)
            slot.copy_(both)
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=layer.factor)
            hidden = torch.add(hidden, layer.out(by_row(attended, rows)))
            if across is not None:
                hidden = across(layer, hidden)
            hidden = torch.add(hidden, layer.feed(layer.feed_norm(hidden)))
        return hidden.view(groups, width, size), StackedCache(buffer, end, self.sizes, places, prepared)

    def _cache_of(self, hidden: Tensor, context: AttentionContext, past: Past | None) -> StackedCache:
        if isinstance(past, StackedCache):
            return past
        if past is not None and past[0] is not None:
            return StackedCache.of(past)  # type: ignore[arg-type]
        shape = (len(self.layers), hidden.shape[0], self.heads, LEAST, sum(self.sizes))
        nowhere = Places.run(context.queries.first or 0, 0, device=hidden.device)
        return StackedCache(CacheBuffer(hidden.new_empty(shape), 0), 0, self.sizes, nowhere)

    def _across(
        self, memory: Memory, context: AttentionContext, dtype: torch.dtype
    ) -> Sequence[CrossAttention | None]:
        if memory is None:
            return [None] * len(self.layers)
        bias, _ = self._memory_bias(context, memory, dtype)
        first, cross = memory[0], self.crosses[0]
        # with more places than a head has dimensions, a folded memory would cost more than the projections
        if first.groups == 1 and 0 < first.count <= cross.query_size:
            return self.folding(memory, bias)
        return [SeparateMemory(*keys.pair, bias, cross.score.factor) for keys in memory]

    def _memory_bias(self, context: AttentionContext, memory: Sequence[Keys], dtype: torch.dtype) -> MaskBias:
        return context.mask_bias(self.crosses[0].mask, memory[0].places, dtype)

    @cached_property
    def folding(self) -> Folding:
        return Folding(self.crosses)


class Folding:
    """The projections of query and output of all blocks, arranged to be multiplied with a memory."""

    def __init__(self, attentions: Sequence[Any]):
        self.heads, self.size = attentions[0].heads, attentions[0].query.inputs
        queries, outs = [], []
        for attention in attentions:
            query, out = attention.query, attention.out
            both = torch.cat([query.weight, bias_of(query)[:, None]], 1) * attention.score.factor
            queries.append(both.view(self.heads, attention.query_size, self.size + 1))
            outs.append(out.weight.t().reshape(self.heads, attention.value_size, self.size))
        self.queries, self.outs = torch.cat(queries), torch.cat(outs)  # (L · H, E, D + 1), (L · H, E, D)
        shares = torch.stack([bias_of(attention.out) for attention in attentions]) / self.heads
        self.shares = shares.repeat_interleave(self.heads, 0)[:, None]  # (L · H, 1, D)

    def __call__(self, memory: Sequence[Keys], bias: Tensor | None) -> list[FoldedMemory]:
        """memory: the keys of each block, for one group. bias (1, 1, 1, S)."""
        layers, count = len(memory), memory[0].count
        both = torch.cat([keys.both.squeeze(0) for keys in memory])  # (L · H, S, E + value size)
        k, v = both.split_with_sizes(memory[0].sizes, -1)
        scored = torch.bmm(k, self.queries).view(layers, self.heads * count, self.size + 1)
        values = torch.baddbmm(self.shares, v, self.outs).view(layers, -1, self.size)
        keys, offset = scored.transpose(1, 2).contiguous().split_with_sizes((self.size, 1), 1)
        offset = offset.squeeze(1)  # (L, H · S)
        if bias is not None:
            offset = offset + bias.view(1, count).repeat(1, self.heads)
        each = zip(keys.unbind(), offset.unbind(), values.unbind(), strict=True)
        return [FoldedMemory(*parts, self.heads) for parts in each]


def fast_step(home: nn.Module, blocks: Sequence[Any]) -> FastStep | None:
    """Return the fast path for the bound blocks of a stack; None where it does not apply, as with hooks."""
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in home.modules())
    suitable = not hooked and all(map(_plain, blocks)) and len({_shape(block) for block in blocks}) == 1
    return FastStep(blocks) if suitable else None


def _plain(block: Any) -> bool:
    """Whether the fast path covers a block: pre-norm, no dropout, all keys kept, dot-product attentions with
    all projections (self-attention also by the cosine), at most rotary positions inside, and no mask on the
    memory.
    """
    residuals = [block.around_attention, block.around_cross, block.around_feed_forward]
    attentions = [block.attention] if block.cross is None else [block.attention, block.cross]
    prepared = attentions[1:] if isinstance(getattr(block.attention, "score", None), Cosine) else attentions
    return (
        type(block.growth) is Append
        and block.share is None
        and all(part is None or part.after is torch.add for part in residuals)
        and all(isinstance(part, BoundAttention) and part.fusible for part in attentions)
        and all(not part.inside or _turns_pairs(part) for part in attentions)
        and all(type(part.score).prepare is Score.prepare and not part.prepares_keys for part in prepared)
        and all(isinstance(p, FewRows) for part in attentions for p in (part.query, part.key_value, part.out))
        and block.attention.joint is not None
        and (block.cross is None or block.cross.mask.open)
    )


def _turns_pairs(part: BoundAttention) -> bool:
    """Whether the position is rotary and a query, its key and its value consist of whole pairs."""
    return type(part.position) is Rotary and part.query_size == part.key_size and part.value_size % 2 == 0


def _shape(block: Any) -> tuple[Any, ...]:
    """The properties that all blocks must share to use one buffer, one mask and one rotation."""
    sizes = ("mask", "heads", "query_size", "key_size", "value_size", "inside")
    return tuple(
        (*(getattr(part, name) for name in sizes), part.score.factor, getattr(part.position, "base", None))
        for part in (block.attention, block.cross)
        if part is not None
    )

"""One token further: the stack of a decoder as it runs most often, for one token of each row.

The equations are those of `seqwright.nn.blocks`. Where nothing is learned, dropped, switched off or looked
at, they are computed here with as few operations as can be: at this size each costs more than its arithmetic.
What that gives is in docs/decisions/0006-products-with-few-rows.md.

A memory that is short, and one sentence's alone, is multiplied out with the projections of query and output,
once for all steps (x: a query before its projection; s: a place of the memory; h: a head; f: the factor of
the score):

    score_hs  = f (W_q x + b_q)_h · k_hs   = x · (f W_qhᵀ k_hs) + f b_qh · k_hs
    W_o c + b = Σ_h W_oh Σ_s w_hs v_hs + b = Σ_hs w_hs (W_oh v_hs + b / H),  as Σ_s w_hs = 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from seqwright.nn.attention import BoundAttention, by_head
from seqwright.nn.bound import FewRows, Function
from seqwright.nn.growth import LEAST, Append, Keys, Past, Room, Shelf
from seqwright.nn.masks import Sight, Veil
from seqwright.nn.scores import Score

_attend: Any = torch._C._nn.scaled_dot_product_attention  # what torch.nn.functional has


class Layer:
    """What one block computes with."""

    def __init__(self, block: Any):
        own, cross = block.attention, block.cross
        self.norm: Function = block.around_attention.before
        self.joint, self.out = own.joint, own.out
        if cross is not None:
            self.cross_norm: Function = block.around_cross.before
            self.cross_query, self.cross_out = cross.query, cross.out
        self.feed_norm: Function = block.around_feed_forward.before
        self.feed: Function = block.feed_forward
        self.homes = [part.home for part in (own, cross) if part is not None]

    @property
    def watched(self) -> bool:
        return any(home.recorder is not None or home.gate is not None for home in self.homes)


Across = Callable[[Layer, Tensor], Tensor]
"""The attention of a layer to its memory: hidden (G · W, D) -> the same, with what was seen added."""


@dataclass(frozen=True)
class Apart:
    """Keys and values of a memory, (G, H, S, E). bias: what the scores get added; factor: of the scores."""

    k: Tensor
    v: Tensor
    bias: Tensor | None
    factor: float

    def __call__(self, layer: Layer, hidden: Tensor) -> Tensor:
        groups, heads, _, size = self.k.shape
        x = layer.cross_query(layer.cross_norm(hidden))
        q = by_head(x, groups, x.shape[0] // groups, heads, size)
        context = _attend(q, self.k, self.v, self.bias, 0.0, False, scale=self.factor)
        return layer.cross_out(_by_row(context)).add_(hidden)


@dataclass(frozen=True)
class Folded:
    """A memory that is multiplied out: scores = x · keys + bias, what is seen = weights · values."""

    keys: Tensor  # (D, H · S)
    bias: Tensor  # (H · S)
    values: Tensor  # (H · S, D)
    heads: int

    def __call__(self, layer: Layer, hidden: Tensor) -> Tensor:
        rows = hidden.shape[0]
        scores = torch.addmm(self.bias, layer.cross_norm(hidden), self.keys)
        weights = scores.view(rows, self.heads, -1).softmax(-1).view(rows, -1)
        return torch.addmm(hidden, weights, self.values)


class Onward:
    """The blocks of a stack, all alike, for one token of each row."""

    def __init__(self, blocks: Sequence[Any]):
        self.layers = [Layer(block) for block in blocks]
        self.own: BoundAttention = blocks[0].attention
        self.crosses: list[BoundAttention] = [block.cross for block in blocks if block.cross is not None]
        self.sizes = (self.own.key_size, self.own.value_size)
        self.cuts = (self.own.query_size, self.own.pair_size)
        self.heads, self.size, self.factor = self.own.heads, sum(self.cuts), self.own.score.factor

    def suits(self, hidden: Tensor, sight: Sight, memory: Sequence[Keys] | None) -> bool:
        """Whether this call is one for one token of each row, hidden (G, W, D), that nobody watches."""
        groups, count, _ = hidden.shape
        new = sight.queries
        if count != sight.width or not self.own.fuses(groups, count) or torch.is_grad_enabled():
            return False
        if new.seen is not None or new.by_group or bool(self.crosses) != (memory is not None):
            return False
        if memory is not None and self._veil(sight, memory, hidden.dtype).blind is not None:
            return False
        return not any(layer.watched for layer in self.layers)

    def __call__(
        self, hidden: Tensor, sight: Sight, past: Past | None, memory: Sequence[Keys] | None
    ) -> tuple[Tensor, Shelf]:
        """hidden (G, W, D) -> the same, and the keys of all blocks."""
        groups, width, size = hidden.shape
        shelf, new = self._shelf(hidden, past), sight.queries
        across = shelf.across or self._across(memory, sight, hidden.dtype)
        old, room, end = shelf.places, shelf.grown(width), shelf.count + width
        places = new.own(groups, width) if old is None else old.append(new, groups, width)
        free = room.buffer.narrow(3, shelf.count, width).unbind()
        keys, values = room.buffer.narrow(3, 0, end).split_with_sizes(self.sizes, -1)
        bias, _ = sight.veil(self.own.mask, places, hidden.dtype)  # each sees itself: nobody is blind
        hidden = hidden.reshape(-1, size)
        for layer, place, k, v, look in zip(
            self.layers, free, keys.unbind(), values.unbind(), across, strict=True
        ):
            split = by_head(layer.joint(layer.norm(hidden)), groups, width, self.heads, self.size)
            q, both = split.split_with_sizes(self.cuts, -1)
            place.copy_(both)
            context = _attend(q, k, v, bias, 0.0, False, scale=self.factor)
            hidden = layer.out(_by_row(context)).add_(hidden)
            if look is not None:
                hidden = look(layer, hidden)
            hidden = layer.feed(layer.feed_norm(hidden)).add_(hidden)
        room.filled = end
        return hidden.view(groups, width, size), Shelf(room, end, self.sizes, places, across)

    def _shelf(self, hidden: Tensor, past: Past | None) -> Shelf:
        if isinstance(past, Shelf):
            return past
        if past is not None:
            return Shelf.of(past)  # type: ignore[arg-type]
        shape = (len(self.layers), hidden.shape[0], self.heads, LEAST, sum(self.sizes))
        return Shelf(Room(hidden.new_empty(shape), 0), 0, self.sizes, None)

    def _across(
        self, memory: Sequence[Keys] | None, sight: Sight, dtype: torch.dtype
    ) -> Sequence[Across | None]:
        """What the blocks look at beside their past. To multiply out a memory that has more places by heads
        than the model is wide would be more work at every step than the projections are.
        """
        if memory is None:
            return [None] * len(self.layers)
        bias, _ = self._veil(sight, memory, dtype)
        first, cross = memory[0], self.crosses[0]
        if first.groups == 1 and cross.heads * first.count <= self.folding.size:
            return self.folding(memory, bias)
        return [Apart(*keys.pair, bias, cross.score.factor) for keys in memory]

    def _veil(self, sight: Sight, memory: Sequence[Keys], dtype: torch.dtype) -> Veil:
        return sight.veil(self.crosses[0].mask, memory[0].places, dtype)

    @cached_property
    def folding(self) -> Folding:
        return Folding(self.crosses)


class Folding:
    """The projections of query and output of all blocks, as a memory is multiplied out with them."""

    def __init__(self, attentions: Sequence[Any]):
        self.heads, self.size = attentions[0].heads, attentions[0].query.inputs
        queries, outs = [], []
        for attention in attentions:
            query, out = attention.query, attention.out
            both = torch.cat([query.weight, _bias(query)[:, None]], 1) * attention.score.factor
            queries.append(both.view(self.heads, attention.query_size, self.size + 1))
            outs.append(out.weight.t().reshape(self.heads, attention.value_size, self.size))
        self.queries, self.outs = torch.cat(queries), torch.cat(outs)  # (L · H, E, D + 1), (L · H, E, D)
        shares = torch.stack([_bias(attention.out) for attention in attentions]) / self.heads
        self.shares = shares.repeat_interleave(self.heads, 0)[:, None]  # (L · H, 1, D)

    def __call__(self, memory: Sequence[Keys], bias: Tensor | None) -> list[Folded]:
        """memory: of each block, for one group. bias (1, 1, 1, S)."""
        layers, count = len(memory), memory[0].count
        both = torch.cat([keys.both.squeeze(0) for keys in memory])  # (L · H, S, E + value size)
        k, v = both.split_with_sizes(memory[0].sizes, -1)
        into = torch.bmm(k, self.queries).view(layers, self.heads * count, self.size + 1)
        values = torch.baddbmm(self.shares, v, self.outs).view(layers, -1, self.size)
        keys, start = into.transpose(1, 2).contiguous().split_with_sizes((self.size, 1), 1)
        start = start.squeeze(1)  # (L, H · S)
        if bias is not None:
            start = start + bias.view(1, count).repeat(1, self.heads)
        each = zip(keys.unbind(), start.unbind(), values.unbind(), strict=True)
        return [Folded(*parts, self.heads) for parts in each]


def onward(blocks: Sequence[Any]) -> Onward | None:
    """The quick way for these bound blocks, if there is one."""
    if blocks and all(map(_plain, blocks)) and len({_shape(block) for block in blocks}) == 1:
        return Onward(blocks)
    return None


def _plain(block: Any) -> bool:
    """Whether a block is one of those that are meant here: pre-norm, without dropout, all keys kept, and
    attentions by scaled products with all projections and no position inside.
    """
    residuals = [block.around_attention, block.around_cross, block.around_feed_forward]
    return (
        type(block.growth) is Append
        and block.attention.joint is not None
        and all(part is None or part.after is torch.add for part in residuals)
        and all(part is None or _products(part) for part in (block.attention, block.cross))
    )


def _products(attention: Any) -> bool:
    return (
        isinstance(attention, BoundAttention)
        and attention.fusible
        and not attention.inside
        and type(attention.score).prepare is Score.prepare
        and all(isinstance(part, FewRows) for part in (attention.query, attention.key_value, attention.out))
    )


def _shape(block: Any) -> tuple[Any, ...]:
    """What must be the same in all blocks, so that they can share buffers and what a call may see."""
    return tuple(
        (part.mask, part.heads, part.query_size, part.key_size, part.value_size, part.score.factor)
        for part in (block.attention, block.cross)
        if part is not None
    )


def _by_row(context: Tensor) -> Tensor:
    """(G, H, W, E) -> (G · W, H · E)."""
    groups, heads, width, size = context.shape
    turned = context if width == 1 else context.transpose(1, 2)
    return turned.reshape(groups * width, heads * size)


def _bias(linear: FewRows) -> Tensor:
    return linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias

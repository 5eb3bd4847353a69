"""The KV cache: keys and values, and how they grow while a decoder runs. One class for each way to grow.

Buffers have free places, so that a step writes one place and copies nothing. Old keys stay valid: the second
of two calls that continue from the same past gets a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count, Registry, Whole
from seqwright.errors import ConfigError
from seqwright.nn.masks import AttentionContext, Places, take

if TYPE_CHECKING:
    from seqwright.nn.positions import Position

GROWTHS = Registry("growth", "seqwright.nn.kv_cache", "seqwright.nn.kv_cache:Growth")
LEAST = 32  # places of a buffer
EMPTY = Places.run(0, 0)
Sizes = tuple[int, int]  # of a key and of a value


class CacheBuffer:
    """Keys and their values, `data` (…, H, C, E + value size), with free places behind the `filled` ones."""

    __slots__ = ("data", "filled")

    def __init__(self, data: Tensor, filled: int):
        self.data, self.filled = data, filled

    def can_take(self, start: int, end: int) -> bool:
        """Whether places start … end − 1 exist, are free, and are writable in this mode of torch."""
        writable = torch.is_inference_mode_enabled() or not self.data.is_inference()
        return self.filled == start and end <= self.data.shape[-2] and writable


class Keys:
    """Keys k (G, H, K, E), values v (G, H, K, value size), and their places. Immutable.

    both: each key and its value side by side (G, H, K, E + value size); `sizes` are E and value size. pair:
    k and v apart. Each is made from the other on demand.
    """

    __slots__ = ("_both", "_pair", "buffer", "count", "groups", "places", "sizes")

    def __init__(
        self,
        both: Tensor | None,
        sizes: Sizes,
        places: Places,
        buffer: CacheBuffer | None = None,
        pair: tuple[Tensor, Tensor] | None = None,
    ):
        self._both, self.sizes, self.places, self.buffer, self._pair = both, sizes, places, buffer, pair
        some = both if pair is None else pair[0]
        assert some is not None  # one of the two is given
        self.groups, _, self.count, _ = some.shape

    @classmethod
    def of(cls, k: Tensor, v: Tensor, places: Places) -> Keys:
        return cls(None, (k.shape[-1], v.shape[-1]), places, pair=(k, v))

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        if self._pair is None:
            k, v = self.both.split_with_sizes(self.sizes, -1)
            self._pair = k, v
        return self._pair

    @property
    def both(self) -> Tensor:
        if self._both is None:
            self._both = torch.cat(self.pair, -1)
        return self._both

    @property
    def k(self) -> Tensor:
        return self.pair[0]

    @property
    def v(self) -> Tensor:
        return self.pair[1]

    def at(self, places: Places) -> Keys:
        """The same keys at other places."""
        return Keys(self._both, self.sizes, places, self.buffer, self._pair)

    def select(self, groups: Sequence[int] | None, places: Places) -> Keys:
        """The keys of other groups, at `places`; groups None: all, as they are."""
        if groups is None:
            return self if places is self.places else self.at(places)
        return Keys(take(self.both, groups), self.sizes, places)


class StackedCache(Sequence[Keys]):
    """The keys of layers of one shape in one buffer (L, G, H, C, E + value size), and the attention to their
    memory as the fast step `prepared` it for its next call. Immutable.
    """

    __slots__ = ("buffer", "length", "places", "prepared", "sizes")

    def __init__(self, buffer: CacheBuffer, length: int, sizes: Sizes, places: Places, prepared: Any = None):
        self.buffer, self.length, self.sizes = buffer, length, sizes
        self.places, self.prepared = places, prepared

    @classmethod
    def of(cls, layers: Sequence[Keys]) -> StackedCache:
        """Stack keys of the same places."""
        first = layers[0]
        buffer = _enlarged(torch.stack([keys.both for keys in layers]), _room(first.count))
        return cls(CacheBuffer(buffer, first.count), first.count, first.sizes, first.places)

    def __len__(self) -> int:
        return self.buffer.data.shape[0]

    def __getitem__(self, layer: Any) -> Any:
        if isinstance(layer, slice):
            return [self[number] for number in range(len(self))[layer]]
        return Keys(self.buffer.data[layer].narrow(2, 0, self.length), self.sizes, self.places)

    def grown(self, count: int) -> CacheBuffer:
        """Return a buffer with `count` free places behind these keys."""
        end = self.length + count
        if self.buffer.can_take(self.length, end):
            return self.buffer
        return CacheBuffer(_enlarged(self.buffer.data.narrow(3, 0, self.length), _room(end)), self.length)

    def select(self, groups: Sequence[int] | None, rows: Sequence[int], width: int) -> StackedCache:
        places = self.places.select(groups, rows, width)
        if groups is None:
            return StackedCache(self.buffer, self.length, self.sizes, places, self.prepared)
        data, length = self.buffer.data, self.length
        index = torch.tensor(groups, dtype=torch.long, device=data.device)
        taken = self._empty(len(groups), length)
        torch.index_select(data.narrow(3, 0, length), 1, index, out=taken.narrow(3, 0, length))
        return StackedCache(CacheBuffer(taken, length), length, self.sizes, places)

    def _empty(self, groups: int, length: int) -> Tensor:
        """A buffer for `length` places of other groups, with free ones behind them."""
        layers, _, heads, _, size = self.buffer.data.shape
        return self.buffer.data.new_empty(layers, groups, heads, _room(length), size)

    def join(self, parts: Sequence[StackedCache | None], groups: Sequence[int], width: int) -> StackedCache:
        """The keys of several states, each of so many groups, in one buffer; this is one of them."""
        places = Places.join([part.places if part else EMPTY for part in parts], groups, width)
        data, begin = self._empty(sum(groups), places.count), 0
        for part, own in zip(parts, groups, strict=True):
            found = None if part is None else part.buffer.data.narrow(3, 0, part.length)
            lay_last(found, data.narrow(1, begin, own).narrow(3, 0, places.count))
            begin += own
        return StackedCache(CacheBuffer(data, places.count), places.count, self.sizes, places)


Past = Sequence[Keys | None]  # the keys of each layer; None before the first token
Memory = Sequence[Keys] | None  # the keys of the source for each layer


def select_keys(layers: Past, groups: Sequence[int] | None, rows: Sequence[int], width: int) -> Past:
    """The keys of several layers for other rows. Layers that shared their places still do."""
    if isinstance(layers, StackedCache):
        return layers.select(groups, rows, width)
    moved: dict[int, Places] = {}
    for keys in layers:
        if keys is not None and id(keys.places) not in moved:
            moved[id(keys.places)] = keys.places.select(groups, rows, width)
    return tuple(keys and keys.select(groups, moved[id(keys.places)]) for keys in layers)


def join_keys(
    parts: Sequence[Past | None], groups: Sequence[int], width: int, *, by_place: bool = False
) -> Any:
    """The keys of several layers for the rows of several states, each of so many groups of `width` rows.

    They are of the kind of the first state that has the most layers; None if no state has any.
    States with fewer keys get hidden ones, one without keys, before its first token, or without a layer, only
    such: see `Places.join` and, for `by_place`, `Growth`. Layers that shared their places still do.
    """
    having = [part for part in parts if part is not None and part[0] is not None]
    known = max(having, key=len, default=None)
    if known is None:
        return None
    if isinstance(known, StackedCache) and all(
        part is None or isinstance(part, StackedCache) for part in parts
    ):
        return known.join(parts, groups, width)  # type: ignore[arg-type]
    joined: dict[tuple[int, ...], Places] = {}
    layers = []
    for number, shape in enumerate(known):
        assert shape is not None  # a state has the keys of all layers, or none
        keys = [_layer(part, number, shape, own) for part, own in zip(parts, groups, strict=True)]
        longest = max(keys, key=lambda each: each.count)
        if by_place:
            padded = [F.pad(each.both, (0, 0, 0, longest.count - each.count)) for each in keys]
            layers.append(Keys(torch.cat(padded), shape.sizes, longest.places))
            continue
        among = tuple(id(each.places) for each in keys)
        if among not in joined:
            joined[among] = Places.join([each.places for each in keys], groups, width)
        places = joined[among]
        _, heads, _, size = shape.both.shape
        both, begin = shape.both.new_empty(sum(groups), heads, places.count, size), 0
        for each in keys:
            lay_last(each.both, both.narrow(0, begin, each.groups))
            begin += each.groups
        layers.append(Keys(both, shape.sizes, places))
    return tuple(layers)


def lay_last(x: Tensor | None, into: Tensor) -> None:
    """Copy the last places of x (…, K, E) to the last ones of `into`, and zeros in front of them."""
    count = into.shape[-2]
    kept = 0 if x is None else min(x.shape[-2], count)
    into.narrow(-2, 0, count - kept).zero_()  # hidden, but NaN · 0 is NaN
    if x is not None:
        into.narrow(-2, count - kept, kept).copy_(x.narrow(-2, x.shape[-2] - kept, kept))


def _layer(part: Past | None, number: int, shape: Keys, groups: int) -> Keys:
    """The keys of a layer; of a state without keys none, in the shape of another state's."""
    found = None if part is None or number >= len(part) else part[number]
    if found is not None:
        return found
    _, heads, _, size = shape.both.shape
    return Keys(shape.both.new_empty(groups, heads, 0, size), shape.sizes, EMPTY)


class Growth(nn.Module):
    """Base: how the keys of an attention grow from call to call. Keys that exist are never changed.

    causal: it makes sense only where the future is hidden. shared: rows of a group, such as the hypotheses of
    a beam, can share their keys. windowed: its keys stand for one place each, so that a window can hide them.
    by_place: where a key is kept follows from its position, so that states that have read more or fewer
    tokens are laid together by their first keys, otherwise by their last ones.
    """

    causal, shared, windowed, by_place = True, True, True, False

    def forward(
        self, past: Keys | None, new: Keys, context: AttentionContext, position: Position | None = None
    ) -> Keys:
        """Return the keys that the queries of this call attend to: the past and the new ones.

        position: it is encoded in the keys.
        """
        raise NotImplementedError

    def keep(self, keys: Keys, context: AttentionContext) -> Keys:
        """Return the keys that the next call needs."""
        return keys


class Append(Growth):
    """Every key is kept: the KV cache."""

    def forward(
        self, past: Keys | None, new: Keys, context: AttentionContext, position: Position | None = None
    ) -> Keys:
        width = context.width
        if past is None:
            return new.at(context.once("own", new.places, lambda: new.places.own(new.groups, width)))
        old = past.places
        places = context.once("append", old, lambda: old.append(new.places, new.groups, width))
        if torch.is_grad_enabled():  # buffers are written in place, which autograd does not allow
            return Keys(torch.cat([past.both, new.both], 2), new.sizes, places)
        start, end, buffer = past.count, past.count + new.count, past.buffer
        if buffer is None or not buffer.can_take(start, end):
            buffer = CacheBuffer(_enlarged(past.both, _room(end)), start)
        buffer.data.narrow(2, start, new.count).copy_(new.both)
        buffer.filled = end
        return Keys(buffer.data.narrow(2, 0, end), new.sizes, places, buffer)


class Last(Append):
    """The last `window` positions are kept, and the global ones: enough for an attention to neighbours."""

    def __init__(self, *, window: Whole | None = None, global_tokens: Whole = 0):
        super().__init__()
        if window is None:
            raise ConfigError("growth last needs a window; set window, or growth = append")
        self.window, self.global_tokens = window, global_tokens

    def keep(self, keys: Keys, context: AttentionContext) -> Keys:
        """Cut at twice the window, so that the cost of a step is bounded."""
        places = keys.places
        if places.count <= (2 * self.window + self.global_tokens) * context.width:
            return keys
        cut = context.once(
            ("last", self.window), places, lambda: self._cut(places, keys.groups, context.width)
        )
        groups, heads, _, size = keys.both.shape
        index = cut.kept[:, None, :, None].expand(groups, heads, -1, size)
        return Keys(keys.both.gather(2, index), keys.sizes, cut.places)

    def _cut(self, places: Places, groups: int, width: int) -> Cut:
        """Keep the keys that a row of a group needs; a group that needs fewer gets hidden ones in front."""
        alike = places.seen is None and not places.by_group
        pos = places.pos.expand(1 if alike else groups, -1)
        seen = places.seen_by(len(pos), width)
        last = pos[:, None].where(seen, -1).amax(-1, keepdim=True)  # of each row, (G, width, 1)
        near = (pos[:, None] > last - self.window) | (pos[:, None] < self.global_tokens)
        kept = (seen & near).any(1)
        order = kept.sort(dim=-1, stable=True)
        index = order.indices[:, places.count - int(order.values.any(0).sum()) :]
        pos = pos.gather(1, index)
        if alike:
            # the first one passes over the global ones: it tells whether a query is too far from a key
            end = int(last.max())
            return Cut(index, Places(pos[0], None, end - self.window + 1, end))
        seen = (seen & kept[:, None]).gather(2, index[:, None].expand(-1, width, -1))
        return Cut(index, Places(pos, seen if width > 1 else seen[:, 0]))


class Cut(NamedTuple):
    """The keys that are kept in each group, or in every one alike: their numbers (G or 1, n)."""

    kept: Tensor
    places: Places


class Compressed(Growth):
    """Memory-compressed attention (Liu et al. 2018, 4.2.4): a strided convolution makes one key and one value
    of `stride` consecutive ones, c_j = Σ_o W_o k_(j · stride + o), with the same W for all heads.

    A query sees the blocks that end at its place or before, and a key of zeros, so that the first queries see
    something. A block starts as the mean of its keys. Blocks are sums, which grow as tokens come: any pieces
    of a text give the same keys.
    """

    causal = shared = windowed = False
    by_place = True

    def __init__(self, *, key_size: int, value_size: int, stride: Count = 3):
        super().__init__()
        self.stride = stride
        self.key_maps, self.value_maps = (
            nn.Parameter(torch.eye(size).repeat(stride, 1) / stride) for size in (key_size, value_size)
        )  # (stride · E, E)

    def forward(
        self, past: Keys | None, new: Keys, context: AttentionContext, position: Position | None = None
    ) -> Keys:
        before = None if past is None else past.places
        blocks = context.once(("compressed", self.stride), before, lambda: _Blocks(new, before, self.stride))
        k = new.k if position is None else position.turn_back(new.k, new.places)
        k, v = blocks.slots(k) @ self.key_maps, blocks.slots(new.v) @ self.value_maps  # (G, H, new blocks, E)
        k = k if position is None else position.turn(k, blocks.new)
        old = (None, None) if past is None else past.pair
        return Keys.of(blocks.added(k, old[0]), blocks.added(v, old[1]), blocks.places)


class _Blocks:
    """The blocks of `stride` places that new tokens belong to.

    new: the last place of each of them. places: those of all blocks so far, behind that of the key of zeros.
    """

    def __init__(self, keys: Keys, before: Places | None, stride: int):
        self.tokens, self.stride = keys.places, stride
        pos, run = self.tokens.pos, self.tokens.is_run
        first, last = (self.tokens.first, self.tokens.last) if run else (int(pos.min()), int(pos.max()))
        assert first is not None  # runs have both
        assert last is not None
        self.start, self.lead = first // stride, first % stride
        self.count = last // stride + 1 - self.start
        self.total = max(self.start + self.count, 0 if before is None else before.count - 1)
        ends = torch.arange(self.total, device=pos.device) * stride + stride - 1
        self.new = Places(ends[self.start : self.start + self.count])
        seen = None
        if run and self.tokens.seen is not None:  # of an encoder: blocks of padding are hidden
            real = self.slots(torch.ones_like(self.tokens.seen)[:, None, :, None].float())[:, 0].any(-1)
            seen = torch.cat([torch.ones_like(real[:, :1]), real], 1)
        self.places = Places(torch.cat([ends.new_zeros(1), ends]), seen, 0, self.total * stride - 1)

    def slots(self, x: Tensor) -> Tensor:
        """The tokens of each block side by side, (G, H, Q, E) -> (G, H, new blocks, stride · E)."""
        room, seen = self.count * self.stride, self.tokens.seen
        x = x if seen is None else x * seen[:, None, :, None].to(x.dtype)
        if self.tokens.is_run:
            found = F.pad(x, (0, 0, self.lead, room - self.lead - x.shape[2]))
        else:
            index = (self.tokens.pos - self.start * self.stride).view(-1, 1, x.shape[2], 1).expand_as(x)
            found = x.new_zeros(*x.shape[:2], room, x.shape[3]).scatter_add(2, index, x)
        return found.unflatten(2, (self.count, self.stride)).flatten(3)

    def added(self, new: Tensor, old: Tensor | None) -> Tensor:
        """All blocks (G, H, 1 + total, E): new sums, added to those so far."""
        after = self.total - self.start - self.count
        new = F.pad(new, (0, 0, 1 + self.start, after))
        return new if old is None else F.pad(old, (0, 0, 0, 1 + self.total - old.shape[2])) + new


def _room(count: int) -> int:
    """The places of a buffer for `count` keys and those of the next steps."""
    return count + max(count // 4, LEAST)


def _enlarged(x: Tensor, room: int) -> Tensor:
    """x (…, K, E) in a buffer of `room` places."""
    *before, count, size = x.shape
    buffer = x.new_empty(*before, room, size)
    buffer[..., :count, :] = x
    return buffer

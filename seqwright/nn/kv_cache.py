"""Keys and values, and how they grow while a decoder goes on.

`Append` is the KV cache: its buffers have free room, so that a step writes one place and copies nothing. Old
keys stay valid all the same: whoever goes on twice from the same past gets a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seqwright.nn.masks import AttentionContext, Places, take

LEAST = 32  # places that a buffer has


class CacheBuffer:
    """A buffer (…, H, C, E + value size) with free room behind the `filled` places: a key, then its value."""

    __slots__ = ("buffer", "filled")

    def __init__(self, buffer: Tensor, filled: int):
        self.buffer, self.filled = buffer, filled

    def can_take(self, start: int, end: int) -> bool:
        """Whether places start … end − 1 are free, there, and writable in this mode of torch."""
        writable = torch.is_inference_mode_enabled() or not self.buffer.is_inference()
        return self.filled == start and end <= self.buffer.shape[-2] and writable


class Keys:
    """What can be looked at: k (G, H, K, E), v (G, H, K, value size), and where it stands. Never changed once
    made.

    both: each key and its value side by side (G, H, K, E + value size), as they come of one product; `sizes`
    are E and value size. pair: k and v apart. Each of them becomes the other when it is asked for.
    """

    __slots__ = ("_both", "_pair", "count", "groups", "places", "room", "sizes")

    def __init__(
        self,
        both: Tensor | None,
        sizes: tuple[int, int],
        places: Places,
        room: CacheBuffer | None = None,
        pair: tuple[Tensor, Tensor] | None = None,
    ):
        self._both, self.sizes, self.places, self.room, self._pair = both, sizes, places, room, pair
        some = both if pair is None else pair[0]
        assert some is not None  # one of the two is given
        self.groups: int = some.shape[0]
        self.count: int = some.shape[2]

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
        """The same keys, placed otherwise."""
        return Keys(self._both, self.sizes, places, self.room, self._pair)

    def select(self, groups: Sequence[int] | None, places: Places) -> Keys:
        """The keys of other groups, at `places`; groups None: all, as they are."""
        if groups is None:
            return self if places is self.places else self.at(places)
        return Keys(take(self.both, groups), self.sizes, places)


class StackedCache(Sequence[Keys]):
    """The keys of equal layers, which have grown together, in one buffer (L, G, H, C, E + value size). Never
    changed once made.

    outlook: what whoever goes on has worked out about the memory of these groups, to be used again.
    """

    __slots__ = ("length", "outlook", "places", "room", "sizes")

    def __init__(
        self, room: CacheBuffer, length: int, sizes: tuple[int, int], places: Places, outlook: Any = None
    ):
        self.room, self.length, self.sizes, self.places, self.outlook = room, length, sizes, places, outlook

    @classmethod
    def of(cls, layers: Sequence[Keys]) -> StackedCache:
        """Of keys that stand at the same places."""
        first = layers[0]
        buffer = _roomy(torch.stack([keys.both for keys in layers]), 2 * first.count)
        return cls(CacheBuffer(buffer, first.count), first.count, first.sizes, first.places)

    def __len__(self) -> int:
        return self.room.buffer.shape[0]

    def __getitem__(self, layer: Any) -> Any:
        if isinstance(layer, slice):
            return [self[number] for number in range(len(self))[layer]]
        return Keys(self.room.buffer[layer].narrow(2, 0, self.length), self.sizes, self.places)

    def grown(self, count: int) -> CacheBuffer:
        """A room with space for `count` more, which nobody else has filled."""
        end = self.length + count
        if self.room.can_take(self.length, end):
            return self.room
        return CacheBuffer(_roomy(self.room.buffer.narrow(3, 0, self.length), 2 * end), self.length)

    def select(self, groups: Sequence[int] | None, rows: Sequence[int], width: int) -> StackedCache:
        places = self.places.select(groups, rows, width)
        if groups is None:
            return StackedCache(self.room, self.length, self.sizes, places, self.outlook)
        index = torch.tensor(groups, dtype=torch.long, device=self.room.buffer.device)
        taken = self.room.buffer.narrow(3, 0, self.length).index_select(1, index)
        return StackedCache(CacheBuffer(taken, self.length), self.length, self.sizes, places)


Past = Sequence[Keys | None]
"""The keys of each layer; None before the first token."""


def select_keys(layers: Past, groups: Sequence[int] | None, rows: Sequence[int], width: int) -> Past:
    """The keys of several layers for other rows. Layers that shared their places still do."""
    if isinstance(layers, StackedCache):
        return layers.select(groups, rows, width)
    moved: dict[int, Places] = {}
    for keys in layers:
        if keys is not None and id(keys.places) not in moved:
            moved[id(keys.places)] = keys.places.select(groups, rows, width)
    return tuple(keys and keys.select(groups, moved[id(keys.places)]) for keys in layers)


class Append:
    """Everything is kept: the KV cache."""

    def __call__(self, past: Keys | None, new: Keys, sight: AttentionContext) -> Keys:
        """What the queries of this call look at: the past and the new."""
        width = sight.width
        if past is None:
            places = sight.once("own", new.places, lambda: new.places.own(new.groups, width))
            return new.at(places)
        old = past.places
        places = sight.once("append", old, lambda: old.append(new.places, new.groups, width))
        if torch.is_grad_enabled():  # buffers are written in place, which autograd must not meet
            return Keys(torch.cat([past.both, new.both], 2), new.sizes, places)
        start, end, room = past.count, past.count + new.count, past.room
        if room is None or not room.can_take(start, end):
            room = CacheBuffer(_roomy(past.both, 2 * end), start)
        room.buffer.narrow(2, start, new.count).copy_(new.both)
        room.filled = end
        return Keys(room.buffer.narrow(2, 0, end), new.sizes, places, room)

    def keep(self, keys: Keys, sight: AttentionContext) -> Keys:
        """What of it the next call still needs."""
        return keys


class Last(Append):
    """The last `window` positions are kept: enough for an attention that is restricted to that many
    neighbours.
    """

    def __init__(self, window: int):
        self.window = window

    def keep(self, keys: Keys, sight: AttentionContext) -> Keys:
        """Cuts when twice the window has come together, so that a step costs the same however long the output
        is.
        """
        places = keys.places
        if places.first is None or places.last is None or places.last - places.first < 2 * self.window:
            return keys
        near, fewer = sight.once(("last", self.window), places, lambda: self._fewer(places))
        return Keys(keys.both[:, :, near], keys.sizes, fewer)

    def _fewer(self, places: Places) -> tuple[Tensor, Places]:
        assert places.last is not None
        first = places.last - self.window + 1
        near = (places.pos >= first).nonzero().squeeze(-1)
        seen = None if places.seen is None else places.seen[..., near]
        return near, Places(places.pos[near], seen, first, places.last)


def _roomy(x: Tensor, room: int) -> Tensor:
    """x (…, K, E) with free room for `room` places in all."""
    *before, count, size = x.shape
    buffer = x.new_empty(*before, max(room, LEAST), size)
    buffer[..., :count, :] = x
    return buffer

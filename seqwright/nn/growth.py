"""Keys and values, and how they grow while a decoder goes on.

`Append` is the KV cache: its buffers have free room, so that a step writes one place and copies nothing. Old
keys stay valid all the same: whoever goes on twice from the same past gets a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from seqwright.nn.masks import Places, Sight, take


class Room:
    """A buffer (G, H, C, E + value size) with free room behind the `filled` places: a key, then its value."""

    __slots__ = ("buffer", "filled")

    def __init__(self, buffer: Tensor, filled: int):
        self.buffer, self.filled = buffer, filled

    def can_take(self, start: int, end: int) -> bool:
        """Whether places start … end − 1 are free, there, and writable in this mode of torch."""
        writable = torch.is_inference_mode_enabled() or not self.buffer.is_inference()
        return self.filled == start and end <= self.buffer.shape[2] and writable


class Keys:
    """What can be looked at: k (G, H, K, E), v (G, H, K, value size), and where it stands. Never changed once
    made.

    both: key and value side by side (G, H, K, E + value size), where they come of one product.
    """

    __slots__ = ("both", "k", "places", "room", "v")

    def __init__(
        self, k: Tensor, v: Tensor, places: Places, both: Tensor | None = None, room: Room | None = None
    ):
        self.k, self.v, self.places, self.both, self.room = k, v, places, both, room

    @classmethod
    def of(cls, both: Tensor, key_size: int, places: Places, room: Room | None = None) -> Keys:
        k = both.narrow(-1, 0, key_size)
        v = both.narrow(-1, key_size, both.shape[-1] - key_size)
        return cls(k, v, places, both, room)

    @property
    def groups(self) -> int:
        return self.k.shape[0]

    @property
    def count(self) -> int:
        return self.k.shape[2]

    @property
    def joint(self) -> Tensor:
        return torch.cat([self.k, self.v], -1) if self.both is None else self.both

    def select(self, groups: Sequence[int] | None, places: Places) -> Keys:
        """The keys of other groups, at `places`; groups None: all, as they are."""
        if groups is None:
            return Keys(self.k, self.v, places, self.both, self.room)
        if self.both is None:
            return Keys(take(self.k, groups), take(self.v, groups), places)
        return Keys.of(take(self.both, groups), self.k.shape[-1], places)


def select_keys(
    layers: Sequence[Keys | None], groups: Sequence[int] | None, rows: Sequence[int], width: int
) -> tuple[Keys | None, ...]:
    """The keys of several layers for other rows. Layers that shared their places still do."""
    moved: dict[int, Places] = {}
    for keys in layers:
        if keys is not None and id(keys.places) not in moved:
            moved[id(keys.places)] = keys.places.select(groups, rows, width)
    return tuple(keys and keys.select(groups, moved[id(keys.places)]) for keys in layers)


class Append:
    """Everything is kept: the KV cache."""

    def __call__(self, past: Keys | None, new: Keys, sight: Sight) -> Keys:
        """What the queries of this call look at: the past and the new."""
        width = sight.width
        if past is None:
            places = sight.once("own", new.places, lambda: new.places.own(new.groups, width))
            return Keys(new.k, new.v, places, new.both)
        old, key_size = past.places, new.k.shape[-1]
        places = sight.once("append", old, lambda: old.append(new.places, new.groups, width))
        if torch.is_grad_enabled():  # buffers are written in place, which autograd must not meet
            return Keys.of(torch.cat([past.joint, new.joint], 2), key_size, places)
        start, count = past.count, new.count
        room = past.room
        if room is None or not room.can_take(start, start + count):
            room = Room(_roomy(past.joint, 2 * (start + count)), start)
        room.buffer.narrow(2, start, count).copy_(new.joint)
        room.filled = start + count
        return Keys.of(room.buffer.narrow(2, 0, start + count), key_size, places, room)

    def keep(self, keys: Keys, sight: Sight) -> Keys:
        """What of it the next call still needs."""
        return keys


class Last(Append):
    """The last `window` positions are kept: enough for an attention that is restricted to that many
    neighbours.
    """

    def __init__(self, window: int):
        self.window = window

    def keep(self, keys: Keys, sight: Sight) -> Keys:
        """Cuts when twice the window has come together, so that a step costs the same however long the output
        is.
        """
        places = keys.places
        if places.first is None or places.last is None or places.last - places.first < 2 * self.window:
            return keys
        near, fewer = sight.once(("last", self.window), places, lambda: self._fewer(places))
        return Keys.of(keys.joint[:, :, near], keys.k.shape[-1], fewer)

    def _fewer(self, places: Places) -> tuple[Tensor, Places]:
        assert places.last is not None
        first = places.last - self.window + 1
        near = (places.pos >= first).nonzero().squeeze(-1)
        seen = None if places.seen is None else places.seen[..., near]
        return near, Places(places.pos[near], seen, first, places.last)


def _roomy(x: Tensor, room: int) -> Tensor:
    groups, heads, count, size = x.shape
    buffer = x.new_empty(groups, heads, max(room, 32), size)
    buffer[:, :, :count] = x
    return buffer

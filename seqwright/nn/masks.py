"""Who may look at whom: the positions of queries and keys, compared in one place. True means "may look",
everywhere.

Rows that come of one source (the hypotheses of a beam, say) can share one group of keys: `width` rows of Q
tokens are then one row of width · Q queries, and `seen` tells which of the shared keys belong to whose past.
So a beam moves no keys when it reorders its hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


Run = tuple[int, int, int]  # first position, how many, and how many times over


class Places:
    """Where tokens stand, for G groups of K tokens. Never changed once made.

    pos: positions (K,), the same in every group, or (G, K). Runs of them become a tensor only when asked for.
    seen: False for padding (G, K), or for what is not in the past of a row of the group (G, width, K); None:
    all is seen.
    first, last: the least and the greatest position where they are known without looking at the tensor, which
    spares masks.
    newest: the places that were put behind the others last, each of which the row that brought it sees.
    """

    __slots__ = ("_device", "_padding", "_parts", "count", "first", "last", "newest", "seen")

    def __init__(
        self,
        pos: Tensor | tuple[Tensor | Run, ...],
        seen: Tensor | None = None,
        first: int | None = None,
        last: int | None = None,
        *,
        count: int | None = None,
        device: torch.device | None = None,
        newest: Places | None = None,
    ):
        self._parts = (pos,) if isinstance(pos, Tensor) else pos
        self.count: int = pos.shape[-1] if isinstance(pos, Tensor) else count or 0
        self.seen, self.first, self.last, self.newest = seen, first, last, newest
        self._device = pos.device if isinstance(pos, Tensor) else device
        self._padding: tuple[torch.dtype, MaskBias] | None = None

    @classmethod
    def run(cls, first: int, count: int, *, width: int = 1, device: torch.device | None = None) -> Places:
        """The positions first, first + 1, …, once for each of `width` rows."""
        parts = ((first, count, width),)
        return cls(parts, None, first, first + count - 1, count=count * width, device=device)

    @classmethod
    def padded(cls, real: Tensor, before: Tensor | None = None) -> Places:
        """Positions that count the real tokens only, after `before` (B,) earlier ones. real (B, T) bool."""
        pos = real.long().cumsum(-1) - 1
        return cls((pos if before is None else pos + before[:, None]).clamp(min=0), real)

    @property
    def pos(self) -> Tensor:
        parts = self._parts
        if len(parts) > 1 or not isinstance(parts[0], Tensor):
            tensors = [part if isinstance(part, Tensor) else self._tensor(part) for part in parts]
            self._parts = parts = (tensors[0] if len(tensors) == 1 else torch.cat(tensors),)
        return parts[0]  # type: ignore[return-value]

    def _tensor(self, run: Run) -> Tensor:
        first, count, times = run
        pos = torch.arange(first, first + count, device=self._device)
        return pos if times == 1 else pos.repeat(times)

    @property
    def by_group(self) -> bool:
        """Whether each group has positions of its own."""
        return isinstance(self._parts[0], Tensor) and self._parts[0].dim() == 2

    @property
    def by_row(self) -> bool:
        """Whether the rows of a group see different ones of them."""
        return self.seen is not None and self.seen.dim() == 3

    def padding(self, dtype: torch.dtype) -> MaskBias:
        """What hides the padding from every query, worked out once."""
        if self._padding is None or self._padding[0] is not dtype:
            self._padding = (dtype, veil(None if self.seen is None else self.seen[:, None, None, :], dtype))
        return self._padding[1]

    def with_seen(self, seen: Tensor | None, newest: Places | None = None) -> Places:
        """The same places, seen otherwise."""
        count, device = self.count, self._device
        return Places(self._parts, seen, self.first, self.last, count=count, device=device, newest=newest)

    def select(self, groups: Sequence[int] | None, rows: Sequence[int], width: int) -> Places:
        """The places of other rows, of which `width` share a group; groups None: the groups stay."""
        if groups is None and not self.by_row:
            return self
        if self.seen is not None and self.by_row:
            seen = take(self.seen.flatten(0, 1), rows).view(len(rows) // width, width, self.count)
        else:
            seen = take(self.seen, groups)
        if self.by_group:
            return Places(take(self.pos, groups), seen, self.first, self.last)
        return self.with_seen(seen)

    def append(self, new: Places, groups: int, width: int) -> Places:
        """These places and, behind them, the new ones, of which each row of a group sees its own."""
        first = None if self.first is None or new.first is None else min(self.first, new.first)
        last = None if self.last is None or new.last is None else max(self.last, new.last)
        seen = self._seen_with(new, groups, width)
        if self.by_group or new.by_group:
            pos = torch.cat(
                [p if p.dim() == 2 else p.expand(groups, -1) for p in (self.pos, new.pos)], dim=-1
            )
            return Places(pos, seen, first, last, newest=new)
        parts, count = _joined(self._parts, new._parts), self.count + new.count
        return Places(parts, seen, first, last, count=count, device=self._device, newest=new)

    def _seen_with(self, new: Places, groups: int, width: int) -> Tensor | None:
        """What each row sees of both, (G, width, K); None: everything."""
        if width == 1 and self.seen is None and new.seen is None:
            return None
        return torch.cat(
            [self._seen_by(groups, width), new.own(groups, width)._seen_by(groups, width)], dim=-1
        )

    def _seen_by(self, groups: int, width: int) -> Tensor:
        """(G, width, K)."""
        if self.seen is None:
            return torch.ones(groups, width, self.count, dtype=torch.bool, device=self._device)
        seen = self.seen if self.seen.dim() == 3 else self.seen[:, None]
        return seen.expand(groups, width, self.count)

    def own(self, groups: int, width: int) -> Places:
        """New tokens of `width` rows as keys of their group: each row sees its own run of them."""
        if width == 1:
            return self
        runs = _runs(width, self.count // width, self._device).expand(groups, -1, -1)  # (G, width, width · Q)
        return self.with_seen(runs if self.seen is None else runs & self.seen[:, None], newest=self)


@lru_cache(maxsize=64)
def _runs(width: int, count: int, device: torch.device | None) -> Tensor:
    """(1, width, width · count): row w sees the w-th run of `count` places."""
    with torch.inference_mode(False):  # it outlives the call
        return torch.eye(width, dtype=torch.bool, device=device).repeat_interleave(count, dim=1)[None]


def _joined(parts: tuple[Tensor | Run, ...], more: tuple[Tensor | Run, ...]) -> tuple[Tensor | Run, ...]:
    """Runs behind runs; two that make one longer run become it."""
    last, next_ = parts[-1], more[0]
    if len(more) > 1 or isinstance(last, Tensor) or isinstance(next_, Tensor):
        return (*parts, *more)
    if last[2] == next_[2] == 1 and last[0] + last[1] == next_[0]:
        return (*parts[:-1], (last[0], last[1] + next_[1], 1))
    return (*parts, *more)


def take(value: Any, rows: Sequence[int] | None) -> Any:
    """Rows of a tensor. None, as value or as rows, changes nothing."""
    if value is None or rows is None:
        return value
    return value.index_select(0, torch.tensor(rows, dtype=torch.long, device=value.device))


def regroup(rows: Sequence[int], width: int, groups: int) -> tuple[list[int] | None, int]:
    """What selecting `rows` means for groups of `width` rows: the groups to take (None: all, as they are) and
    the new width.

    Rows that come in equal runs, each out of one group, go on sharing it; any others get a group each.
    """
    owners = [row // width for row in rows]
    if owners == [group for group in range(groups) for _ in range(width)]:
        return None, width  # all stay with their neighbours, as in most steps of a beam
    run = next((i for i, owner in enumerate(owners) if owner != owners[0]), len(owners)) or 1
    if len(owners) % run or any(owner != owners[i - i % run] for i, owner in enumerate(owners)):
        run = 1
    taken = owners[::run]
    return (None if taken == list(range(groups)) else taken), run


@dataclass(frozen=True)
class Mask:
    """What an attention forbids beside padding: the future, and what is further away than `window`
    neighbours.
    """

    causal: bool = False
    window: int | None = None

    @property
    def open(self) -> bool:
        """Whether nothing but padding is forbidden."""
        return not self.causal and self.window is None

    def allowed(self, queries: Places, keys: Places, width: int = 1) -> Tensor | None:
        """True: may look. Broadcastable to (G, 1, Q, K), Q being the queries of all rows of a group; None:
        everything.
        """
        parts: list[Tensor] = []
        known = None not in (queries.first, queries.last, keys.first, keys.last)
        if self.causal and not (known and keys.last <= queries.first):  # type: ignore[operator]
            parts.append(distance(queries, keys) >= 0)
        if self.window is not None and not (known and _reach(queries, keys) <= self.window):
            parts.append(distance(queries, keys).abs() <= self.window)
        if keys.seen is not None and not keys.by_row:
            parts.append(keys.seen[:, None, None, :])
        elif keys.seen is not None:
            each = queries.count // width  # queries of a row
            parts.append((keys.seen if each == 1 else keys.seen.repeat_interleave(each, dim=1))[:, None])
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed


def distance(queries: Places, keys: Places) -> Tensor:
    """q_pos − k_pos, (G or 1, 1, Q, K)."""
    return (queries.pos[..., :, None] - keys.pos[..., None, :]).view(-1, 1, queries.count, keys.count)


def _reach(queries: Places, keys: Places) -> int:
    return max(queries.last - keys.first, keys.last - queries.first)  # type: ignore[operator]


class MaskBias(NamedTuple):
    """What to add to the scores, 0 or very low (G or 1, 1, Q or 1, K), and which queries see nothing at all
    (…, 1); None: nothing is hidden, and nobody sees nothing.
    """

    bias: Tensor | None = None
    blind: Tensor | None = None


def veil(allowed: Tensor | None, dtype: torch.dtype, no_blind: bool = False) -> MaskBias:
    """allowed (G or 1, 1, Q or 1, K). `no_blind` says that every query is known to see something."""
    if allowed is None:
        return MaskBias()
    bias = torch.where(allowed, *_levels(dtype, allowed.device))
    if no_blind:
        return MaskBias(bias)
    blind = ~allowed.any(-1, keepdim=True)
    return MaskBias(bias, blind if bool(blind.any()) else None)


@lru_cache(maxsize=16)
def _levels(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """What is added where one may look, and where not: half of the least number, so that a score can be added
    without overflow, and the exponential is exactly zero.
    """
    with torch.inference_mode(False):  # they outlive the call
        low = torch.finfo(dtype).min / 2
        return torch.zeros((), dtype=dtype, device=device), torch.tensor(low, dtype=dtype, device=device)


class AttentionContext:
    """What the queries of one call may see, worked out once and shared by all layers."""

    def __init__(self, queries: Places, width: int = 1):
        self.queries, self.width = queries, width
        self._known: dict[Hashable, tuple[Any, object]] = {}
        self._veils: dict[tuple[int, int], tuple[MaskBias, Mask, Places]] = {}

    def once(self, key: Hashable, about: object, compute: Callable[[], Value]) -> Value:
        """The value of `compute`, worked out once per call for this key and this object."""
        found = self._known.get((key, id(about)))
        if found is None:
            found = self._known[key, id(about)] = (
                compute(),
                about,
            )  # `about` is held so that its id stays its own
        return found[0]

    def distance(self, keys: Places) -> Tensor:
        """q_pos − k_pos, (G or 1, 1, Q, K)."""
        return self.once("distance", keys, lambda: distance(self.queries, keys))

    def veil(self, mask: Mask, keys: Places, dtype: torch.dtype) -> MaskBias:
        """What hides from the queries that which they may not see."""
        found = self._veils.get((id(mask), id(keys)))
        if found is None:
            found = (self._veil(mask, keys, dtype), mask, keys)  # held, so that their ids stay their own
            self._veils[id(mask), id(keys)] = found
        return found[0]

    def _veil(self, mask: Mask, keys: Places, dtype: torch.dtype) -> MaskBias:
        if mask.open and not keys.by_row:
            return keys.padding(dtype)
        own = keys is self.queries or keys.newest is self.queries
        sees_itself = own and self.queries.seen is None  # no mask forbids that
        return veil(mask.allowed(self.queries, keys, self.width), dtype, sees_itself)

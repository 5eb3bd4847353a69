"""Masks: which key a query may attend to, decided in one place by their positions. True means "may attend".

Rows of one source, such as the hypotheses of a beam, can share one group of keys: `width` rows of Q tokens
are then one row of width · Q queries, and `seen` marks which of the shared keys belong to the past of which
row. So a beam moves no keys when it reorders its hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from seqwright.data.batch import Trees

Value = TypeVar("Value")
Run = tuple[int, int, int]  # first position, number of positions, number of repetitions


class Places:
    """The positions of G groups of K tokens, and which of them are visible. Immutable.

    pos: positions (K,), the same in every group, or (G, K). Runs become a tensor on demand.
    seen: False for padding (G, K), or for tokens outside the past of a row (G, width, K); None: all visible.
    first, last: the least and the greatest position where they are known; they save masks.
    newest: the places that were appended last. Each row sees its own ones.
    trees: the dependency trees of the tokens, if they have any. Only the places of a whole source have them.
    """

    __slots__ = ("_device", "_padding", "_parts", "count", "first", "last", "newest", "seen", "trees")

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
        trees: Trees | None = None,
    ):
        self._parts = (pos,) if isinstance(pos, Tensor) else pos
        self.count: int = pos.shape[-1] if isinstance(pos, Tensor) else count or 0
        self.seen, self.first, self.last, self.newest = seen, first, last, newest
        self.trees = trees
        self._device = pos.device if isinstance(pos, Tensor) else device
        self._padding: tuple[torch.dtype, MaskBias] | None = None

    @classmethod
    def run(cls, first: int, count: int, *, width: int = 1, device: torch.device | None = None) -> Places:
        """The positions first, first + 1, …, once for each of `width` rows."""
        parts = ((first, count, width),)
        return cls(parts, None, first, first + count - 1, count=count * width, device=device)

    @classmethod
    def padded(cls, real: Tensor) -> Places:
        """Positions that count the real tokens only. real (B, T) bool."""
        return cls((real.long().cumsum(-1) - 1).clamp(min=0), real)

    @property
    def pos(self) -> Tensor:
        parts = self._parts
        if len(parts) > 1 or not isinstance(parts[0], Tensor):
            tensors = [part if isinstance(part, Tensor) else self._tensor(*part) for part in parts]
            self._parts = parts = (tensors[0] if len(tensors) == 1 else torch.cat(tensors),)
        return parts[0]  # type: ignore[return-value]

    def _tensor(self, first: int, count: int, times: int) -> Tensor:
        pos = torch.arange(first, first + count, device=self._device)
        return pos if times == 1 else pos.repeat(times)

    @property
    def is_run(self) -> bool:
        """Whether the positions are known to be consecutive, and the same in every group."""
        known = self.first is not None and self.last is not None
        return known and not self.by_group and self.last - self.first + 1 == self.count  # type: ignore[operator]

    @property
    def by_group(self) -> bool:
        """Whether each group has positions of its own."""
        return isinstance(self._parts[0], Tensor) and self._parts[0].dim() == 2

    @property
    def by_row(self) -> bool:
        """Whether the rows of a group see different ones of them."""
        return self.seen is not None and self.seen.dim() == 3

    def padding(self, dtype: torch.dtype) -> MaskBias:
        """The bias that hides the padding from every query, computed once."""
        if self._padding is None or self._padding[0] is not dtype:
            seen = None if self.seen is None else self.seen[:, None, None, :]
            self._padding = dtype, mask_bias(seen, dtype)
        return self._padding[1]

    def with_seen(self, seen: Tensor | None, newest: Places | None = None) -> Places:
        """The same places with another visibility."""
        count, device = self.count, self._device
        return Places(self._parts, seen, self.first, self.last, count=count, device=device, newest=newest)

    def with_trees(self, trees: Trees | None) -> Places:
        """The same places, whose tokens are words of trees."""
        count, device = self.count, self._device
        return Places(self._parts, self.seen, self.first, self.last, count=count, device=device, trees=trees)

    def select(self, groups: Sequence[int] | None, rows: Sequence[int], width: int) -> Places:
        """The places of other rows, `width` of which share a group; groups None: the groups stay."""
        if groups is None and not self.by_row:
            return self
        if self.seen is not None and self.by_row:
            seen = take(self.seen.flatten(0, 1), rows).view(len(rows) // width, width, self.count)
        else:
            seen = take(self.seen, groups)
        if self.by_group:
            return Places(take(self.pos, groups), seen, self.first, self.last)
        return self.with_seen(seen)

    @classmethod
    def join(cls, parts: Sequence[Places], groups: Sequence[int], width: int) -> Places:
        """The places of several states, each of so many groups, one behind the other.

        Fewer places get hidden ones in front, so that the next token has the same place in all groups. The
        first ones that no row sees any more are left out.
        """
        first, count = parts[0], max(part.count for part in parts)
        alike = not any(part.by_group or part.seen is not None or part.count < count for part in parts)
        if alike and all(part is first or torch.equal(part.pos, first.pos) for part in parts):
            return first.with_seen(None)
        pos, seen = [], []
        by_row = any(part.by_row for part in parts)
        for part, own in zip(parts, groups, strict=True):
            missing = count - part.count
            pos.append(F.pad(part.pos.expand(own, part.count), (missing, 0)))
            visible = part.seen_by(own, width if by_row else 1)
            seen.append(F.pad(visible, (missing, 0), value=False))
        both = torch.cat(seen)  # (G, width or 1, K)
        used = both.flatten(0, 1).any(0)
        unused = int(used.long().argmax()) if used.numel() and bool(used.any()) else 0
        both = both[..., unused:]
        return cls(torch.cat(pos)[:, unused:], both if by_row else both[:, 0])

    def append(self, new: Places, groups: int, width: int) -> Places:
        """These places followed by the new ones; each row of a group sees its own new ones."""
        first = None if self.first is None or new.first is None else min(self.first, new.first)
        last = None if self.last is None or new.last is None else max(self.last, new.last)
        seen = None
        if width > 1 or self.seen is not None or new.seen is not None:  # what each row sees, (G, width, K)
            both = self.seen_by(groups, width), new.own(groups, width).seen_by(groups, width)
            seen = torch.cat(both, dim=-1)
        if self.by_group or new.by_group:
            each = [p if p.dim() == 2 else p.expand(groups, -1) for p in (self.pos, new.pos)]
            return Places(torch.cat(each, dim=-1), seen, first, last, newest=new)
        parts, count = _joined(self._parts, new._parts), self.count + new.count
        return Places(parts, seen, first, last, count=count, device=self._device, newest=new)

    def seen_by(self, groups: int, width: int) -> Tensor:
        """Which row of a group sees which places, (G, width, K)."""
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
    with torch.inference_mode(False):  # the cache outlives the call
        return torch.eye(width, dtype=torch.bool, device=device).repeat_interleave(count, dim=1)[None]


def _joined(parts: tuple[Tensor | Run, ...], more: tuple[Tensor | Run, ...]) -> tuple[Tensor | Run, ...]:
    """Concatenate runs; two that continue each other become one."""
    last, new = parts[-1], more[0]
    if len(more) > 1 or isinstance(last, Tensor) or isinstance(new, Tensor):
        return (*parts, *more)
    if last[2] == new[2] == 1 and last[0] + last[1] == new[0]:
        return (*parts[:-1], (last[0], last[1] + new[1], 1))
    return (*parts, *more)


def take(value: Any, rows: Sequence[int] | None) -> Any:
    """Rows of a tensor; rows None: all. A value that is not a tensor stays as it is."""
    if rows is None or not isinstance(value, Tensor):
        return value
    return value.index_select(0, torch.tensor(rows, dtype=torch.long, device=value.device))


def regroup(rows: Sequence[int], width: int, groups: int) -> tuple[list[int] | None, int]:
    """Select `rows` from groups of `width` rows: return the groups to take (None: all as they are), and the
    new width. Rows in equal runs, each from one group, keep sharing it; otherwise each row gets its own.
    """
    owners = [row // width for row in rows]
    if owners == [group for group in range(groups) for _ in range(width)]:
        return None, width  # as in most steps of a beam
    run = next((i for i, owner in enumerate(owners) if owner != owners[0]), len(owners)) or 1
    if len(owners) % run or any(owner != owners[i - i % run] for i, owner in enumerate(owners)):
        run = 1
    taken = owners[::run]
    return (None if taken == list(range(groups)) else taken), run


@dataclass(frozen=True)
class Mask:
    """What an attention hides in addition to padding: the future, and keys more than `window` places away.

    global_tokens: the first positions, which see and are seen whatever the window (Beltagy et al. 2020, 3.1).
    """

    causal: bool = False
    window: int | None = None
    global_tokens: int = 0

    @property
    def open(self) -> bool:
        """Whether nothing but padding is hidden."""
        return not self.causal and self.window is None

    def allowed(self, queries: Places, keys: Places, width: int = 1) -> Tensor | None:
        """True: may attend; None: all may. Broadcastable to (G, 1, Q, K), with Q of all rows of a group."""
        parts: list[Tensor] = []
        known = None not in (queries.first, queries.last, keys.first, keys.last)
        if self.causal and not (known and keys.last <= queries.first):  # type: ignore[operator]
            parts.append(distance(queries, keys) >= 0)
        if self.window is not None:
            reach = max(queries.last - keys.first, keys.last - queries.first) if known else math.inf  # type: ignore[operator]
            if reach > self.window:
                parts.append(self._near(queries, keys, self.window))
        if keys.seen is not None and not keys.by_row:
            parts.append(keys.seen[:, None, None, :])
        elif keys.seen is not None:
            each = queries.count // width  # queries of a row
            parts.append((keys.seen if each == 1 else keys.seen.repeat_interleave(each, dim=1))[:, None])
        return reduce(torch.bitwise_and, parts) if parts else None

    def _near(self, queries: Places, keys: Places, window: int) -> Tensor:
        near = distance(queries, keys).abs() <= window
        if not self.global_tokens:
            return near
        everywhere = (places.pos < self.global_tokens for places in (queries, keys))
        query, key = (each.view(-1, 1, each.shape[-1]) for each in everywhere)
        return near | query[..., None] | key[..., None, :]


def distance(queries: Places, keys: Places) -> Tensor:
    """q_pos − k_pos, (G or 1, 1, Q, K)."""
    return (queries.pos[..., :, None] - keys.pos[..., None, :]).view(-1, 1, queries.count, keys.count)


class MaskBias(NamedTuple):
    """The effect of a mask on an attention."""

    bias: Tensor | None = None  # of the scores, 0 or very low (G or 1, 1, Q or 1, K); None: all are visible
    blind: Tensor | None = None  # the queries that see no key (…, 1); None: each sees one


def mask_bias(allowed: Tensor | None, dtype: torch.dtype, all_see: bool = False) -> MaskBias:
    """allowed (G or 1, 1, Q or 1, K). `all_see`: every query is known to see a key."""
    if allowed is None:
        return MaskBias()
    bias = torch.where(allowed, *_levels(dtype, allowed.device))
    if all_see:
        return MaskBias(bias)
    blind = ~allowed.any(-1, keepdim=True)
    return MaskBias(bias, blind if bool(blind.any()) else None)


@lru_cache(maxsize=16)
def _levels(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The bias of visible and of hidden keys: low enough for exp = 0, with room to add a score."""
    with torch.inference_mode(False):  # the cache outlives the call
        low = torch.finfo(dtype).min / 2
        return torch.zeros((), dtype=dtype, device=device), torch.tensor(low, dtype=dtype, device=device)


class AttentionContext:
    """The queries of one call, and what depends on them and on keys: computed once, shared by all layers."""

    def __init__(self, queries: Places, width: int = 1):
        self.queries, self.width = queries, width
        self.first_values: Tensor | None = None  # those of the new tokens in the first self-attention
        self._known: dict[Hashable, tuple[Any, object]] = {}
        self._biases: dict[tuple[int, int], tuple[MaskBias, Mask, Places]] = {}

    def once(self, key: Hashable, about: object, compute: Callable[[], Value]) -> Value:
        """Return the value of `compute`, computed once for this key and this object."""
        found = self._known.get((key, id(about)))
        if found is None:
            found = self._known[key, id(about)] = compute(), about  # referenced, so that its id stays unique
        return found[0]

    def distance(self, keys: Places) -> Tensor:
        """q_pos − k_pos, (G or 1, 1, Q, K)."""
        return self.once("distance", keys, lambda: distance(self.queries, keys))

    def mask_bias(self, mask: Mask, keys: Places, dtype: torch.dtype) -> MaskBias:
        """The bias that hides keys from the queries."""
        if mask.open and not keys.by_row:
            return keys.padding(dtype)
        found = self._biases.get((id(mask), id(keys)))
        if found is None:
            own = keys is self.queries or keys.newest is self.queries
            sees_itself = own and self.queries.seen is None  # no mask hides that
            bias = mask_bias(mask.allowed(self.queries, keys, self.width), dtype, sees_itself)
            found = self._biases[id(mask), id(keys)] = bias, mask, keys  # referenced: unique ids
        return found[0]

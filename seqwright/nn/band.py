"""Attention to neighbours in blocks: linear in the number of tokens, where a masked matrix is quadratic.

Queries are cut into blocks. The keys of a block are those of its own places, of the block before it, of the
block after it where the future is visible, and the global ones. Each block is then a group of its own:
scores, positions, masks and kernels work on blocks as they do on whole rows, and the result is the same.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from seqwright.nn.kv_cache import Keys
from seqwright.nn.masks import AttentionContext, Mask, Places

LEAST_SIZE = 64  # places of a block; products of fewer are inefficient
LEAST_BLOCKS = 4  # with fewer blocks a masked matrix is as fast


class Band:
    """A cut of self-attention into blocks of `size` places, at least the window. G groups become G · blocks.

    context: the queries of the blocks. places: those of the keys of each block.
    """

    def __init__(self, mask: Mask, queries: Places, keys: Keys, size: int):
        first, begin, groups = _first(keys.places), _first(queries), keys.groups
        self.size, self.blocks, self.count = size, -(-queries.count // size), queries.count
        self.everywhere = mask.global_tokens
        self.chunks = 2 if mask.causal else 3  # of keys around each block
        self.before = size - (begin - first)  # places to add before the first key; drop if negative
        self.after = (self.blocks + self.chunks - 1) * size - self.before - keys.count
        pos = begin + torch.arange(self.blocks * size, device=keys.places.pos.device)
        pos = pos.view(self.blocks, size).repeat(groups, 1)  # (G · blocks, size)
        self.context = AttentionContext(Places(pos))
        near = pos[:, :1] + torch.arange(-size, (self.chunks - 1) * size, device=pos.device)
        # a global key is already among the first ones
        seen = (near >= max(first, self.everywhere)) & (near < first + keys.count)
        wide = torch.arange(self.everywhere, device=pos.device).expand(len(pos), -1)
        seen = torch.cat([torch.ones_like(wide, dtype=torch.bool), seen], 1)
        if keys.places.seen is not None:
            seen &= self.around(keys.places.seen[:, None, :, None].byte())[:, 0, :, 0].bool()
        self.places = Places(torch.cat([wide, near], 1), seen)

    @classmethod
    def of(cls, mask: Mask, context: AttentionContext, keys: Keys) -> Band | None:
        """Return the cut, made once for all layers; None where it does not pay or places are not
        consecutive.
        """
        queries, places = context.queries, keys.places
        size = max(mask.window or 0, LEAST_SIZE)
        if mask.window is None or queries.count <= (LEAST_BLOCKS - 1) * size or context.width > 1:
            return None
        if not (queries.is_run and places.is_run) or places.by_row or queries.last != places.last:
            return None
        if places.trees is not None:  # a block has no distances in trees
            return None
        if mask.global_tokens and places.first != 0:
            return None
        return context.once(("band", mask), places, lambda: cls(mask, queries, keys, size))

    def split(self, q: Tensor) -> Tensor:
        """Queries (G, H, Q, E) -> (G · blocks, H, size, E)."""
        padded = F.pad(q, (0, 0, 0, self.blocks * self.size - self.count))
        return padded.unflatten(2, (self.blocks, self.size)).transpose(1, 2).flatten(0, 1)

    def around(self, x: Tensor) -> Tensor:
        """What belongs to keys (G, H, K, E), for each block: (G · blocks, H, global and near keys, E)."""
        chunks = F.pad(x, (0, 0, self.before, self.after)).unflatten(2, (-1, self.size))
        near = [chunks[:, :, i : i + self.blocks] for i in range(self.chunks)]  # (G, H, blocks, size, E)
        if self.everywhere:
            near.insert(0, x[:, :, None, : self.everywhere].expand(-1, -1, self.blocks, -1, -1))
        return torch.cat(near, 3).transpose(1, 2).flatten(0, 1)

    def keys(self, keys: Keys) -> Keys:
        return Keys(self.around(keys.both), keys.sizes, self.places)

    def join(self, attended: Tensor) -> Tensor:
        """(G · blocks, H, size, E) -> (G, H, Q, E)."""
        whole = attended.unflatten(0, (-1, self.blocks)).transpose(1, 2).flatten(2, 3)
        return whole[:, :, : self.count]


def _first(places: Places) -> int:
    assert places.first is not None  # it is a run
    return places.first

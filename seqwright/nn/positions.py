"""Positions: how a model knows the order of its tokens. One class each; the hooks of the base are neutral.

`embed` works once on the embeddings; `turn`, `bias` and `values` work inside every self-attention. Positions
from syntax read the dependency trees of a source; without them they are linear.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from annotated_types import Gt
from torch import Tensor, nn
from torch.autograd.function import Function

from seqwright.config.registry import Count, Registry, Whole
from seqwright.errors import ConfigError, InputError
from seqwright.nn.masks import AttentionContext, Places

POSITIONS = Registry("position", "seqwright.nn.positions", "seqwright.nn.positions:Position")

Combine = Literal["add", "concat"]
Base = Annotated[float, Gt(0)]


class Position(nn.Module):
    """Base: no position at all."""

    inside = False  # True: works inside the attentions, and each of them has its own
    taken = 0  # dimensions of the model that a concatenated position takes from the embedding
    needs_weights = False  # True: `values` needs the weights, which the fused kernels do not give
    structural = False  # True: reads the trees of its places
    outside = "none"  # the position on the embeddings that belongs to one inside the attentions

    def embed(self, x: Tensor, places: Places) -> Tensor:
        """x (B, T, D − taken) -> (B, T, D)."""
        return x

    def turn(self, x: Tensor, places: Places) -> Tensor:
        """Encode the places in queries or keys (B, H, T, E)."""
        return x

    def turn_back(self, x: Tensor, places: Places) -> Tensor:
        """Undo `turn`."""
        return x

    def bias(self, q: Tensor, context: AttentionContext, keys: Places) -> Tensor | None:
        """A term of the scores (B, H, Q, K), from the prepared queries q (B, H, Q, E)."""
        return None

    def values(self, weights: Tensor, context: AttentionContext, keys: Places) -> Tensor | None:
        """A term of the output (B, H, Q, E), from the weights (B, H, Q, K)."""
        return None


class NoPosition(Position):
    """No order: a bag of words."""

    key = "none"


class _Table(Position):
    """Vectors by position, added to the embedding or concatenated with it."""

    def __init__(self, size: int, combine: Combine, dimensions: int | None):
        super().__init__()
        if combine == "add" and dimensions is not None:
            raise ConfigError(f'dimensions = {dimensions} is for combine = "concat"; remove it')
        self.combine, self.taken = combine, 0 if combine == "add" else dimensions or size // 4
        self.dimensions = size if combine == "add" else self.taken
        if combine == "concat" and not 0 < self.taken < size:
            raise ConfigError(f"{self.taken} position dimensions do not fit into a model of size {size}")

    def vectors(self, places: Places) -> Tensor:
        """(T, dimensions) or (B, T, dimensions)."""
        raise NotImplementedError

    def embed(self, x: Tensor, places: Places) -> Tensor:
        vectors = self.vectors(places)
        if self.combine == "add":
            return x + vectors
        return torch.cat([x, vectors.expand(*x.shape[:2], -1)], dim=-1)


class Sinusoidal(_Table):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the same (Vaswani et al. 2017, 3.5)."""

    def __init__(
        self, *, size: int, combine: Combine = "add", dimensions: Count | None = None, base: Base = 10000.0
    ):
        super().__init__(size, combine, dimensions)
        self.base = base
        self.register_buffer("table", self._rows(0).to(torch.get_default_dtype()), persistent=False)

    table: Tensor

    def _rows(self, count: int) -> Tensor:
        even = torch.arange(0, self.dimensions, 2, dtype=torch.float64)
        angles = torch.arange(count, dtype=torch.float64)[:, None] * self.base ** (-even / self.dimensions)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, : self.dimensions]

    def vectors(self, places: Places) -> Tensor:
        table, first, last = self.table, places.first, places.last
        needed = 1 + (int(places.pos.max()) if last is None else last)
        if table.shape[0] < needed:
            with torch.inference_mode(False):  # the table outlives the call
                self.table = table = self._rows(max(needed, 2 * len(table), 256)).to(table)
        if first is not None and last is not None and (first == last or last - first + 1 == places.count):
            return table.narrow(0, first, last - first + 1)  # one position for all tokens, or a run
        return table[places.pos]


class Learned(_Table):
    """A trained vector for each of the first `length` positions (Gehring et al. 2017)."""

    def __init__(
        self, *, size: int, length: Count = 512, combine: Combine = "add", dimensions: Count | None = None
    ):
        super().__init__(size, combine, dimensions)
        self.table = nn.Parameter(torch.empty(length, self.dimensions))
        nn.init.normal_(self.table, std=self.dimensions**-0.5)

    def vectors(self, places: Places) -> Tensor:
        last, length = int(places.pos.max()) if places.last is None else places.last, len(self.table)
        if last >= length:
            beyond = f"position {last + 1} is beyond the learned table of {length} positions"
            raise InputError(f"{beyond}; shorten the text, or train with position.length = {last + 1}")
        return self.table[places.pos]


class Depth(_Table):
    """Sinusoids, plus a trained vector for the depth of the word in the dependency tree, which is 1 for the
    root of a sentence (the absolute position of Wang et al. 2019). All words below `deepest` share a vector.
    """

    structural = True

    def __init__(
        self, *, size: int, deepest: Count = 12, combine: Combine = "add", dimensions: Count | None = None
    ):
        super().__init__(size, combine, dimensions)
        self.linear = Sinusoidal(size=self.dimensions)
        self.table = nn.Parameter(torch.empty(deepest + 1, self.dimensions))
        nn.init.normal_(self.table, std=self.dimensions**-0.5)

    def vectors(self, places: Places) -> Tensor:
        linear, trees = self.linear.vectors(places), places.trees
        if trees is None:
            return linear
        found = self.table[trees.depth.clamp(max=len(self.table) - 1)]  # (B, T, dimensions)
        return linear + found * trees.known[:, None, None]


class Shaw(Position):
    """Learned vectors for the distance, clipped, added to keys and values (Shaw et al. 2018, eq. 3 and 4).

    e_ij = q_i·(k_j + aᴷ_ij), z_i = Σ_j α_ij (v_j + aⱽ_ij). q·a is computed once per distance and then
    gathered, so that no tensor of size Q × K × E exists.
    """

    inside = True

    def __init__(
        self,
        *,
        heads: int,
        key_size: int,
        value_size: int,
        distance: Whole = 16,
        per_head: bool = False,
        values: bool = True,
    ):
        super().__init__()
        self.distance = distance
        owners, count = heads if per_head else 1, 2 * distance + 1
        self.key_table = nn.Parameter(torch.empty(owners, count, key_size))
        self.value_table = nn.Parameter(torch.empty(owners, count, value_size)) if values else None
        self.needs_weights = values
        for table in self.parameters():
            nn.init.normal_(table, std=table.shape[-1] ** -0.5)

    def _index(self, context: AttentionContext, keys: Places) -> Tensor:
        """The clipped distance k_pos − q_pos as a row of the tables, (G or 1, 1, Q, K)."""
        most = self.distance
        return context.once(("shaw", most), keys, lambda: (-context.distance(keys)).clamp(-most, most) + most)

    def bias(self, q: Tensor, context: AttentionContext, keys: Places) -> Tensor:
        return self.scores(q, self._index(context, keys))

    def scores(self, q: Tensor, index: Tensor) -> Tensor:
        """q·aᴷ by the rows of the table, (B, H, Q, E) and (B or 1, 1, Q, K) -> (B, H, Q, K)."""
        by_distance = q @ self.key_table.transpose(-1, -2)  # (B, H, Q, 2·distance + 1)
        return by_distance.gather(-1, index.expand(*q.shape[:3], -1))

    def values(self, weights: Tensor, context: AttentionContext, keys: Places) -> Tensor | None:
        return None if self.value_table is None else self.outputs(weights, self._index(context, keys))

    def outputs(self, weights: Tensor, index: Tensor) -> Tensor:
        """Σ_j α_ij aⱽ by the rows of the table, (B, H, Q, K) -> (B, H, Q, value size)."""
        assert self.value_table is not None  # else the weights are not needed
        zeros = weights.new_zeros(*weights.shape[:3], 2 * self.distance + 1)
        return zeros.scatter_add(-1, index.expand_as(weights), weights) @ self.value_table


class Syntax(Position):
    """Learned vectors for the distance in the text and for that in the dependency tree, as `shaw`, with
    `depth` on the embeddings (Wang et al. 2019).

    The distance in the tree is the number of arcs between two words, negative for a key to the left of the
    query; pieces of one word have the distance 0. tree_distance: where it is clipped.
    """

    inside, structural, outside = True, True, "depth"

    def __init__(
        self,
        *,
        heads: int,
        key_size: int,
        value_size: int,
        distance: Whole = 16,
        tree_distance: Whole = 8,
        per_head: bool = False,
        values: bool = True,
    ):
        super().__init__()
        options: dict[str, Any] = {"heads": heads, "key_size": key_size, "value_size": value_size}
        options |= {"per_head": per_head, "values": values}
        self.linear, self.tree = Shaw(**options, distance=distance), Shaw(**options, distance=tree_distance)
        self.needs_weights = values

    def bias(self, q: Tensor, context: AttentionContext, keys: Places) -> Tensor:
        linear, index = self.linear.bias(q, context, keys), self._index(context, keys)
        if index is None:
            return linear
        return linear + self.tree.scores(q, index) * self._known(keys)

    def values(self, weights: Tensor, context: AttentionContext, keys: Places) -> Tensor | None:
        linear, index = self.linear.values(weights, context, keys), self._index(context, keys)
        if linear is None or index is None:
            return linear
        return linear + self.tree.outputs(weights, index) * self._known(keys)

    def _index(self, context: AttentionContext, keys: Places) -> Tensor | None:
        """The clipped distance in the tree as a row of the tables, (B, 1, Q, K); None without trees."""
        trees, most = keys.trees, self.tree.distance
        if trees is None or keys is not context.queries:
            return None

        def rows() -> Tensor:
            signed = trees.distance[:, None] * -context.distance(keys).sign()
            return signed.clamp(-most, most) + most

        return context.once(("tree", most), keys, rows)

    def _known(self, keys: Places) -> Tensor:
        assert keys.trees is not None  # there is an index
        return keys.trees.known[:, None, None, None]


class Rotary(Position):
    """Rotates dimensions 2i and 2i+1 by pos / base^(2i/E): distances count (Su et al. 2021, eq. 15)."""

    inside = True

    def __init__(self, *, key_size: int, base: Base = 10000.0):
        super().__init__()
        if key_size % 2:
            raise ConfigError(f"position rotary turns pairs, but a head has size {key_size}; use an even one")
        self.base, self.pairs = base, key_size // 2
        self._tables: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def turn(self, x: Tensor, places: Places) -> Tensor:
        return self._turned(x, self.turns(places, x))

    def turn_back(self, x: Tensor, places: Places) -> Tensor:
        return self._turned(x, self.turns(places, x).conj())

    def _turned(self, x: Tensor, turns: Tensor) -> Tensor:
        turns = turns[:, None] if turns.dim() == 3 else turns
        return _Turn.apply(x.to(turns.real.dtype), turns).to(x.dtype)

    def turns(self, places: Places, like: Tensor) -> Tensor:
        """exp(i · angle) of each pair at each place: (T, E/2) or (B, T, E/2); (1, E/2) if all are equal."""
        first, last = places.first, places.last
        table = self._table(1 + (int(places.pos.max()) if last is None else last), like)
        if first is not None and last is not None and (first == last or last - first + 1 == places.count):
            return table.narrow(0, first, last - first + 1)  # one position for all tokens, or a run
        return table[places.pos]

    def _table(self, count: int, like: Tensor) -> Tensor:
        """At least `count` rows. Not a buffer: converting the model to half precision must not round it."""
        kind = torch.complex128 if like.dtype == torch.float64 else torch.complex64
        known = self._tables.get((like.device, kind))
        if known is None or len(known) < count:
            with torch.inference_mode(False), torch.device("cpu"):  # the table outlives the call
                even = torch.arange(0, 2 * self.pairs, 2, dtype=torch.float64)
                speeds = self.base ** (-even / (2 * self.pairs))
                angles = torch.arange(max(2 * count, 256), dtype=torch.float64)[:, None] * speeds
                known = torch.polar(torch.ones_like(angles), angles).to(like.device, kind)
            self._tables[like.device, kind] = known
        return known


class _Turn(Function):
    """The product of pairs of dimensions, as complex numbers, with `turns`. Its gradient turns back; the one
    that torch derives takes several times as long.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, turns: Tensor) -> Tensor:
        ctx.turns = turns
        return _turned(x, turns)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _turned(grads[0], ctx.turns.conj()), None


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate pairs of x, without a copy of x where its memory consists of pairs."""
    pairs = x.unflatten(-1, (-1, 2))
    whole = all(stride % 2 == 0 for stride in pairs.stride()[:-1]) and pairs.storage_offset() % 2 == 0
    complex_pairs = torch.view_as_complex(pairs if whole and pairs.stride(-1) == 1 else pairs.contiguous())
    return torch.view_as_real(complex_pairs * turns).flatten(-2)


class Alibi(Position):
    """Scores fall with the distance, at a slope of 2^(−8h/H) for head h (Press et al. 2022); symmetric where
    the future is visible.
    """

    inside = True

    def __init__(self, *, heads: int):
        super().__init__()
        self.slopes: Tensor
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes[:, None, None])  # saved: a pruned model has some of them

    def bias(self, q: Tensor, context: AttentionContext, keys: Places) -> Tensor:
        return -(self.slopes.to(q.dtype) * context.distance(keys).abs())

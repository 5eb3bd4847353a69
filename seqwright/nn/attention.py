"""The one attention: softmax(score(q, k) + bias) · v. Scores, positions, masks and projections are its parts.

| mechanism | projections | score | position |
|---|---|---|---|
| Luong et al. 2015, dot / general | "" | dot / bilinear | none |
| Bahdanau et al. 2015; Luong et al. 2015, concat | "qk" | additive | none |
| Vaswani et al. 2017 | "qkvo" | scaled_dot | none (outside) |
| Shaw et al. 2018, rotary, ALiBi | "qkvo" | scaled_dot | shaw, rotary, alibi |
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count, Whole, parse
from seqwright.errors import ConfigError
from seqwright.nn.band import Band
from seqwright.nn.dropout import Dropout
from seqwright.nn.inference_weights import FewRows, Function, InferenceModule, bias_of, bound, drops
from seqwright.nn.kv_cache import Keys
from seqwright.nn.masks import AttentionContext, Mask, MaskBias, Places
from seqwright.nn.positions import POSITIONS, NoPosition
from seqwright.nn.scores import SCORES, Score

Spec = str | Mapping[str, Any]
EVERYTHING = Mask()


@dataclass(frozen=True)
class Look:
    """One call of an attention as its recorder gets it, before dropout."""

    q: Tensor  # (G, H, Q, E): the queries of all rows that share the keys, with their positions encoded
    keys: Keys
    scores: Tensor  # (G, H, Q, K): the input of the softmax
    weights: Tensor  # (G, H, Q, K): its output
    width: int  # rows that share the keys


class Attention(InferenceModule["BoundAttention"]):
    """Queries of `size` attend to a memory of `memory_size` (the same by default) with `heads` heads.

    projections: which of query, key, value and output get a linear map; without one, the vectors themselves
    are split into heads.
    head_size: the size of a query and a key (default size / heads); value_size: the size of a value (default
    head_size). heads may be 0, with a head_size: an attention whose heads are all pruned outputs its bias.
    gate: a factor of each head's output before the output projection (ξ of Michel et al. 2019, 2.3; g of
    Voita et al. 2019, 6.1), (H, 1, 1) or (G, H, Q or 1, 1); None: no factor. `seqwright.lens.heads.gates`
    sets it; it is neither saved nor trained with the weights.
    """

    recorder: Callable[[Look], None] | None = None
    gate: Tensor | None = None

    def __init__(
        self,
        size: int,
        memory_size: int | None = None,
        mask: Mask = EVERYTHING,
        *,
        heads: Whole = 1,
        head_size: Count | None = None,
        value_size: Count | None = None,
        projections: str = "qkvo",
        score: Spec = "scaled_dot",
        position: Spec = "none",
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        memory_size = memory_size or size
        if unknown := set(projections) - set("qkvo"):
            raise ConfigError(f"projections is {projections!r} with {sorted(unknown)}; use only q, k, v, o")
        divided = size if {"q", "k"} & set(projections) else memory_size
        own_size = head_size or _per_head(divided, heads, "size")
        self.heads, self.mask, self.projections = heads, mask, projections
        self.query_size = own_size if "q" in projections else _per_head(size, heads, "size")
        self.key_size = own_size if "k" in projections else _per_head(memory_size, heads, "memory_size")
        split = "v" not in projections
        self.value_size = _per_head(memory_size, heads, "memory_size") if split else value_size or own_size
        inner = heads * self.value_size
        self.out_size = size if "o" in projections else inner
        self.query = _linear(size, heads * self.query_size, bias) if "q" in projections else nn.Identity()
        # for each head its key, then its value: one product for both; a head is a run of rows
        projected = self.key_size * ("k" in projections) + self.value_size * ("v" in projections)
        self.key_value = _linear(memory_size, heads * projected, bias) if projected else nn.Identity()
        self.out = _linear(inner, size, bias) if "o" in projections else nn.Identity()
        sizes = {name: getattr(self, name) for name in ("heads", "query_size", "key_size", "value_size")}
        self.score = SCORES.build(score, **sizes)
        _check_inside(position)
        self.position = POSITIONS.build(position, **sizes)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot uniform per projection, biases zero."""
        for layer in (self.query, self.key_value, self.out):
            if isinstance(layer, nn.Linear) and layer.bias is not None:
                nn.init.zeros_(layer.bias)
            if isinstance(layer, nn.Linear) and layer is not self.key_value:
                nn.init.xavier_uniform_(layer.weight)
            elif isinstance(layer, nn.Linear):
                rows, columns = layer.weight.shape
                bound = (6 / (columns + rows / len({"k", "v"} & set(self.projections)))) ** 0.5
                nn.init.uniform_(layer.weight, -bound, bound)

    def zero_output(self) -> None:
        """Start with an output of zero."""
        if isinstance(self.out, nn.Linear):
            nn.init.zeros_(self.out.weight)

    def bind(self) -> BoundAttention:
        return BoundAttention(self)

    def keys(self, memory: Tensor, places: Places) -> Keys:
        """The keys and values by head of a memory (B, K, memory size)."""
        return self.bound().keys(memory, places)

    def forward(self, query: Tensor, context: AttentionContext, keys: Keys) -> Tensor:
        """query (G, Q, size) -> (G, Q, out size)."""
        return self.bound()(query, context, keys)

    def weights(self, query: Tensor, context: AttentionContext, keys: Keys) -> Tensor:
        """The weights of the keys alone, with gradients: query (G, Q, size) -> (G, H, Q, K)."""
        own = self.bound()
        return own.scores_and_weights(own.queries(query, context.queries), context, keys)[1]


class BoundAttention:
    """An attention as functions of its weights (see `seqwright.nn.inference_weights`)."""

    def __init__(self, home: Attention):
        self.home, self.heads, self.mask = home, home.heads, home.mask
        self.query_size, self.key_size, self.value_size = home.query_size, home.key_size, home.value_size
        self.projects_key, self.projects_value = "k" in home.projections, "v" in home.projections
        self.query, self.key_value, self.out = bound(home.query), bound(home.key_value), bound(home.out)
        self.score, self.position, self.dropout = home.score, home.position, home.dropout
        self.inside = self.position.inside
        self.prepares_keys = type(self.score).prepare_keys is not Score.prepare_keys
        self.drops = drops(self.dropout)
        # the fused kernel computes dot products and does not return the weights
        weightless = not (self.position.needs_weights or self.drops)
        self.fusible = self.score.multiplicative and weightless and self.heads > 0
        # measured on two cores: plain products are faster for a few queries in each of many groups, as in a
        # batch of beams
        cpu = next(home.parameters(), torch.empty(0)).device.type == "cpu"
        self.few_groups = 64 // max(self.heads, 1) if cpu else math.inf
        self.pair_size = self.key_size + self.value_size

    @cached_property
    def joint(self) -> Function | None:
        """One product for query, key and value of self-attention, head by head, without gradients."""
        query, key_value, heads = self.query, self.key_value, self.heads
        whole = heads and self.projects_key and self.projects_value
        if not (whole and isinstance(query, FewRows) and isinstance(key_value, FewRows)):
            return None

        def merged(*parts: Tensor) -> Tensor:
            return torch.cat([part.unflatten(0, (heads, -1)) for part in parts], 1).flatten(0, 1)

        biased = query.bias is not None or key_value.bias is not None
        bias = merged(bias_of(query), bias_of(key_value)) if biased else None
        return FewRows(merged(query.weight, key_value.weight), bias)

    def keys(self, memory: Tensor, places: Places) -> Keys:
        """memory (B, K, memory size) -> keys and values (B, H, K, …)."""
        if self.projects_key and self.projects_value:
            return self._keys(self._split(self.key_value(memory), self.pair_size), places)
        k = self.score.prepare_keys(
            self._split(self.key_value(memory) if self.projects_key else memory, self.key_size)
        )
        v = self._split(self.key_value(memory) if self.projects_value else memory, self.value_size)
        return Keys.of(self.position.turn(k, places) if self.inside else k, v, places)

    def _keys(self, both: Tensor, places: Places) -> Keys:
        keys = Keys(both, (self.key_size, self.value_size), places)
        if not (self.inside or self.prepares_keys):
            return keys
        k = self.score.prepare_keys(keys.k)
        return Keys.of(self.position.turn(k, places) if self.inside else k, keys.v, places)

    def _split(self, x: Tensor, size: int) -> Tensor:
        """(B, T, H · E) -> (B, H, T, E)."""
        return by_head(x, x.shape[0], x.shape[1], self.heads, size)

    def fuses(self, groups: int, count: int) -> bool:
        """Whether the fused kernel is possible, and faster for `count` queries in each group."""
        return self.fusible and (groups <= self.few_groups or not 1 < count <= 8)

    def queries(self, x: Tensor, places: Places) -> Tensor:
        """x (G, Q, size) -> (G, H, Q, E)."""
        q = self._split(self.query(x), self.query_size)
        return self.position.turn(q, places) if self.inside else q

    def queries_and_keys(self, x: Tensor, places: Places) -> tuple[Tensor, Keys]:
        """The queries and keys of self-attention."""
        if self.joint is None:
            return self.queries(x, places), self.keys(x, places)
        joint = self._split(self.joint(x), self.query_size + self.pair_size)
        q, both = joint.split_with_sizes((self.query_size, self.pair_size), -1)
        return (self.position.turn(q, places) if self.inside else q), self._keys(both, places)

    def __call__(self, query: Tensor, context: AttentionContext, keys: Keys) -> Tensor:
        """query (G, Q, size) -> (G, Q, out size)."""
        return self.attend(self.queries(query, context.queries), context, keys)

    def attend(self, q: Tensor, context: AttentionContext, keys: Keys) -> Tensor:
        """q (G, H, Q, E) -> (G, Q, out size)."""
        band = None if self.mask.window is None else Band.of(self.mask, context, keys)
        if band is None:
            attended = self._attended(q, context, keys)
        else:
            attended = self._in_blocks(q, context, keys, band)
        home = self.home
        if home.gate is not None:
            attended = attended * home.gate
        if home.recorder is not None:  # a separate computation: recording changes no output
            home.recorder(Look(q, keys, *self.scores_and_weights(q, context, keys), context.width))
        return self.out(by_row(attended, attended.shape[0], attended.shape[2]))

    def scores_and_weights(self, q: Tensor, context: AttentionContext, keys: Keys) -> tuple[Tensor, Tensor]:
        """q (G, H, Q, E) -> the input of the softmax and its output, (G, H, Q, K) each."""
        bias, blind = self._bias(q, context, keys)
        scores = self._scores(q, keys, bias)
        weights = scores.softmax(-1)
        return scores, weights if blind is None else weights.masked_fill(blind, 0.0)

    def _in_blocks(self, q: Tensor, context: AttentionContext, keys: Keys, band: Band) -> Tensor:
        """The same as `_attended`, in blocks; the global queries, which see every key, apart."""
        near = band.join(self._attended(band.split(q), band.context, band.keys(keys)))
        first = context.queries.first or 0
        count = max(self.mask.global_tokens - first, 0)
        if not count:
            return near
        own = AttentionContext(Places.run(first, count, device=q.device))
        return torch.cat([self._attended(q[:, :, :count], own, keys), near[:, :, count:]], 2)

    def _attended(self, q: Tensor, context: AttentionContext, keys: Keys) -> Tensor:
        """q (G, H, Q, E) -> (G, H, Q, value size)."""
        bias, blind = self._bias(q, context, keys)
        if self.fuses(q.shape[0], q.shape[2]):
            query, scale = self.score.prepare(q), self.score.factor
            attended = F.scaled_dot_product_attention(query, *keys.pair, attn_mask=bias, scale=scale)
        else:
            attended = self._plain(q, context, keys, bias)
        return attended if blind is None else attended.masked_fill(blind, 0.0)

    def _bias(self, q: Tensor, context: AttentionContext, keys: Keys) -> MaskBias:
        """The bias of mask and position together, and the queries that see no key."""
        bias, blind = context.mask_bias(self.mask, keys.places, q.dtype)
        if self.inside:
            own = self.position.bias(self.score.prepare(q) * self.score.factor, context, keys.places)
            bias = bias if own is None else own if bias is None else own + bias
        return MaskBias(bias, blind)

    def _plain(self, q: Tensor, context: AttentionContext, keys: Keys, bias: Tensor | None) -> Tensor:
        """softmax(score + bias) · v (G, H, Q, value size)."""
        weights = self._scores(q, keys, bias).softmax(-1)  # (G, H, Q, K)
        if self.drops:
            weights = self.dropout(weights)
        attended = weights @ keys.v
        extra = self.position.values(weights, context, keys.places)
        return attended if extra is None else attended + extra

    def _scores(self, q: Tensor, keys: Keys, bias: Tensor | None) -> Tensor:
        scores = self.score(q, keys.k)
        return scores if bias is None else scores + bias


def by_head(x: Tensor, rows: int, count: int, heads: int, size: int) -> Tensor:
    """(B, T, H · E) or (B · T, H · E) -> (B, H, T, E)."""
    if count == 1:  # a view of the same memory
        return x.view(rows, heads, 1, size)
    return x.view(rows, count, heads, size).transpose(1, 2)


def by_row(attended: Tensor, *rows: int) -> Tensor:
    """(B, H, T, E) -> (*rows, H · E); rows: B and T, or B · T."""
    _, heads, count, size = attended.shape
    turned = attended if count == 1 else attended.transpose(1, 2)
    return turned.reshape(*rows, heads * size)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Initializing zero-element")  # if all heads are pruned
        return nn.Linear(inputs, outputs, bias=bias)


def _check_inside(position: Spec) -> None:
    name, _ = parse("position", position)
    part: Any = POSITIONS.get(name)
    if not (part.inside or part is NoPosition):
        inside = [each for each in POSITIONS.names() if POSITIONS.get(each).inside]  # type: ignore[attr-defined]
        raise ConfigError(f"position {name} is for embeddings; in attention use none, {', '.join(inside)}")


def _per_head(size: int, heads: int, name: str) -> int:
    if heads < 1 or size % heads:
        near = min((h for h in range(1, size + 1) if size % h == 0), key=lambda h: abs(h - heads))
        raise ConfigError(
            f"heads is {heads}, which does not divide {name} {size}; try {near}, or give head_size"
        )
    return size // heads

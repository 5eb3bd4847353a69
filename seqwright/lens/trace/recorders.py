"""Records of one forward pass: weights and vectors of the attentions, inputs of the recurrent layers.

Weights are reduced to the size of a trace as they arrive, so a long text needs little additional memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.config.registry import snake_case
from seqwright.lens.capture import recording
from seqwright.lens.heads.gates import Kind, Side, Site, sites
from seqwright.lens.heads.roles import AttentionBatch, Behaviour, HeadStatistics
from seqwright.lens.trace.packing import pooled
from seqwright.nn.attention import Attention, Look
from seqwright.nn.hierarchical_attention import HierarchicalAttention
from seqwright.nn.masks import AttentionContext, Places
from seqwright.nn.pooling import Attention as AttentionPooling
from seqwright.nn.recurrent import Pass, Recurrent
from seqwright.nn.scores import Additive, Bilinear

CELLS = 10_000_000  # weights in a trace at most: 256 × 256 in 6 layers of 8 heads of 3 kinds fit
MASKED = -1e30  # a score below this comes from the mask

KindShapes = Mapping[Kind, tuple[int, int]]  # the numbers of queries and keys of each kind of attention


@dataclass
class AttentionRecord:
    """The record of one attention: weights (H, ⌈Q / block⌉, ⌈K / block⌉) and the behaviour of each head."""

    site: Site
    queries: int
    keys: int
    block: tuple[int, int]
    max_bytes: int  # of its vectors
    weights: np.ndarray = field(init=False)
    behaviours: list[Behaviour] = field(init=False)
    vectors: dict[str, Any] | None = None
    _looks: list[Look] = field(default_factory=list, repr=False)

    def add(self, look: Look) -> None:
        """Add one call. A recurrent decoder calls its attention for each token, a Transformer once. Keys that
        change from call to call have no vectors in a trace.

        An encoder that cuts its input into parts has other rows and keys, and a compressed memory has other
        keys; they are left out.
        """
        if not self.site.by_token or look.weights.shape[0] != 1 or look.weights.shape[3] != self.keys:
            return
        self._looks.append(look)
        if sum(one.weights.shape[2] for one in self._looks) < self.queries:
            return
        looks, self._looks = self._looks, []
        weights = torch.cat([look.weights for look in looks], 2)  # (1, H, Q, K)
        self.behaviours = self._behaviours(weights)
        self.weights = pooled(numpy(weights[0]), self.block)
        size = sum(look.q.numel() for look in looks) + looks[-1].keys.k.numel() + looks[-1].keys.v.numel()
        same_keys = all(look.keys is looks[-1].keys for look in looks)
        if same_keys and 4 * size <= self.max_bytes:
            self.vectors = vectors_of(self.site, looks, weights)

    @property
    def complete(self) -> bool:
        return hasattr(self, "weights")

    def _behaviours(self, weights: Tensor) -> list[Behaviour]:
        """The behaviour of each head in this text alone."""
        if not self.site.attention.heads:
            return []
        queries, keys = (torch.ones(1, size, dtype=torch.bool) for size in weights.shape[2:])
        sink = torch.zeros_like(keys)
        sink[0, 0 if self.site.kind == "dec" else -1] = True
        statistics = HeadStatistics(self.site.kind, self.site.attention.heads)
        statistics.add(AttentionBatch(weights, queries, keys, sink))
        return statistics.behaviours()


def after_prompt(records: Sequence[AttentionRecord], prompt: int) -> list[AttentionRecord]:
    """The self-attention over a prompt and an output as two: to the prompt (cross), and to the output (dec).

    The weights of both together sum to 1 at each step. They are left out where neighbours are stored as one.
    """
    found: dict[Kind, list[AttentionRecord]] = {"dec": [], "cross": []}
    for one in (record for record in records if record.block == (1, 1)):
        rows = one.weights[:, prompt:]  # (H, T, S + T)
        for kind, own in found.items():
            weights = rows[..., :prompt] if kind == "cross" else rows[..., prompt:]
            _, queries, keys = weights.shape
            part = AttentionRecord(replace(one.site, kind=kind), queries, keys, one.block, 0)
            part.weights = weights
            shares = weights / np.maximum(weights.sum(-1, keepdims=True), np.finfo(weights.dtype).tiny)
            part.behaviours = part._behaviours(torch.from_numpy(shares)[None])
            own.append(part)
    return [*found["dec"], *found["cross"]]


def vectors_of(site: Site, looks: Sequence[Look], weights: Tensor) -> dict[str, Any] | None:
    """The vectors behind the weights of one attention, without B (docs/trace.md); None for a custom score."""
    score, keys = site.attention.score, looks[-1].keys
    if not (score.multiplicative or isinstance(score, Additive)):
        return None
    q = torch.cat([look.q for look in looks], 2)
    scores = torch.cat([look.scores for look in looks], 2)
    bias = (scores - score(q, keys.k)).masked_fill(scores < MASKED, -torch.inf)[0]  # (H, Q, K)
    if torch.equal(bias, bias[:1].expand_as(bias)):
        bias = bias[:1]
    context = AttentionContext(Places.run(0, q.shape[2], device=q.device))
    extra = site.attention.position.values(weights, context, keys.places)
    return {
        "score": snake_case(type(score).__name__),
        "factor": float(score.factor),
        "q": numpy(score.prepare(q)[0]),
        "k": numpy(keys.k[0]),
        "v": numpy(keys.v[0]),
        "bias": numpy(bias) if bias.any() else None,
        "raw_q": numpy(q[0]) if isinstance(score, Bilinear) else None,
        "weight": numpy(score.weight) if isinstance(score, Additive) else None,
        "value_bias": None if extra is None else numpy(extra[0]),
    }


@dataclass
class RecurrentRecord:
    """The passes of tokens through one recurrent layer, in order."""

    name: str
    part: Recurrent
    layer: int
    passes: list[Pass] = field(default_factory=list)

    @property
    def side(self) -> Side:
        return "encoder" if self.name.startswith("encoder.") else "decoder"

    def covers(self, tokens: int) -> bool:
        """Whether the layer read one row of so many tokens."""
        return [one.x.shape[0] for one in self.passes] == [1] * len(self.passes) and tokens == sum(
            one.x.shape[1] for one in self.passes
        )


@contextmanager
def record_layers(
    model: nn.Module, lengths: KindShapes, max_bytes: int
) -> Iterator[tuple[list[AttentionRecord], list[RecurrentRecord]]]:
    """Record the attentions and the recurrent layers in one pass of one row inside the block."""
    every = sites(model)
    fits = sum(site.attention.heads * math.prod(lengths[site.kind]) for site in every) <= CELLS
    limit = CELLS // max(1, len(every))
    attentions: dict[str, AttentionRecord] = {}
    for site in every:
        queries, keys = lengths[site.kind]
        # All layers of a kind share the side of a block, because the page joins their weights.
        heads = max(other.attention.heads for other in every if other.kind == site.kind)
        sides = (n for n in count(1) if fits or heads * -(-queries // n) * -(-keys // n) <= limit)
        attentions[site.name] = AttentionRecord(site, queries, keys, (next(sides),) * 2, max_bytes)
    recurrent: list[RecurrentRecord] = []
    with ExitStack() as stack:
        adding = {name: record.add for name, record in attentions.items()}
        stack.enter_context(recording(model, adding.get))
        for name, part in model.named_modules():
            if isinstance(part, Recurrent):
                layers = [RecurrentRecord(name, part, layer) for layer in range(len(part.layers))]
                stack.callback(setattr, part, "recorder", part.recorder)
                part.recorder = lambda one, layers=layers: layers[one.layer].passes.append(one)
                recurrent += layers
        yield list(attentions.values()), recurrent


@contextmanager
def record_pooling(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Record the weights (B, S) of every attention pooling inside the block, by its name in the model; and
    after it those of the words of all turns in a hierarchical attention, (T, S), of one row.
    """
    found: dict[str, Tensor] = {}
    parts = model.named_modules()
    words = {f"{name}.words" for name, part in parts if isinstance(part, HierarchicalAttention)}
    words -= {site.name for site in sites(model)}  # of a source without turns
    looks: dict[str, list[Look]] = {name: [] for name in words}

    def keep(name: str) -> Callable[[Look], None] | None:
        if name in looks:
            return looks[name].append
        pools = isinstance(model.get_submodule(name), AttentionPooling)
        return (lambda look: found.__setitem__(name, look.weights[:, 0, 0])) if pools else None

    with recording(model, keep, (AttentionPooling, Attention)):
        yield found
    found |= {name: _words_by_step(calls) for name, calls in looks.items() if calls}


def _words_by_step(looks: Sequence[Look]) -> Tensor:
    """The weights of the words of all turns at each step, (T, words), as the mean of the heads.

    A hierarchical attention calls that of the words for one turn after the other, the last turn first. A turn
    has the same keys at every step.
    """
    turns: dict[int, list[Tensor]] = {}
    for look in looks:
        turns.setdefault(id(look.keys), []).append(look.weights[0].mean(0))  # (Q, K)
    return torch.cat([torch.cat(calls) for calls in reversed(turns.values())], -1)


def numpy(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()

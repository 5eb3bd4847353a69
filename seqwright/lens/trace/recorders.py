"""One pass of a model, watched: the weights and vectors of its attentions, what went into recurrent layers.

What is seen is brought to the size of a trace at once, so that a long text needs little more memory than
without anybody watching.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.config.registry import snake_case
from seqwright.lens.capture import recording
from seqwright.lens.heads.gates import Kind, Site, sites
from seqwright.lens.heads.roles import Behaviour, Looks, View
from seqwright.lens.trace.packing import pooled
from seqwright.nn.attention import Look
from seqwright.nn.masks import AttentionContext, Places
from seqwright.nn.recurrent import Pass, Recurrent
from seqwright.nn.scores import Additive, Bilinear

CELLS = 10_000_000  # weights in a trace at most: 256 × 256 in 6 layers of 8 heads of 3 kinds fit
MASKED = -1e30  # a score below this is one of the mask

Lengths = Mapping[Kind, tuple[int, int]]  # queries and keys of a kind


@dataclass(frozen=True)
class Vectors:
    """The numbers behind the weights of one attention; what it does not have is None. Shapes without B."""

    score: str
    factor: float
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    bias: np.ndarray | None
    raw_q: np.ndarray | None
    weight: np.ndarray | None
    value_bias: np.ndarray | None


@dataclass
class Watched:
    """What one attention did. weights (H, ⌈Q / block⌉, ⌈K / block⌉); one of the behaviours for each head."""

    at: Site
    queries: int
    keys: int
    block: tuple[int, int]
    room: int  # bytes that its vectors may have
    weights: np.ndarray = field(init=False)
    behaviours: list[Behaviour] = field(init=False)
    vectors: Vectors | None = None
    _looks: list[Look] = field(default_factory=list, repr=False)

    def take(self, look: Look) -> None:
        """A recurrent decoder looks once a token, a Transformer once: the last look completes it."""
        self._looks.append(look)
        if sum(one.weights.shape[2] for one in self._looks) == self.queries:
            self._complete(self._looks)
            self._looks = []

    def _complete(self, looks: list[Look]) -> None:
        weights = torch.cat([look.weights for look in looks], 2)  # (1, H, Q, K)
        self.behaviours = self._behaviours(weights)
        self.weights = pooled(numpy(weights[0]), self.block)
        size = sum(look.q.numel() for look in looks) + looks[-1].keys.k.numel() + looks[-1].keys.v.numel()
        if 4 * size <= self.room:
            self.vectors = vectors_of(self.at, looks)

    def _behaviours(self, weights: Tensor) -> list[Behaviour]:
        """What the heads, if any are left, do in this text alone."""
        if not self.at.attention.heads:
            return []
        queries, keys = (torch.ones(1, count, dtype=torch.bool) for count in weights.shape[2:])
        sink = torch.zeros_like(keys)
        sink[0, 0 if self.at.kind == "dec" else -1] = True
        looks = Looks(self.at.kind, self.at.attention.heads)
        looks.add(View(weights, queries, keys, sink))
        return looks.behaviours()


def vectors_of(at: Site, looks: Sequence[Look]) -> Vectors | None:
    """What makes the weights; None for a score from outside that is neither a product nor additive."""
    score, keys = at.attention.score, looks[-1].keys
    q = torch.cat([look.q for look in looks], 2)
    scores = torch.cat([look.scores for look in looks], 2)
    if not (score.multiplicative or isinstance(score, Additive)):
        return None
    sight = AttentionContext(Places.run(0, q.shape[2], device=q.device))
    weights = torch.cat([look.weights for look in looks], 2)
    extra = at.attention.position.values(weights, sight, keys.places)
    return Vectors(
        score=snake_case(type(score).__name__),
        factor=float(score.factor),
        q=numpy(score.prepare(q)[0]),
        k=numpy(keys.k[0]),
        v=numpy(keys.v[0]),
        bias=_bias(scores - score(q, keys.k), scores),
        raw_q=numpy(q[0]) if isinstance(score, Bilinear) else None,
        weight=numpy(score.weight) if isinstance(score, Additive) else None,
        value_bias=None if extra is None else numpy(extra[0]),
    )


def _bias(added: Tensor, scores: Tensor) -> np.ndarray | None:
    """What was added to the scores (1, H, Q, K): −inf by the mask; one for all heads where they agree."""
    bias = added.masked_fill(scores < MASKED, -torch.inf)[0]
    if not bias.any():
        return None
    return numpy(bias[:1] if torch.equal(bias, bias[:1].expand_as(bias)) else bias)


@dataclass
class Passes:
    """The passes of tokens through one layer of recurrent cells, in order."""

    name: str
    part: Recurrent
    layer: int
    found: list[Pass] = field(default_factory=list)


@contextmanager
def watch(model: nn.Module, lengths: Lengths, room: int) -> Iterator[tuple[list[Watched], list[Passes]]]:
    """What the attentions and the recurrent layers do in one pass of one row inside the block."""
    shapes = [(site, *lengths[site.kind]) for site in sites(model)]
    fits = sum(site.attention.heads * queries * keys for site, queries, keys in shapes) <= CELLS
    limit = CELLS // max(1, len(shapes))
    heads = [(site.kind, site.attention.heads) for site, _, _ in shapes]
    most = {kind: max(count for other, count in heads if other == kind) for kind, _ in heads}
    blocks = {kind: 1 if fits else _block(most[kind], *lengths[kind], limit) for kind in most}
    watched = {
        site.name: Watched(site, queries, keys, (blocks[site.kind], blocks[site.kind]), room)
        for site, queries, keys in shapes
    }
    passes: list[Passes] = []
    with ExitStack() as stack:
        stack.enter_context(recording(model, lambda name: watched[name].take))
        for name, part in model.named_modules():
            if isinstance(part, Recurrent):
                passes += stack.enter_context(_recorded(name, part))
        yield list(watched.values()), passes


@contextmanager
def _recorded(name: str, part: Recurrent) -> Iterator[list[Passes]]:
    layers = [Passes(name, part, layer) for layer in range(len(part.layers))]
    before = part.recorder
    part.recorder = lambda one: layers[one.layer].found.append(one)
    try:
        yield layers
    finally:
        part.recorder = before


def _block(heads: int, queries: int, keys: int, limit: int) -> int:
    """The least side of a square block with which the weights of so many heads are within a limit. It is one
    for all layers of a kind, however many heads are left in them: their weights are joined.
    """
    size = 1
    while heads * -(-queries // size) * -(-keys // size) > limit:
        size += 1
    return size


def numpy(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()

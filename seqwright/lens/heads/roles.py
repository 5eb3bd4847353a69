"""What the heads of an attention look at, and the names that Voita et al. 2019 gave to it.

The end of the sentence is left out as a key wherever a largest weight is looked for, as in the paper: heads
that have nothing to do look there. Padding is always left out. Shapes: B rows, H heads, Q queries, K keys.

| role | a head has it if | threshold of |
|---|---|---|
| positional | its largest weight lies at one distance for 90 % of the tokens | the paper |
| syntactic | it finds a relation 10 points more often than its commonest distance does | the paper |
| rare | its largest weight is on the rarest token for half of the queries | ours (the paper found 66 %) |
| alignment | it is confident (0.5), and its largest weights are spread over the source (80 %) | ours |
| end, begin | half of its queries look at the end, in a decoder at the begin, more than at anything | ours |
| diffuse | its entropy is 75 % of that of looking at all alike | ours |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seqwright.lens.heads.gates import Kind

POSITIONAL, RARE, ALIGNED, CONFIDENT, SINK, DIFFUSE = 0.9, 0.5, 0.8, 0.5, 0.5, 0.75
FREQUENT = 500  # types; a sentence of these alone has no rare token
FURTHEST = 8  # the distances −8 … 8 are tried

Links = frozenset[tuple[int, int]] | set[tuple[int, int]]
"""An alignment: (place in the source, place in the target), counted in tokens from 0."""


@dataclass(frozen=True)
class View:
    """One batch as the heads of an attention saw it.

    weights (B, H, Q, K); queries (B, Q) and keys (B, K): True where there is a token; sink (B, K): True at
    the end of a source, or at the begin of a target. rare (B, 2): see `rarest`. links: known alignments.
    """

    weights: Tensor
    queries: Tensor
    keys: Tensor
    sink: Tensor
    rare: Tensor | None = None
    links: Sequence[Links] | None = None


@dataclass(frozen=True)
class Behaviour:
    """What one head does. Shares are from 0 to 1; what does not apply to its kind is None.

    confidence: the mean over queries of the largest weight (Voita et al. 2019, section 4), without and with
    the end as a key. entropy: in nats, the end included; spread: the same over the logarithm of the number of
    keys. sink: the share of queries whose largest weight is on the end (begin). offset: the distance key −
    query that the largest weight has most often, and at what share of the tokens that have such a neighbour.
    rare, rare_two: the share on the rarest token of a sentence, and on one of its two rarest. coverage: how
    many tokens of the source are looked at most by some token of the target, over the shorter length.
    alignment_error: AER (Och & Ney 2003) of the largest weights, all known links being sure ones.
    """

    confidence: float
    confidence_with_end: float
    entropy: float
    spread: float
    sink: float
    offset: int | None = None
    offset_rate: float | None = None
    rare: float | None = None
    rare_two: float | None = None
    coverage: float | None = None
    alignment_error: float | None = None

    def roles(self, kind: Kind) -> dict[str, float]:
        """The roles of the head with the share that makes them so; the one to name it by comes first."""
        found: dict[str, float] = {}
        if self.sink >= SINK:
            found["begin" if kind == "dec" else "end"] = self.sink
        if self.offset_rate is not None and self.offset_rate >= POSITIONAL:
            found["positional"] = self.offset_rate
        if self.coverage is not None and self.coverage >= ALIGNED and self.confidence >= CONFIDENT:
            found["alignment"] = self.coverage
        if self.rare is not None and self.rare >= RARE:
            found["rare"] = self.rare
        if self.spread >= DIFFUSE:
            found["diffuse"] = self.spread
        return found


class Looks:
    """Sums over batches of what the heads of one attention look at; `behaviours` divides them."""

    def __init__(self, kind: Kind, heads: int):
        self.kind, self.heads = kind, heads
        self.queries = 0
        self.sums: dict[str, Tensor] = {}  # (H,), or (H, distances)
        self.counts: dict[str, Tensor] = {}  # what the sum is divided by

    def add(self, view: View) -> None:
        # the begin is a token like others, the end is not
        inner = (
            view.weights if self.kind == "dec" else view.weights.masked_fill(view.sink[:, None, None], 0.0)
        )
        most, place = inner.max(-1)  # (B, H, Q)
        real = view.queries[:, None]  # (B, 1, Q)
        self._mean("confidence", most, real)
        self._mean("confidence_with_end", view.weights.amax(-1), real)
        at_sink = view.sink.gather(1, view.weights.argmax(-1).flatten(1)).view_as(place)
        self._mean("sink", at_sink, real)
        self._entropy(view, real)
        if self.kind == "cross":
            self._alignment(view, place)
        else:
            self._offsets(view, place)
        if view.rare is not None:
            first, second = (view.rare[:, k, None, None] for k in range(2))
            asked = real & (first >= 0)
            self._mean("rare", place == first, asked)
            self._mean("rare_two", (place == first) | (place == second), asked)

    def _mean(self, name: str, values: Tensor, where: Tensor) -> None:
        """values (B, H, Q), averaged where (B, 1, Q) is True."""
        self._add(name, (values.double() * where).sum((0, 2)), where.sum())

    def _add(self, name: str, total: Tensor, count: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0) + total
        self.counts[name] = self.counts.get(name, 0) + count

    def _entropy(self, view: View, real: Tensor) -> None:
        entropy = torch.special.entr(view.weights).sum(-1)
        self._mean("entropy", entropy, real)
        seen = (view.weights > 0).sum(-1)  # (B, H, Q)
        several = (seen.amax(1, keepdim=True) > 1) & real
        self._mean("spread", entropy / seen.clamp(min=2).log(), several)

    def _offsets(self, view: View, place: Tensor) -> None:
        """How often the largest weight lies k to the right, and how often there is a token to look at."""
        keys = view.keys if self.kind == "dec" else view.keys & ~view.sink
        here = torch.arange(place.shape[2])
        hits, chances = [], []
        for k in range(-FURTHEST, FURTHEST + 1):
            there = (here + k).clamp(0, len(here) - 1)
            able = view.queries & keys[:, there] & (there == here + k)  # (B, Q)
            if self.kind == "dec" and k > 0:
                able = torch.zeros_like(able)
            hits.append(((place - here == k) & able[:, None]).sum((0, 2)))
            chances.append(able.sum())
        self._add("offsets", torch.stack(hits, 1).double(), torch.stack(chances))
        self.queries += int(view.queries.sum())

    def _alignment(self, view: View, place: Tensor) -> None:
        """The query at t says the t-th token of the target, the last one its end: that one is left out."""
        lengths = (view.queries.sum(1) - 1).tolist()
        sources = (view.keys & ~view.sink).sum(1).tolist()
        for row, (length, source) in enumerate(zip(lengths, sources, strict=True)):
            if not length or not source:
                continue
            looked = place[row, :, :length]  # (H, T)
            distinct = torch.tensor([len(set(head)) for head in looked.tolist()], dtype=torch.float64)
            self._add("coverage", distinct, torch.tensor(min(length, source)))
            if view.links is not None:
                errors = [_misses(head, view.links[row]) for head in looked.tolist()]
                wrong, every = torch.tensor(errors, dtype=torch.float64).T
                self._add("alignment_error", wrong, every)

    def behaviours(self) -> list[Behaviour]:
        """One for each head."""
        means = {
            name: (total / self.counts[name].clamp(min=1)).tolist()
            for name, total in self.sums.items()
            if name != "offsets" and bool((self.counts[name] > 0).all())
        }
        offsets = self._best_offsets() if "offsets" in self.sums else [(None, None)] * self.heads
        return [
            Behaviour(
                **{"spread": 0.0} | {name: values[head] for name, values in means.items()},
                offset=offsets[head][0],
                offset_rate=offsets[head][1],
            )
            for head in range(self.heads)
        ]

    def _best_offsets(self) -> list[tuple[int | None, float | None]]:
        """The distance with the highest rate, among those that at least half of the tokens can look at; the
        nearest of equal ones.
        """
        chances = self.counts["offsets"]
        rates = self.sums["offsets"] / chances.clamp(min=1)  # (H, distances)
        usual = [k for k in range(-FURTHEST, FURTHEST + 1) if 2 * int(chances[k + FURTHEST]) >= self.queries]
        if not usual:
            return [(None, None)] * self.heads
        best = [max(usual, key=lambda k: (float(row[k + FURTHEST]), -abs(k))) for row in rates]
        return [(k, float(row[k + FURTHEST])) for k, row in zip(best, rates, strict=True)]


def _misses(looked: Sequence[int], sure: Links) -> tuple[float, float]:
    """Numerator and denominator of AER with all links sure: (|A| + |S| − 2 |A ∩ S|, |A| + |S|)."""
    found = {(source, target) for target, source in enumerate(looked)}
    return len(found) + len(sure) - 2 * len(found & set(sure)), len(found) + len(sure)


def ranks(counts: np.ndarray) -> np.ndarray:
    """The place of each id (V,) when they are ordered by how often they come (V,), 0 for the commonest."""
    found = np.empty(len(counts), dtype=np.int64)
    found[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return found


def rarest(ids: Tensor, tokens: Tensor, rank: np.ndarray) -> Tensor:
    """Where the rarest and the second rarest token of each row stand (B, 2); −1 where the rarest is among the
    `FREQUENT` commonest types, or there is none. ids (B, K); tokens (B, K): False at the end and at padding.
    """
    by_place = torch.from_numpy(rank)[ids].masked_fill(~tokens, -1)
    places = torch.full((len(ids), 2), -1)
    worst, first = by_place.max(1)
    rare = worst >= FREQUENT
    second = by_place.scatter(1, first[:, None], -1).max(1)
    places[rare, 0] = first[rare]
    also = rare & (second.values >= 0)
    places[also, 1] = second.indices[also]
    return places

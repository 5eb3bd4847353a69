"""The behaviour of heads, and their roles after Voita et al. 2019.

As in the paper, the end token does not count as a key where the largest weight is searched: heads without a
function attend to it. Padding never counts. Shapes: B rows, H heads, Q queries, K keys.

| role | condition | threshold from |
|---|---|---|
| positional | the largest weight is at one fixed offset for 90 % of the tokens | the paper |
| syntactic | it finds a relation 10 points more often than the most common offset does | the paper |
| rare | the largest weight is on the rarest token for half of the queries | Seqwright (the paper: 66 %) |
| alignment | it is confident (0.5), and its largest weights cover 80 % of the source | Seqwright |
| end, begin | the largest weight is on the end token (decoder: begin) for half of the queries | Seqwright |
| diffuse | the entropy is 75 % of that of uniform weights | Seqwright |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seqwright.lens.heads.gates import Kind

POSITIONAL, RARE, ALIGNED, CONFIDENT, SINK, DIFFUSE = 0.9, 0.5, 0.8, 0.5, 0.5, 0.75
FREQUENT = 500  # types; a sentence of only these has no rare token
FURTHEST = 8  # offsets −8 … 8 are tried

Links = frozenset[tuple[int, int]] | set[tuple[int, int]]  # (source token, target token), from 0


@dataclass(frozen=True)
class AttentionBatch:
    """The weights of one attention for one batch.

    weights (B, H, Q, K); queries (B, Q) and keys (B, K): True for a token, False for padding; sink (B, K):
    True at the end token of a source or the begin token of a target. rare (B, Q or 1, 2): see `rarest`.
    links: known alignments.
    """

    weights: Tensor
    queries: Tensor
    keys: Tensor
    sink: Tensor
    rare: Tensor | None = None
    links: Sequence[Links] | None = None


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of one head. Shares are from 0 to 1; values that do not apply to its kind are None.

    confidence: the mean over queries of the largest weight (Voita et al. 2019, section 4), without and with
    the end token. entropy: in nats, with the end token; spread: entropy over the logarithm of the number of
    keys. sink: the share of queries whose largest weight is on the end (begin) token. offset: the most common
    offset key − query of the largest weight, and its share of the tokens that have such a neighbour. rare,
    rare_two: the share on the rarest token of a sentence, and on its two rarest. coverage: the number of
    source tokens that hold the largest weight of some target token, over the shorter length. alignment_error:
    AER (Och & Ney 2003) of the largest weights, with all known links sure.
    """

    confidence: float
    confidence_with_end: float
    entropy: float
    spread: float = 0.0
    sink: float = 0.0
    offset: int | None = None
    offset_rate: float | None = None
    rare: float | None = None
    rare_two: float | None = None
    coverage: float | None = None
    alignment_error: float | None = None

    def roles(self, kind: Kind, syntactic: float | None = None) -> dict[str, float]:
        """The roles with the shares that decide them, the main role first. syntactic: the best accuracy."""
        conditions = [  # role, share, threshold
            ("begin" if kind == "dec" else "end", self.sink, SINK),
            ("positional", self.offset_rate, POSITIONAL),
            ("alignment", self.coverage if self.confidence >= CONFIDENT else None, ALIGNED),
            ("syntactic", syntactic, 0.0),
            ("rare", self.rare, RARE),
            ("diffuse", self.spread, DIFFUSE),
        ]
        return {role: share for role, share, least in conditions if share is not None and share >= least}


class HeadStatistics:
    """Sums over batches for the heads of one attention; `behaviours` divides them."""

    def __init__(self, kind: Kind, heads: int):
        self.kind, self.heads, self.queries = kind, heads, 0
        self.sums: dict[str, Tensor] = {}  # (H,), or (H, distances)
        self.counts: dict[str, Tensor] = {}  # the divisor of each sum

    def add(self, batch: AttentionBatch) -> None:
        weights = inner = batch.weights
        if self.kind != "dec":  # the begin token counts as a key, the end token does not
            inner = weights.masked_fill(batch.sink[:, None, None], 0.0)
        most, place = inner.max(-1)  # (B, H, Q)
        real = batch.queries[:, None]  # (B, 1, Q)
        self._mean("confidence", most, real)
        self._mean("confidence_with_end", weights.amax(-1), real)
        self._mean("sink", batch.sink.gather(1, weights.argmax(-1).flatten(1)).view_as(place), real)
        entropy, attended = torch.special.entr(weights).sum(-1), (weights > 0).sum(-1)  # (B, H, Q)
        self._mean("entropy", entropy, real)
        several = (attended.amax(1, keepdim=True) > 1) & real
        self._mean("spread", entropy / attended.clamp(min=2).log(), several)
        if self.kind == "cross":
            self._alignment(batch, place)
        else:
            self._offsets(batch, place)
        if batch.rare is not None:
            first, second = (batch.rare[:, None, :, k] for k in range(2))  # (B, 1, Q or 1)
            known = real & (first >= 0)
            self._mean("rare", place == first, known)
            self._mean("rare_two", (place == first) | (place == second), known)

    def _mean(self, name: str, values: Tensor, where: Tensor) -> None:
        """values (B, H, Q), averaged where (B, 1, Q) is True."""
        self._add(name, (values.double() * where).sum((0, 2)), where.sum())

    def _add(self, name: str, total: Tensor, count: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0) + total
        self.counts[name] = self.counts.get(name, 0) + count

    def _offsets(self, batch: AttentionBatch, place: Tensor) -> None:
        """Count how often the largest weight is at offset k, and how often a token is there."""
        keys = batch.keys if self.kind == "dec" else batch.keys & ~batch.sink
        here = torch.arange(place.shape[2])
        hits, chances = [], []
        for k in range(-FURTHEST, FURTHEST + 1):
            there = (here + k).clamp(0, len(here) - 1)
            inside = (there == here + k) & (k <= 0 or self.kind != "dec")  # (Q,)
            able = batch.queries & keys[:, there] & inside  # (B, Q)
            hits.append(((place - here == k) & able[:, None]).sum((0, 2)))
            chances.append(able.sum())
        self._add("offsets", torch.stack(hits, 1).double(), torch.stack(chances))
        self.queries += int(batch.queries.sum())

    def _alignment(self, batch: AttentionBatch, place: Tensor) -> None:
        """Query t predicts target token t; the last one predicts the end token and does not count."""
        lengths = (batch.queries.sum(1) - 1).tolist()
        sources = (batch.keys & ~batch.sink).sum(1).tolist()
        for row, (length, source) in enumerate(zip(lengths, sources, strict=True)):
            if not length or not source:
                continue
            attended = place[row, :, :length].tolist()  # (H, T)
            distinct = torch.tensor([len(set(head)) for head in attended], dtype=torch.float64)
            self._add("coverage", distinct, torch.tensor(min(length, source)))
            if batch.links is not None:  # AER with all links sure: 1 − 2 |A ∩ S| / (|A| + |S|), |A| = length
                sure = batch.links[row]
                hits = [len(sure & {(key, t) for t, key in enumerate(head)}) for head in attended]
                links = torch.tensor(length + len(sure))
                self._add("alignment_error", links - 2.0 * torch.tensor(hits, dtype=torch.float64), links)

    def behaviours(self) -> list[Behaviour]:
        means = {
            name: (total / self.counts[name].clamp(min=1)).tolist()
            for name, total in self.sums.items()
            if name != "offsets" and bool((self.counts[name] > 0).all())
        }
        return [
            Behaviour(**{name: each[head] for name, each in means.items()}, offset=offset, offset_rate=rate)
            for head, (offset, rate) in enumerate(self._best_offsets())
        ]

    def _best_offsets(self) -> list[tuple[int | None, float | None]]:
        """The offset with the highest rate where half of the queries have a token; ties: the smallest."""
        tried = range(-FURTHEST, FURTHEST + 1) if "offsets" in self.sums else ()
        usual = [k for k in tried if 2 * int(self.counts["offsets"][k + FURTHEST]) >= self.queries]
        if not usual:
            return [(None, None)] * self.heads
        rates = self.sums["offsets"] / self.counts["offsets"].clamp(min=1)  # (H, distances)
        best = [max(usual, key=lambda k: (float(row[k + FURTHEST]), -abs(k))) for row in rates]
        return [(k, float(row[k + FURTHEST])) for k, row in zip(best, rates, strict=True)]


def ranks(counts: np.ndarray) -> np.ndarray:
    """The frequency rank of each id (V,) from its counts (V,); 0 is the most frequent."""
    return np.argsort(np.argsort(-counts, kind="stable"))


def rarest(ids: Tensor, tokens: Tensor, rank: np.ndarray) -> Tensor:
    """The positions of the rarest and the second rarest token of each row (B, 1, 2), or of those that each
    query sees (B, Q, 2); −1 if the rarest is among the `FREQUENT` most frequent types, or missing.

    ids (B, K); tokens (B, K) or (B, Q, K): False for the end, padding and what a query does not see.
    """
    seen = tokens if tokens.dim() == 3 else tokens[:, None]
    by_place = torch.from_numpy(rank)[ids][:, None].expand_as(seen).masked_fill(~seen, -1)
    worst, first = by_place.max(-1)
    next_worst, second = by_place.scatter(-1, first[..., None], -1).max(-1)
    rare = worst >= FREQUENT
    return torch.stack([first.where(rare, -1), second.where(rare & (next_worst >= 0), -1)], -1)

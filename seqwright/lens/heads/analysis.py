"""The behaviour and the importance of every head of a model.

table = analyse(seqwright.load("runs/g2p"), pairs); print(table)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import END, Batch, Tokens
from seqwright.errors import InputError
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import Head, Kind, LayerKey, Site, check_sides, sites
from seqwright.lens.heads.importance import HeadScorer, Progress, ablations, batches_of, gate_gradients
from seqwright.lens.heads.roles import (
    FREQUENT,
    AttentionBatch,
    Behaviour,
    HeadStatistics,
    Links,
    ranks,
    rarest,
)
from seqwright.lens.heads.syntax_roles import Parse, Relation, syntax
from seqwright.lens.trace.contract import text_task
from seqwright.models import evaluating

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

FORMAT = 1
ORDER = ("end", "begin", "positional", "alignment", "syntactic", "rare", "diffuse")  # the main role first

Method = Literal["gradient", "ablation"]


@dataclass(frozen=True)
class HeadRow:
    """One head. `importance` is |∂L/∂ξ| per token, `importance_by_example` per example, both normalised
    within the attention; `ablation` is how much worse the model is without the head, None if not measured.
    """

    kind: Kind
    layer: int
    head: int
    behaviour: Behaviour
    importance: float
    importance_by_example: float
    ablation: float | None = None
    relations: tuple[Relation, ...] = ()

    @property
    def id(self) -> Head:
        return Head(self.kind, self.layer, self.head)

    @property
    def confidence(self) -> float:
        return self.behaviour.confidence

    @property
    def entropy(self) -> float:
        return self.behaviour.entropy

    @property
    def roles(self) -> dict[str, float]:
        """All roles of the head, each with the share that decides it; the main role comes first."""
        found = self.behaviour.roles(self.kind)
        if best := self.syntactic:
            found["syntactic"] = best[0].accuracy
        return {role: found[role] for role in ORDER if role in found}

    @property
    def role(self) -> str | None:
        return next(iter(self.roles), None)

    @property
    def rate(self) -> float | None:
        """The share that decides the role."""
        return next(iter(self.roles.values()), None)

    @property
    def offset(self) -> int | None:
        """The offset key − query of a positional head."""
        return self.behaviour.offset if self.role == "positional" else None

    @property
    def syntactic(self) -> list[Relation]:
        """The relations that the head follows, the one furthest above its baseline first."""
        passed = [relation for relation in self.relations if relation.syntactic]
        return sorted(passed, key=lambda relation: relation.baseline - relation.accuracy)

    def described(self) -> str:
        """The role as text: "positional −1, 97 %"."""
        if self.role is None or self.rate is None:
            return "–"
        detail = ""
        if self.offset is not None:
            detail = f" {self.offset:+d}".replace("-", "−")
        elif self.role == "syntactic":
            detail = f" {self.syntactic[0].name}, {self.syntactic[0].direction}"
        return f"{self.role}{detail}, {100 * self.rate:.0f} %"

    def to_json(self) -> dict[str, Any]:
        behaviour = asdict(self.behaviour)
        return {
            **self.id._asdict(),
            "role": self.role,
            "rate": self.rate,
            "offset": self.offset,
            "roles": self.roles,
            "best_offset": behaviour.pop("offset"),
            "best_offset_rate": behaviour.pop("offset_rate"),
            **behaviour,
            "importance": self.importance,
            "importance_by_example": self.importance_by_example,
            "ablation": self.ablation,
            "relations": [asdict(relation) for relation in self.relations],
        }


@dataclass(frozen=True)
class HeadTable:
    """All heads of a model by kind, layer and number. `metric`: that of the ablations."""

    rows: tuple[HeadRow, ...]
    pairs: int
    metric: str | None = None
    notes: tuple[str, ...] = ()

    def importance(self, method: Method = "gradient") -> dict[Head, float]:
        if method == "gradient":
            return {row.id: row.importance for row in self.rows}
        found = {row.id: row.ablation for row in self.rows if row.ablation is not None}
        if len(found) < len(self.rows):
            raise InputError("the heads were not ablated; pass a scorer to analyse")
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "pairs": self.pairs,
            "metric": self.metric,
            "notes": list(self.notes),
            "heads": [row.to_json() for row in self.rows],
        }

    def __str__(self) -> str:
        width = max([4, *(len(row.described()) for row in self.rows)])
        lost = "" if self.metric is None else f"  ablation ({self.metric})"
        lines = [f"kind   layer  head  {'role':{width}}  confidence  entropy  importance{lost}"]
        for row in self.rows:
            ablation = "" if row.ablation is None else f"  {row.ablation:+{len(lost) - 2}.3f}"
            lines.append(
                f"{row.kind:5}  {row.layer:5d}  {row.head:4d}  {row.described():{width}}  "
                f"{row.confidence:10.2f}  {row.entropy:7.2f}  {row.importance:10.2f}{ablation}"
            )
        return "\n".join([*lines, *self.notes])


def analyse(
    predictor: Predictor,
    pairs: Sequence[tuple[str, str]],
    *,
    counts: np.ndarray | None = None,
    parses: Sequence[Parse] = (),
    alignments: Sequence[Links] | None = None,
    scorer: HeadScorer | None = None,
    smoothing: float = 0.0,
    progress: Progress = lambda text: None,
) -> HeadTable:
    """Return the table of heads on these pairs. One pair is enough.

    counts (V,): the frequency of each source id in the training data, for the role "rare"; by default in the
    pairs. parses: for syntactic roles. alignments: of the pairs, for the alignment error rate. scorer: for
    ablations; without it, nothing is ablated. smoothing: that of the training loss, for importance.
    """
    model, task = predictor.model, text_task(predictor.task)
    every = sites(model)
    check_sides(model)
    batches = batches_of(task, pairs)
    often = _counted(batches, task.source.size) if counts is None else counts
    progress("roles")
    statistics = _statistics(predictor, batches, ranks(often), alignments)
    progress("importance by gradient")
    gradients = gate_gradients(model, batches, smoothing=smoothing)
    normalised = {key: found.normalised() for key, found in gradients.items()}
    lost = {} if scorer is None else ablations(scorer, progress=progress)
    related = syntax(predictor, parses) if parses else {}
    rows = [
        HeadRow(
            *head,
            behaviour,
            float(normalised[site.key].by_token[head.head]),
            float(normalised[site.key].by_example[head.head]),
            lost.get(head),
            related.get(head, ()),
        )
        for site in every
        if site.attention.heads
        for head, behaviour in zip(site.heads, statistics[site.key].behaviours(), strict=True)
    ]
    metric = None if scorer is None else scorer.metric
    return HeadTable(tuple(rows), len(pairs), metric, tuple(_notes(every, rows, counts is None)))


def _statistics(
    predictor: Predictor, batches: Iterable[Batch], rank: np.ndarray, alignments: Sequence[Links] | None
) -> dict[LayerKey, HeadStatistics]:
    """Statistics of the heads with the given targets as the output (teacher forcing)."""
    places = [site for site in sites(predictor.model) if site.attention.heads]
    statistics = {site.key: HeadStatistics(site.kind, site.attention.heads) for site in places}
    for batch in batches:
        with evaluating(predictor.model), capture(predictor.model) as captured:
            predictor.model.loss(batch)
            links = None if alignments is None else [alignments[i] for i in batch.index]
            for site in places:
                weights = torch.cat(captured[site.name], 2).cpu().float()
                statistics[site.key].add(_attention_batch(site.kind, weights, batch, rank, links))
    return statistics


def _attention_batch(
    kind: Kind, weights: Tensor, batch: Batch, rank: np.ndarray, links: Sequence[Links] | None
) -> AttentionBatch:
    source, target = (_real(side).cpu() for side in (batch.source, batch.target))
    if kind == "dec":
        begin = torch.arange(target.shape[1]).expand_as(target) == 0
        return AttentionBatch(weights, target, target, begin)
    ids = batch.source.ids.cpu()
    end = (ids == END) & source
    rare = rarest(ids, source & ~end, rank)
    return AttentionBatch(weights, source if kind == "enc" else target, source, end, rare, links)


def _real(side: Tokens) -> Tensor:
    """True for a token, False for padding (B, T)."""
    return torch.ones_like(side.ids, dtype=torch.bool) if side.real is None else side.real


def _counted(batches: Iterable[Batch], size: int) -> np.ndarray:
    """The frequency of each source id in the pairs (V,)."""
    ids = [batch.source.ids[_real(batch.source)].numpy() for batch in batches]
    found = np.bincount(np.concatenate(ids), minlength=size)
    found[END] = 0
    return found


def _notes(places: Sequence[Site], rows: Sequence[HeadRow], own_counts: bool) -> list[str]:
    if not rows:
        return ["The model has no attention heads."]
    notes = []
    if any(not site.stacked and site.attention.heads == 1 for site in places):
        notes.append(
            "The attention of the recurrent decoder has one head. Its importance is 1 by definition, and it "
            "cannot be pruned."
        )
    if empty := [f"{site.kind} {site.layer}" for site in places if not site.attention.heads]:
        notes.append(f"Layers without heads: {', '.join(empty)}.")
    if all(row.behaviour.rare is None for row in rows):
        notes.append(
            f"No source has a token outside the {FREQUENT} most frequent, so no head can have the role rare."
        )
    elif own_counts:
        notes.append("Token frequencies were counted in these pairs.")
    return notes

"""What every head of a model does, and how much the model needs it.

table = analyse(seqwright.load("runs/g2p"), pairs); print(table)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import END, Batch, Tokens
from seqwright.errors import InputError
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import Head, Kind, Place, Site, sites
from seqwright.lens.heads.importance import Tell, Yardstick, ablations, batches_of, slopes
from seqwright.lens.heads.roles import FREQUENT, Behaviour, Links, Looks, View, ranks, rarest
from seqwright.lens.heads.syntax_roles import Parse, Relation, syntax
from seqwright.models import evaluating
from seqwright.prediction.predictor import Predictor

FORMAT = 1
ORDER = ("end", "begin", "positional", "alignment", "syntactic", "rare", "diffuse")  # what to name a head by

Method = Literal["gradient", "ablation"]


@dataclass(frozen=True)
class HeadRow:
    """One head. `importance` is |∂L/∂ξ| by token, `importance_by_example` by example, both normalised within
    the attention; `ablation` is how much worse the model is without the head, None where nobody asked.
    """

    place: Head
    behaviour: Behaviour
    importance: float
    importance_by_example: float
    ablation: float | None = None
    relations: tuple[Relation, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.place.kind

    @property
    def layer(self) -> int:
        return self.place.layer

    @property
    def head(self) -> int:
        return self.place.head

    @property
    def confidence(self) -> float:
        return self.behaviour.confidence

    @property
    def entropy(self) -> float:
        return self.behaviour.entropy

    @property
    def roles(self) -> dict[str, float]:
        """All roles of the head, each with the share that makes it so; the one to name it by comes first."""
        found = self.behaviour.roles(self.kind)
        if best := self.syntactic:
            found["syntactic"] = best[0].accuracy
        return {role: found[role] for role in ORDER if role in found}

    @property
    def role(self) -> str | None:
        return next(iter(self.roles), None)

    @property
    def rate(self) -> float | None:
        """The share that makes the role so."""
        return next(iter(self.roles.values()), None)

    @property
    def offset(self) -> int | None:
        """Of a positional head: where it looks, counted from its query."""
        return self.behaviour.offset if self.role == "positional" else None

    @property
    def syntactic(self) -> list[Relation]:
        """The relations that the head finds, the one that it is furthest above the baseline at first."""
        passed = [relation for relation in self.relations if relation.syntactic]
        return sorted(passed, key=lambda relation: relation.baseline - relation.accuracy)

    def described(self) -> str:
        """The role in words: "positional −1, 97 %"."""
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
            **self.place._asdict(),
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
    """All heads of a model, by kind, layer and number. `metric` is that of the ablations."""

    rows: tuple[HeadRow, ...]
    pairs: int
    metric: str | None = None
    notes: tuple[str, ...] = ()

    def importance(self, method: Method = "gradient") -> dict[Head, float]:
        if method == "gradient":
            return {row.place: row.importance for row in self.rows}
        found = {row.place: row.ablation for row in self.rows if row.ablation is not None}
        if len(found) < len(self.rows):
            raise InputError("the heads were not ablated; give analyse a yardstick")
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
        lost = "" if self.metric is None else f"  {self.metric} worse without"
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
    yardstick: Yardstick | None = None,
    smoothing: float = 0.0,
    tell: Tell = lambda text: None,
) -> HeadTable:
    """The table of heads on these pairs; one pair will do, to see what the heads do with it.

    counts (V,): how often each source id comes in the training data (without them: in these pairs), for roles
    of rare tokens. parses: for roles of syntax. alignments: those of the pairs, for their error rate.
    yardstick: what to measure ablations by; without one nothing is ablated. smoothing: that of the training
    loss, for importance by gradient.
    """
    model, batches = predictor.model, batches_of(predictor.task, pairs)
    often = _counted(batches, predictor.task.source.size) if counts is None else counts
    tell("roles")
    looks = _looks(predictor, batches, ranks(often), alignments)
    tell("importance by gradient")
    steep = {
        place: found.normalised() for place, found in slopes(model, batches, smoothing=smoothing).items()
    }
    lost = {} if yardstick is None else ablations(yardstick, tell=tell)
    related = syntax(predictor, parses) if parses else {}
    rows = [
        HeadRow(
            head,
            behaviour,
            float(steep[site.place].by_token[head.head]),
            float(steep[site.place].by_example[head.head]),
            lost.get(head),
            related.get(head, ()),
        )
        for site in sites(model)
        if site.attention.heads
        for head, behaviour in zip(site.heads, looks[site.place].behaviours(), strict=True)
    ]
    metric = None if yardstick is None else yardstick.metric
    return HeadTable(tuple(rows), len(pairs), metric, tuple(_notes(sites(model), rows, counts is None)))


def _looks(
    predictor: Predictor, batches: Iterable[Batch], rank: np.ndarray, alignments: Sequence[Links] | None
) -> dict[Place, Looks]:
    """What the heads look at while the targets are read, not searched for."""
    places = [site for site in sites(predictor.model) if site.attention.heads]
    looks = {site.place: Looks(site.kind, site.attention.heads) for site in places}
    for batch in batches:
        with evaluating(predictor.model), capture(predictor.model) as seen:
            predictor.model.loss(batch)
            links = None if alignments is None else [alignments[i] for i in batch.index]
            for site in places:
                weights = torch.cat(seen[site.name], 2).cpu().float()
                looks[site.place].add(_view(site.kind, weights, batch, rank, links))
    return looks


def _view(kind: Kind, weights: Tensor, batch: Batch, rank: np.ndarray, links: Sequence[Links] | None) -> View:
    source, target = (_real(side).cpu() for side in (batch.source, batch.target))
    if kind == "dec":
        begin = torch.arange(target.shape[1]).expand_as(target) == 0
        return View(weights, target, target, begin)
    ids = batch.source.ids.cpu()
    end = (ids == END) & source
    rare = rarest(ids, source & ~end, rank)
    return View(weights, source if kind == "enc" else target, source, end, rare, links)


def _real(side: Tokens) -> Tensor:
    """True where there is a token (B, T)."""
    return torch.ones_like(side.ids, dtype=torch.bool) if side.real is None else side.real


def _counted(batches: Iterable[Batch], size: int) -> np.ndarray:
    """How often each id of the source comes in the pairs themselves (V,)."""
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
            "The attention of the recurrent decoder has one head: its importance is 1 by definition, and it "
            "cannot be pruned."
        )
    if empty := [f"{site.kind} {site.layer}" for site in places if not site.attention.heads]:
        notes.append(f"Without heads: {', '.join(empty)}.")
    if all(row.behaviour.rare is None for row in rows):
        notes.append(
            f"No source has a token beyond the {FREQUENT} commonest: no head can be one for rare tokens."
        )
    elif own_counts:
        notes.append("Rare tokens are those that are rare in these pairs.")
    return notes

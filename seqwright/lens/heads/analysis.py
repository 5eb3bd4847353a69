"""The behaviour and the importance of every head of a model.

table = analyse(seqwright.load("runs/g2p"), pairs); print(table)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import BEGIN, END, Tokens
from seqwright.data.readers.parses import Parse
from seqwright.errors import ConfigError, InputError
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import Head, Kind, LayerKey, Site, sides, sites
from seqwright.lens.heads.importance import (
    HeadScorer,
    Progress,
    ablations,
    batches_of,
    check_read,
    gate_gradients,
    tokens_of,
)
from seqwright.lens.heads.roles import FREQUENT, AttentionBatch, Behaviour, HeadStatistics, ranks, rarest
from seqwright.lens.heads.syntax_roles import Relation, syntax
from seqwright.models import Model, evaluating

if TYPE_CHECKING:
    from seqwright.lens.heads.roles import Links
    from seqwright.prediction.predictor import Predictor

FORMAT = 1

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
        return self.behaviour.roles(self.kind, self.syntactic[0].accuracy if self.syntactic else None)

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
        detail = "" if self.offset is None else f" {self.offset:+d}".replace("-", "−")
        if self.role == "syntactic":
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
        if not self.rows:
            return "\n".join(self.notes)
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
    examples: Sequence[Any],
    *,
    counts: np.ndarray | None = None,
    parses: Sequence[Parse] = (),
    alignments: Sequence[Links] | None = None,
    scorer: HeadScorer | None = None,
    smoothing: float = 0.0,
    progress: Progress = lambda text: None,
) -> HeadTable:
    """Return the table of heads on these examples: pairs (source, target), or what else the task takes.

    counts (V,): the frequency of each id in the training data, for the role "rare"; by default in the
    examples. parses: for syntactic roles. alignments: of pairs, for the alignment error rate. scorer: for
    ablations; without it, nothing is ablated. smoothing: that of the training loss, for importance.
    """
    model = predictor.model
    every, batches = sites(model), batches_of(predictor.task, examples)
    if not any(site.attention.heads for site in every):
        return HeadTable((), len(examples), notes=tuple(_notes(every, (), own_counts=False)))
    check_read(model, batches[0])
    own_counts = counts is None
    if counts is None:
        counts = _counted(model, batches)
    progress("roles")
    statistics = _statistics(predictor, batches, ranks(counts), alignments)
    progress("importance by gradient")
    gradients = gate_gradients(model, batches, smoothing=smoothing)
    lost = {} if scorer is None else ablations(scorer, progress=progress)
    related = syntax(predictor, parses) if parses else {}
    rows = []
    for key, heads in statistics.items():
        columns = (heads.behaviours(), *gradients[key].normalised())
        for number, (behaviour, by_token, by_example) in enumerate(zip(*columns, strict=True)):
            head = Head(*key, number)
            importance = float(by_token), float(by_example)
            rows.append(HeadRow(*head, behaviour, *importance, lost.get(head), related.get(head, ())))
    metric = None if scorer is None else scorer.metric
    return HeadTable(tuple(rows), len(examples), metric, tuple(_notes(every, rows, own_counts)))


def _counted(model: Model, batches: Iterable[Any]) -> np.ndarray:
    """The frequency of each id in what the model reads first (V,)."""
    read = [tokens_of(model, batch, next(iter(sides(model)))) for batch in batches]
    ids = np.concatenate([one.ids[_real(one)].numpy() for one in read])
    return np.bincount(ids[ids != END], minlength=vocabulary(model))


def vocabulary(model: Model) -> int:
    """The number of ids that the encoder reads, or a decoder without one."""
    side = next(iter(sides(model).values()), None)
    embedding: Any = getattr(side, "embedding", None)
    if embedding is None:
        raise ConfigError(
            "this model reads no tokens; `seqwright heads` is for models that read text. `seqwright look` "
            "shows what happens inside this one"
        )
    return int(embedding.vocabulary)


def _statistics(
    predictor: Predictor, batches: Iterable[Any], rank: np.ndarray, alignments: Sequence[Links] | None
) -> dict[LayerKey, HeadStatistics]:
    """Statistics of the heads with the given targets as the output (teacher forcing)."""
    model = predictor.model
    places = [site for site in sites(model) if site.attention.heads]
    statistics = {site.key: HeadStatistics(site.kind, site.attention.heads) for site in places}
    for batch in batches:
        with evaluating(model), capture(model) as captured:
            model.loss(batch)
        by_kind = _read(model, batch, rank, alignments)
        for site in places:
            weights = torch.cat(captured[site.name], 2).cpu().float()
            statistics[site.key].add(replace(by_kind[site.kind], weights=weights))
    return statistics


def _read(
    model: Model, batch: Any, rank: np.ndarray, alignments: Sequence[Links] | None
) -> dict[Kind, AttentionBatch]:
    """The tokens of a batch as the queries and keys of each kind of attention, without weights."""
    nothing, found = torch.empty(0), dict[Kind, AttentionBatch]()
    if "encoder" in sides(model):
        ids, source = batch.source.ids.cpu(), _real(batch.source).cpu()
        end = (ids == END) & source
        rare = rarest(ids, source & ~end, rank)
        found["enc"] = AttentionBatch(nothing, source, source, end, rare)
    if "decoder" in sides(model):
        read = tokens_of(model, batch, "decoder")
        target = _real(read).cpu()
        begin = read.ids.cpu() == BEGIN
        found["dec"] = AttentionBatch(nothing, target, target, begin)
        if "enc" in found:
            links = None if alignments is None else [alignments[i] for i in batch.index]
            found["cross"] = replace(found["enc"], queries=target, links=links)
        else:  # a language model: the rarest token among those that a query sees
            causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
            rare = rarest(read.ids.cpu(), target[:, None] & causal, rank)
            found["dec"] = replace(found["dec"], rare=rare)
    return found


def _real(side: Tokens) -> Tensor:
    """True for a token, False for padding (B, T)."""
    return torch.ones_like(side.ids, dtype=torch.bool) if side.real is None else side.real


def _notes(places: Sequence[Site], rows: Sequence[HeadRow], own_counts: bool) -> list[str]:
    if not rows:
        return ["The model has no attention heads."]
    notes = []
    if any(not site.stacked and site.attention.heads == 1 for site in places):
        notes.append("The recurrent decoder has one head. Its importance is always 1; it cannot be pruned.")
    if empty := [f"{site.kind} {site.layer}" for site in places if not site.attention.heads]:
        notes.append(f"Layers without heads: {', '.join(empty)}.")
    if all(row.behaviour.rare is None for row in rows):
        notes.append(f"No text has a token outside the {FREQUENT} most frequent, so no head is rare.")
    elif own_counts:
        notes.append("Token frequencies were counted in these examples.")
    return notes

"""Remove heads from a model: the cost of removing them, and a smaller run folder without them.

With a head go its rows of the query, key and value projections with their biases, its columns of the output
projection, and its weights of the score and the position. The bias of the output stays.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seqwright.config import parse
from seqwright.errors import ConfigError
from seqwright.evaluation.metrics import Better
from seqwright.lens.heads.gates import Head, Side, closed_gates, sides, sites, without_heads
from seqwright.lens.heads.importance import HeadScorer, Progress
from seqwright.models import Model
from seqwright.models.building import build_model, resolve
from seqwright.runs.folder import LONGEST, Run

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

BAR = 24  # characters of the longest bar

Description = str | Mapping[str, Any]  # of a model: a preset, or a table


@dataclass(frozen=True)
class Point:
    """The score without `closed` heads: the chosen ones, and random ones, one score per seed."""

    closed: int
    share: float
    value: float
    random: tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """The score of a model with fewer and fewer heads (Michel et al. 2019, 4.1)."""

    metric: str
    better: Better
    heads: int
    points: tuple[Point, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """A bar per point, for the chosen order and for the mean of the random ones."""
        means = [sum(point.random) / len(point.random) for point in self.points]
        longest = max([1e-9, *means, *(point.value for point in self.points)])
        names = "".join(f"{name:{BAR + 11}}" for name in ("least important", "random heads"))
        lines = [f"{self.metric}, {self.better} is better, without\n{'':18}{names}".rstrip()]
        for point, mean in zip(self.points, means, strict=True):
            both = (point.value, mean)
            bars = (f"{value:8.2f} {'█' * round(BAR * value / longest):{BAR}}" for value in both)
            lines.append(f"{point.closed:4d} heads {100 * point.share:3.0f} % {'  '.join(bars)}".rstrip())
        return "\n".join(lines)


def prunable(model: Model) -> list[Head]:
    """The heads that can be removed: those of Transformer blocks."""
    return [head for site in sites(model) if site.stacked for head in site.heads]


def curve(
    scorer: HeadScorer,
    order: Sequence[Head],
    *,
    steps: int = 10,
    seeds: int = 3,
    progress: Progress = lambda text: None,
) -> Curve:
    """The score without the first 0, 10, … 90 % of the heads of `order`, and without as many random ones."""
    if not order:
        raise ConfigError("the model has no heads that can be removed; only heads of Transformer blocks can")
    model, points = scorer.predictor.model, []
    drawn = [random.Random(seed).sample(sorted(order), len(order)) for seed in range(seeds)]

    def without(heads: Sequence[Head]) -> float:
        with without_heads(model, heads):
            return scorer()

    for count in dict.fromkeys(round(len(order) * step / steps) for step in range(steps)):
        progress(f"without {count} of {len(order)} heads")
        value = without(order[:count])
        others = tuple(without(heads[:count]) for heads in drawn) if count else (value,) * seeds
        points.append(Point(count, count / len(order), value, others))
    return Curve(scorer.metric, scorer.better, len(order), tuple(points))


def pruned(
    model: Model, description: Description, heads: Collection[Head], facts: Mapping[str, Any] | None = None
) -> tuple[Model, dict[str, Any]]:
    """A smaller copy, whose outputs are those of the model with these heads off, and its description.

    facts: those of the data; by default the vocabularies of an encoder-decoder.
    """
    gates, layers = closed_gates(model, heads), sites(model)
    open_ = {site.name: gates.get(site.attention, site.ones(site.attention.heads)) for site in layers}
    kept = {name: gate.flatten().nonzero().flatten().tolist() for name, gate in open_.items()}
    smaller = copy.deepcopy(resolve(description))
    for site in layers:
        if not site.stacked and len(kept[site.name]) < site.attention.heads:
            raise ConfigError(f"heads cannot be removed from {site.name}, part of a recurrent decoder")
    for kind, part, which in (("enc", "encoder", ""), ("dec", "decoder", ""), ("cross", "decoder", "cross_")):
        if stacked := [site for site in layers if site.kind == kind and site.stacked]:
            smaller[part][f"{which}heads"] = [len(kept[site.name]) for site in stacked]
            smaller[part][f"{which}head_size"] = [site.attention.key_size for site in stacked]
    fresh = like(model, smaller, facts)
    wanted, weights = fresh.weights(), model.weights()
    for site in layers:
        for name in (name for name in weights if name.startswith(f"{site.name}.")):
            weights[name] = _rest(weights[name], wanted[name], site.attention.heads, kept[site.name])
    fresh.take_weights(weights)
    return fresh.train(model.training), smaller


def like(model: Model, description: Description, facts: Mapping[str, Any] | None = None) -> Model:
    """A new model for the same data, in the same precision."""
    if facts is None:
        parts: dict[Side, Any] = {**sides(model)}
        names: dict[Side, str] = {"encoder": "source_vocabulary", "decoder": "target_vocabulary"}
        facts = {names[side]: part.embedding.vocabulary for side, part in parts.items()}
    return build_model(description, **facts).to(next(model.parameters()).dtype)


def _rest(weight: Tensor, wanted: Tensor, heads: int, kept: list[int]) -> Tensor:
    """A weight without the removed heads: heads are along the dimension that is shorter in the new model."""
    for dimension, (before, after) in enumerate(zip(weight.shape, wanted.shape, strict=True)):
        if before != after:
            by_head = weight.unflatten(dimension, (heads, before // heads))
            index = weight.new_tensor(kept, dtype=torch.long)
            weight = by_head.index_select(dimension, index).flatten(dimension, dimension + 1)
    return weight


def write_pruned(predictor: Predictor, out: str | Path, heads: Collection[Head]) -> Run:
    """Write the run of a predictor without these heads into a new run folder."""
    model, run = one_model(predictor), run_of(predictor)
    smaller, description = pruned(model, parse(run.config).model, heads, predictor.task.facts())
    return write_run(predictor, out, smaller, description, f"{len(heads)} heads of run {run.id} removed")


def one_model(predictor: Predictor) -> Model:
    """The model of a predictor; an ensemble is refused, because heads are removed from one model."""
    if predictor.members > 1:
        raise ConfigError(
            f"{predictor.folder} is an ensemble of {predictor.members} models; heads are removed from one; "
            "train one with model.kind=encoder_decoder"
        )
    return predictor.member().model


def run_of(predictor: Predictor) -> Run:
    if predictor.folder is None:
        raise ConfigError("the predictor has no run folder; use seqwright.load(folder)")
    return Run.open(predictor.folder)


def write_run(predictor: Predictor, out: str | Path, model: Model, table: Description, note: str) -> Run:
    """Write a run folder with another model, and the tokenizers and configuration of the predictor's run."""
    run = run_of(predictor)
    made = Run.create(out, {**run.config, "model": table})
    predictor.task.save(made.folder)
    known = {name: value for name, value in run.weights_metadata().items() if name == LONGEST}
    made.save_weights(model.weights(), {"pruned": note, **known})
    return made

"""Models with fewer heads: what it costs to do without them, and a smaller run folder that has none of them.

A head that is removed takes along its rows of the query, key and value projections with their biases, its
columns of the output projection, and what the score and the position have for it. The bias of the output
stays.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqwright.config import parse
from seqwright.errors import ConfigError
from seqwright.evaluation.metrics import Better
from seqwright.lens.heads.gates import Head, Site, closed, closing, sites
from seqwright.lens.heads.importance import Tell, Yardstick
from seqwright.models import Model
from seqwright.models.building import build_model, resolve
from seqwright.prediction.predictor import load
from seqwright.runs.folder import LONGEST, Run
from seqwright.tasks.text_to_text import TextToText

BAR = 24  # characters of the longest bar of a drawing


@dataclass(frozen=True)
class Point:
    """The value without `closed` heads: those that were chosen, and random ones, one value for each seed."""

    closed: int
    share: float
    value: float
    random: tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """What a model is worth with fewer and fewer heads (Michel et al. 2019, 4.1)."""

    metric: str
    better: Better
    heads: int
    points: tuple[Point, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """A bar for each point, of the chosen order and of the mean of the random ones."""
        means = [sum(point.random) / len(point.random) for point in self.points]
        longest = max([1e-9, *means, *(point.value for point in self.points)])
        names = "".join(f"{name:{BAR + 11}}" for name in ("the least important", "random heads"))
        lines = [f"{self.metric}, {self.better} is better, without\n{'':18}{names}".rstrip()]
        for point, mean in zip(self.points, means, strict=True):
            bars = (
                f"{value:8.2f} {'█' * round(BAR * value / longest):{BAR}}" for value in (point.value, mean)
            )
            lines.append(f"{point.closed:4d} heads {100 * point.share:3.0f} % {'  '.join(bars)}".rstrip())
        return "\n".join(lines)


def prunable(model: Model) -> list[Head]:
    """The heads that can be removed: those of Transformers."""
    return [head for site in sites(model) if site.stacked for head in site.heads]


def curve(
    yardstick: Yardstick,
    order: Sequence[Head],
    *,
    steps: int = 10,
    seeds: int = 3,
    tell: Tell = lambda text: None,
) -> Curve:
    """The value with the first 0, 10, … 90 % of the heads of `order` closed, and with as many random ones."""
    if not order:
        raise ConfigError("the model has no heads that can be removed; those of Transformers can")
    model, points = yardstick.predictor.model, []
    drawn = [random.Random(seed).sample(sorted(order), len(order)) for seed in range(seeds)]

    def without(heads: Sequence[Head]) -> float:
        with closed(model, heads):
            return yardstick()

    for count in dict.fromkeys(round(len(order) * step / steps) for step in range(steps)):
        tell(f"without {count} of {len(order)} heads")
        value = without(order[:count])
        others = tuple(without(heads[:count]) for heads in drawn) if count else (value,) * seeds
        points.append(Point(count, count / len(order), value, others))
    return Curve(yardstick.metric, yardstick.better, len(order), tuple(points))


def pruned(
    model: Model, description: str | Mapping[str, Any], heads: Collection[Head]
) -> tuple[Model, dict[str, Any]]:
    """A copy of the model without these heads, and its description: the number of heads of every layer.

    What it says is what the model says with the heads closed.
    """
    kept = _kept(model, heads)
    smaller = _description(model, description, kept)
    fresh = _like(model, smaller)
    wanted, weights = fresh.weights(), model.weights()
    for site in sites(model):
        for name in weights:
            if name.startswith(f"{site.name}."):
                weights[name] = _rest(weights[name], wanted[name], site.attention.heads, kept[site.name])
    fresh.take_weights(weights)
    return fresh.train(model.training), smaller


def _like(model: Any, description: Mapping[str, Any]) -> Model:
    """Another model for the same vocabularies, in the same precision."""
    sides = {"source": model.encoder, "target": model.decoder}
    vocabularies = {f"{side}_vocabulary": part.embedding.vocabulary for side, part in sides.items()}
    return build_model(description, **vocabularies).to(next(model.parameters()).dtype)


def _kept(model: Model, heads: Collection[Head]) -> dict[str, list[int]]:
    """The numbers of the heads that stay, by the name of their attention."""
    gates = closing(model, heads)
    open_ = {site.name: gates.get(site.attention, site.ones(site.attention.heads)) for site in sites(model)}
    return {name: gate.flatten().nonzero().flatten().tolist() for name, gate in open_.items()}


def _rest(weight: Tensor, wanted: Tensor, heads: int, kept: list[int]) -> Tensor:
    """What is left of a weight: the dimension that is shorter in the smaller model goes by heads."""
    for dimension, (before, after) in enumerate(zip(weight.shape, wanted.shape, strict=True)):
        if before != after:
            by_head = weight.unflatten(dimension, (heads, before // heads))
            index = weight.new_tensor(kept, dtype=torch.long)
            weight = by_head.index_select(dimension, index).flatten(dimension, dimension + 1)
    return weight


def _description(
    model: Model, description: str | Mapping[str, Any], kept: Mapping[str, list[int]]
) -> dict[str, Any]:
    result = copy.deepcopy(resolve(description))
    tables = {"enc": ("encoder", ""), "dec": ("decoder", ""), "cross": ("decoder", "cross_")}
    every = sites(model)
    for kind, (part, which) in tables.items():
        layers = [site for site in every if site.kind == kind]
        if not all(site.stacked for site in layers):
            _refuse_recurrent(layers, kept)
        elif layers:
            result[part][f"{which}heads"] = [len(kept[site.name]) for site in layers]
            result[part][f"{which}head_size"] = [site.attention.key_size for site in layers]
    return result


def _refuse_recurrent(layers: Iterable[Site], kept: Mapping[str, list[int]]) -> None:
    for site in layers:
        if len(kept[site.name]) < site.attention.heads:
            raise ConfigError(
                f"{site.name} is the attention of a recurrent decoder, of which no heads are removed; "
                "choose heads of a Transformer"
            )


def write_pruned(folder: str | Path, out: str | Path, heads: Collection[Head]) -> Run:
    """The run at `folder` without these heads as a run folder of its own, which loads like any other."""
    run, model = Run.open(folder), one_model(folder)
    smaller, description = pruned(model, parse(run.config).model, heads)
    return write_run(run, out, smaller, description, f"{len(heads)} heads of run {run.id} removed")


def one_model(folder: str | Path) -> Model:
    """The model of a run, of which heads can be removed."""
    found = load(folder)
    if found.members > 1:
        raise ConfigError(
            f"{folder} is {found.members} models that speak together, and heads are removed from one; train "
            "one with model.kind=encoder_decoder"
        )
    return found.member().model


def write_run(run: Run, out: str | Path, model: Model, description: Mapping[str, Any], note: str) -> Run:
    """A run folder with another model than that of `run`, and its tokenizers and configuration."""
    made = Run.create(out, {**run.config, "model": description})
    TextToText.load(run.folder).save(made.folder)
    known = {name: value for name, value in run.weights_metadata().items() if name == LONGEST}
    made.save_weights(model.weights(), {"pruned": note, **known})
    return made

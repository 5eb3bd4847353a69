"""Families of models compared on the same data, tokenizers, batches and budget (as in table 2 of Vaswani et
al. 2017).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seqwright import __version__
from seqwright.config import override
from seqwright.config.presets import KIND, PRESETS
from seqwright.config.registry import unknown
from seqwright.data.plan import Plan, batching_of
from seqwright.data.store import Store
from seqwright.data.task import task_class
from seqwright.data.text_display import pluralize
from seqwright.errors import ConfigError
from seqwright.evaluation.evaluate import FILE
from seqwright.evaluation.panel import WIDTH
from seqwright.evaluation.text_outputs import metric_label
from seqwright.files import read_json, strict, writing
from seqwright.models.building.scaling import (
    Vocabularies,
    described,
    parameters_of,
    preset_options,
    scale_to_size,
    sizes_of,
    training_flops,
)
from seqwright.pipeline import Design, finish
from seqwright.prediction.predictor import load
from seqwright.prediction.tracing import trace_observers
from seqwright.training import run as training_run
from seqwright.training.preparation import prepare
from seqwright.training.trainer import Listener, Progress

FORMAT = 1
OURS = "ours"  # the source of presets that come from no paper; they are small already
FLOPS = (
    "6 · parameters · tokens of each side (Kaplan et al. 2020), without embeddings and products of attention"
)


@dataclass(frozen=True)
class Family:
    """A preset that is ready to be trained; `note` explains its size."""

    name: str
    design: Design
    note: str


@dataclass(frozen=True)
class Result:
    """The result of a family: its test, and the cost of its training.

    target_tokens: those it was trained on, ends included. seconds: of training, validations included.
    """

    family: Family
    folder: Path
    parameters: int
    flops: float
    target_tokens: int
    steps: int
    seconds: float
    evaluation: Mapping[str, Any]

    @property
    def target_tokens_per_second(self) -> float:
        return self.target_tokens / max(self.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        known = ("metrics", "intervals", "level", "signatures", "better")
        return {
            "family": self.family.name,
            "paper": PRESETS[self.family.name].source,
            "note": self.family.note,
            "folder": str(self.folder),
            **{key: self.evaluation[key] for key in known},
            "parameters": self.parameters,
            "flops": self.flops,
            "target_tokens": self.target_tokens,
            "target_tokens_per_second": self.target_tokens_per_second,
            "steps": self.steps,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Table:
    """The results in the order of the families; `name` is that of the data."""

    name: str
    results: tuple[Result, ...]

    def to_json(self) -> dict[str, Any]:
        families = [result.to_json() for result in self.results]
        document = {"format": FORMAT, "file": self.name, "flops_rule": FLOPS, "families": families}
        return strict({**document, "version": __version__})

    def __str__(self) -> str:
        first = self.results[0].evaluation
        metric = next(iter(first["metrics"]))
        arrow = "↑" if first["better"][metric] == "higher" else "↓"
        lines = [
            f"{self.name}: {metric_label(metric, first.get('item', 'word'))} {arrow} on "
            f"{pluralize(first['items'], 'held-out item')}",
            "",
            f"{'family':20} {'score':>7} {'interval':>14} {'parameters':>12} {'FLOPs':>8} "
            f"{'tokens/s':>9} {'steps':>8} {'minutes':>8}",
        ]
        lines += [_line(result, metric) for result in self.results]
        notes = [f"{result.family.name}: {result.family.note}" for result in self.results]
        notes.append(f"FLOPs of training: {FLOPS}; tokens/s: of the targets")
        return "\n".join([*lines, "", *(line for note in notes for line in textwrap.wrap(note, WIDTH))])


def _line(result: Result, metric: str) -> str:
    score, (low, high) = result.evaluation["metrics"][metric], result.evaluation["intervals"][metric]
    between = f"{low:.2f}–{high:.2f}"
    return (
        f"{result.family.name:20} {score:7.2f} {between:>14} {result.parameters:12,} {result.flops:8.1e} "
        f"{result.target_tokens_per_second:9,.0f} {result.steps:8,} {result.seconds / 60:8.1f}"
    )


def families(names: Sequence[str], base: Design, folder: Path, *, paper_size: bool = False) -> list[Family]:
    """Return the presets as they will be trained, for a design by recipe.

    Presets of papers are scaled to the size of the recipe's model, unless `paper_size` is set; our own stay
    as they are. Requested options of the model go to the families that have them.
    """
    requested = check_names(names, base.changes)
    base.check_parts()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    facts = prepare(base.config, folder).task.facts()  # vocabularies determine the sizes
    sizes = facts["source_vocabulary"], facts["target_vocabulary"]
    return [_family(name, base, requested, sizes, paper_size=paper_size) for name in dict.fromkeys(names)]


def check_names(names: Sequence[str], changes: Sequence[str]) -> dict[str, Any]:
    """Return the requested options of the model; refuse unknown presets and options that no family has."""
    table = override({}, changes)
    requested = table.get("model", {})
    if not isinstance(requested, dict):
        requested = {"preset": requested}  # a model that is only named
    for name in names:
        if name not in PRESETS:
            raise ConfigError(unknown("preset", name, list(PRESETS)))
        if PRESETS[name].kind != KIND:
            raise ConfigError(f"{name} is a model of another kind; families of pairs are encoder-decoders")
    if "preset" in requested:
        raise ConfigError(
            f"model.preset is {requested['preset']!r}, but the families are presets already; leave it out"
        )
    if "start" in table:
        raise ConfigError(f"start is {table['start']!r}, but families are trained from scratch; leave it out")
    known = sorted(set().union(*map(preset_options, names)))
    for key in requested:
        if key not in known:
            raise ConfigError(unknown("option of the models", key, known))
    return requested


def _family(
    name: str, base: Design, requested: Mapping[str, Any], sizes: Vocabularies, *, paper_size: bool
) -> Family:
    """Give a family the dropout of the recipe; a model of full paper size keeps its own."""
    recipe, joint = base.config.model, base.config.tokenizer.joint
    assert isinstance(recipe, dict)  # a preset with the options of the recipe
    reference, usual = recipe["preset"], {"dropout": recipe["dropout"], **requested}
    if PRESETS[name].source.startswith(OURS):
        model, note = described(name, usual, joint=joint), "as it is"
    elif paper_size:
        model, note = described(name, requested, joint=joint), "sizes and dropout of the paper"
    else:
        wanted = parameters_of(described(reference, recipe, joint=joint), sizes)
        model = scale_to_size(described(name, usual, joint=joint), wanted, sizes, requested)
        note = f"scaled to the size of {reference}: {sizes_of(model)}"
    return Family(name, replace(base, config=replace(base.config, model=model)), note)


def train_families(
    ready: Sequence[Family],
    folder: Path,
    *,
    name: str = "",
    log: Callable[[str], None] = lambda text: None,
    listener: Listener = lambda report: None,
) -> Table:
    """Train each family into a folder of its name, or resume it, and test it."""
    results = []
    for number, family in enumerate(ready, 1):
        log(f"{family.name} ({number} of {len(ready)}): {family.note}")
        place = folder / family.name
        progress = training_run.train(
            family.design.config,
            place,
            listener=listener,
            observers=trace_observers,
            surveyed=family.design.survey.files,
        )
        finish(family.design, place)
        results.append(_result(family, place, progress))
    return Table(name, tuple(results))


def _result(family: Family, place: Path, progress: Progress) -> Result:
    model: Any = load(place).model
    source, target = tokens_read(family, place, progress)
    return Result(
        family=family,
        folder=place,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        flops=training_flops(model, source, target),
        target_tokens=target,
        steps=progress.step,
        seconds=progress.seconds,
        evaluation=read_json(place / FILE),
    )


def tokens_read(family: Family, place: Path, progress: Progress) -> tuple[int, int]:
    """Return the tokens of both sides that a training has read, ends included."""
    config, cursor = family.design.config, progress.cursor
    lengths = task_class(config.task).load(place, config).lengths(Store.open(place / "data" / "train"))
    plan = Plan(lengths, batching_of(config.training), config.seed)
    epoch = plan.epoch(cursor.epoch)
    read = [number for batch in range(cursor.batch) for number in epoch[batch]]
    source, target = (
        int(cursor.epoch * (side.sum() + len(side)) + side[read].sum() + len(read)) for side in lengths
    )
    return source, target

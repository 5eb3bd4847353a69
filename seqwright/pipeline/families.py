"""Families of models compared on the same data, tokenizers, batches and budget (as in table 2 of Vaswani et
al. 2017).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from seqwright.files import read_json, strict, write_text, writing
from seqwright.models.building.scaling import (
    Vocabularies,
    counted_flops,
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
from seqwright.runs.folder import Run
from seqwright.runs.report.costs import Trained, cost_figure
from seqwright.training import run as training_run
from seqwright.training.preparation import prepare
from seqwright.training.trainer import Listener, Progress

FORMAT = 1
OURS = "ours"  # the source of presets that come from no paper; they are small already
READ_OFF = "encoder_only"  # models whose output is read off an encoder: their sizes are compared, not changed
FLOPS = {
    KIND: "6 · parameters · tokens of each side (Kaplan et al. 2020), without embeddings and products of "
    "attention",
    READ_OFF: "products and sums of forward and backward pass, counted by torch on a sample of the training "
    "data",
}
UNIT = {KIND: "target token"}  # that a training has read; otherwise the noun of the task
SAMPLE = 32  # examples whose FLOPs are counted
FIGURE = "families.svg"


@dataclass(frozen=True)
class Family:
    """A preset that is ready to be trained; `note` explains its size."""

    name: str
    design: Design
    note: str


@dataclass(frozen=True)
class Result:
    """The result of a family: its test, and the cost of its training.

    unit: what a training reads, as in "target token" (ends included) or "image". read: how many it was
    trained on. seconds: of training, validations included.
    """

    family: Family
    folder: Path
    parameters: int
    flops: float
    unit: str
    read: int
    steps: int
    seconds: float
    evaluation: Mapping[str, Any]

    @property
    def read_per_second(self) -> float:
        return self.read / max(self.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        known = ("metrics", "intervals", "level", "signatures", "better")
        unit = f"{self.unit.replace(' ', '_')}s"
        return {
            "family": self.family.name,
            "paper": PRESETS[self.family.name].source,
            "note": self.family.note,
            "folder": str(self.folder),
            **{key: self.evaluation[key] for key in known},
            "parameters": self.parameters,
            "flops": self.flops,
            unit: self.read,
            f"{unit}_per_second": self.read_per_second,
            "steps": self.steps,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Table:
    """The results in the order of the families; `name` is that of the data. `figure`: the file of the drawing
    of scores against costs.
    """

    name: str
    results: tuple[Result, ...]
    figure: Path

    @property
    def flops_rule(self) -> str:
        return FLOPS[PRESETS[self.results[0].family.name].kind]

    def to_json(self) -> dict[str, Any]:
        families = [result.to_json() for result in self.results]
        document = {"format": FORMAT, "file": self.name, "flops_rule": self.flops_rule, "families": families}
        return strict({**document, "figure": str(self.figure), "version": __version__})

    def __str__(self) -> str:
        first = self.results[0].evaluation
        metric = next(iter(first["metrics"]))
        arrow = "↑" if first["better"][metric] == "higher" else "↓"
        lines = [
            f"{self.name}: {metric_label(metric, first.get('item', 'word'))} {arrow} on "
            f"{pluralize(first['items'], 'held-out item')}",
            "",
            f"{'family':20} {'score':>7} {'interval':>14} {'parameters':>12} {'FLOPs':>8} "
            f"{self.results[0].unit.split()[-1] + 's/s':>9} {'steps':>8} {'minutes':>8}",
        ]
        lines += [_line(result, metric) for result in self.results]
        notes = [f"{result.family.name}: {result.family.note}" for result in self.results]
        targets = "; tokens/s: of the targets" if self.results[0].unit == UNIT[KIND] else ""
        notes.append(f"FLOPs of training: {self.flops_rule}{targets}")
        wrapped = (line for note in notes for line in textwrap.wrap(note, WIDTH))
        return "\n".join([*lines, "", *wrapped, f"figure: {self.figure}"])


def _line(result: Result, metric: str) -> str:
    score, (low, high) = result.evaluation["metrics"][metric], result.evaluation["intervals"][metric]
    between = f"{low:.2f}–{high:.2f}"
    return (
        f"{result.family.name:20} {score:7.2f} {between:>14} {result.parameters:12,} {result.flops:8.1e} "
        f"{result.read_per_second:9,.0f} {result.steps:8,} {result.seconds / 60:8.1f}"
    )


def families(names: Sequence[str], base: Design, folder: Path, *, paper_size: bool = False) -> list[Family]:
    """Return the presets as they will be trained, for a design by recipe.

    Encoder-decoders of papers are scaled to the size of the recipe's model, unless `paper_size` is set; our
    own and all other models stay as they are. Requested options of the model go to the families that have
    them.
    """
    requested = check_names(names, base.changes)
    task = task_class(base.config.task)
    if (kind := PRESETS[names[0]].kind) not in task.models:
        kinds = " or ".join(task.models)
        raise ConfigError(f"{names[0]} is a model of kind {kind}; {base.config.task} needs {kinds}")
    base.check_parts()
    if kind == READ_OFF:
        return [_as_it_is(name, base, requested) for name in dict.fromkeys(names)]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    facts = prepare(base.config, folder).task.facts()  # vocabularies determine the sizes
    if "source_vocabulary" not in facts:
        raise ConfigError(f"families of {base.config.task} cannot be compared; train the presets one by one")
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
        if PRESETS[name].kind not in (KIND, READ_OFF):
            kind = PRESETS[name].kind
            raise ConfigError(f"{name} is a model of kind {kind}; families are of kind {KIND} or {READ_OFF}")
        if PRESETS[name].kind != PRESETS[names[0]].kind:
            kinds = [f"{each} is of kind {PRESETS[each].kind}" for each in (names[0], name)]
            raise ConfigError(f"{' and '.join(kinds)}; families are of one kind")
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


def _as_it_is(name: str, base: Design, requested: Mapping[str, Any]) -> Family:
    """Give a family the rate and the options that the recipe chooses for its preset."""
    options = preset_options(name)
    kept = {key: value for key, value in requested.items() if key in options}
    design = replace(base, requested={**base.requested, "model": kept}).with_preset(name)
    model = design.config.model
    assert isinstance(model, dict)  # a preset with the options of the recipe
    changed = {key: value for key, value in model.items() if key != "preset"}
    return Family(name, design, f"as it is{_listed(changed)}")


def _listed(options: Mapping[str, Any], prefix: str = "") -> str:
    """Name options and values: `, encoder.patch 4`."""
    found = ""
    for key, value in options.items():
        if isinstance(value, Mapping):
            found += _listed(value, f"{prefix}{key}.")
        else:
            found += f", {prefix}{key} {value}"
    return found


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
    figure = folder / FIGURE
    write_text(figure, _drawn(results))
    return Table(name, tuple(results), figure)


def _drawn(results: Sequence[Result]) -> str:
    """Draw the scores of the families against minutes and FLOPs."""
    first = results[0].evaluation
    metric = next(iter(first["metrics"]))
    trained = []
    for result in results:
        validated = [
            (entry["seconds"] / 60, entry[metric])
            for entry in Run.open(result.folder).records()
            if metric in entry and "valid_loss" in entry
        ]
        test = result.evaluation
        score, interval = test["metrics"][metric], test["intervals"][metric]
        trained.append(
            Trained(result.family.name, validated, result.flops, score, interval, result.parameters)
        )
    return cost_figure(metric_label(metric, first.get("item", "word")), trained)


def _result(family: Family, place: Path, progress: Progress) -> Result:
    model: Any = load(place).model
    kind = PRESETS[family.name].kind
    if kind == READ_OFF:
        read = progress.cursor.examples
        flops = read * flops_of_one(family, place, model)
    else:
        source, read = tokens_read(family, place, progress)
        flops = training_flops(model, source, read)
    return Result(
        family=family,
        folder=place,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        flops=flops,
        unit=UNIT.get(kind, task_class(family.design.config.task).nouns.example),
        read=read,
        steps=progress.step,
        seconds=progress.seconds,
        evaluation=read_json(place / FILE),
    )


def flops_of_one(family: Family, place: Path, model: Any) -> float:
    """Return the FLOPs of training on one example, the mean of a sample."""
    store, config = Store.open(place / "data" / "train"), family.design.config
    numbers = np.linspace(0, len(store) - 1, min(SAMPLE, len(store))).astype(np.int64)
    return counted_flops(model, task_class(config.task).load(place, config).batch(store, numbers)) / len(
        numbers
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

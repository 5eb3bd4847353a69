"""The design of a training: the configuration, what is known of the data, and the reason for each choice."""

from __future__ import annotations

import importlib
import os
import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from seqwright.config import Config, DataConfig, override, parse, read, read_toml
from seqwright.config.outside import import_outside
from seqwright.config.presets import PRESETS
from seqwright.config.recipe import ENDS, Choice, Recipe, merged
from seqwright.config.registry import unknown, unknown_each
from seqwright.data.checks.findings import Finding
from seqwright.data.fingerprints import fingerprints
from seqwright.data.glance import recognise
from seqwright.data.readers.images import tables_and_home
from seqwright.data.split import ENOUGH, NAMES, Part, SplitRule, parts_in
from seqwright.data.survey import Survey, survey
from seqwright.data.task import check_field
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.pipeline.correcting import corrected, keep_corrections, with_corrections
from seqwright.pipeline.starting import started
from seqwright.prediction.predictor import paths_of
from seqwright.runs.folder import WEIGHTS, Run, check_home
from seqwright.runtime import machine
from seqwright.training import run as training_run
from seqwright.training.warm_start import Start


@dataclass(frozen=True)
class Design:
    """A training before it begins or resumes. `requested`: the options that were not left to the recipe."""

    config: Config
    survey: Survey
    choices: tuple[Choice, ...]
    changes: tuple[str, ...] = ()
    requested: Mapping[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return what was found and what was chosen, with reasons."""
        chosen = [f"  {choice.what}: {choice.reason}" for choice in self.choices]
        changed = [f"  as requested: {' '.join(self.changes)}"] if self.changes else []
        corrections = self.survey.corpus.corrections
        found = [] if corrections is None else [f"  {line}" for line in corrections.lines()]
        return [*self.survey.lines(), f"  {self._split()}", *found, *chosen, *changed]

    def keeping_corrections(self, folder: Path) -> Design:
        """Return the design with a copy of its corrections, if it has any, next to the run folder."""
        files = self.config.data.corrections
        if not files:
            return self
        kept = keep_corrections(files, folder)
        others = {path: mark for path, mark in self.survey.files.items() if path not in files}
        corpus = self.survey.corpus
        found = replace(
            self.survey,
            corpus=replace(corpus, data=replace(corpus.data, corrections=(kept,))),
            files={**others, **fingerprints([kept])},
        )
        config = replace(self.config, data=replace(self.config.data, corrections=(kept,)))
        return replace(self, config=config, survey=found)

    def to_json(self, left_out: Iterable[Finding] = ()) -> dict[str, Any]:
        """Return the document of data.json; `left_out` are the findings of the preparation."""
        found = self.survey.to_json()
        return {
            **found,
            "findings": [*(finding.to_json() for finding in left_out), *found["findings"]],
            "split": self.survey.split(self.config.data),
            "machine": machine(),
            "choices": [{"what": choice.what, "reason": choice.reason} for choice in self.choices],
        }

    def with_preset(self, name: str) -> Design:
        """Return the design of a training on the same data that requests this preset."""
        requested = merged(self.requested, {"model": {"preset": name}})
        recipe = _chosen(self.config, self.survey, requested)
        columns = {"data": {"columns": self.survey.columns}} if self.survey.columns else {}
        own = merged(merged(requested, columns), {"task": self.config.task})
        return replace(self, config=parse(merged(recipe.table(), own)), choices=recipe.choices)

    def check_parts(self) -> None:
        """Refuse what cannot be trained or validated, before there is a folder for it."""
        found, share = self.survey, self.config.data.held_out
        for part, count in found.split(self.config.data).items():
            if not count and part != "test":  # without a test split, the validation has the final score
                groups = pluralize(found.report.distinct, f"distinct {found.corpus.task.nouns.group}")
                raise InputError(
                    f"{found.name} has {groups}; with data.held_out = {share:g} the {NAMES[part]} split is "
                    f"empty: training needs at least {ENOUGH}. Add data, or pass --valid and --test files"
                )

    def _split(self) -> str:
        counts, data, task = self.survey.split(self.config.data), self.config.data, self.survey.corpus.task
        shares = [f"{pluralize(counts['train'], task.nouns.example)} for training"]
        for part, own in (("valid", data.valid), ("test", data.test)):
            if counts[part]:  # type: ignore[index]
                shares.append(f"{counts[part]:,} for {NAMES[part]}" + (" (own file)" if own else ""))  # type: ignore[index]
        kept = "" if data.valid else f"; equal {task.nouns.group}s stay in one part, so nothing leaks"
        if task.learning.split in (SplitRule.IN_ORDER, SplitRule.BY_TIME) and not data.valid:
            kept = f"; in this order: the last {task.nouns.example}s are held out"
        return f"split: {', '.join(shares)}{kept}"


def design(
    table: Mapping[str, Any],
    changes: Iterable[str] = (),
    *,
    folder: Path | None = None,
    by_recipe: bool = True,
) -> Design:
    """Design a training from `table`, which names files and any other option.

    `changes` (`key=value`) override the table. What is left open is chosen from the data with `by_recipe`,
    and has its default otherwise. Where a training exists in `folder`, it keeps the options it began with.
    """
    changes = tuple(changes)
    requested = override(table, changes)
    if isinstance(requested.get("model"), str):  # a preset, to which the recipe may add
        requested["model"] = {"preset": requested["model"]}
    requested, notes = with_corrections(requested, folder)
    requested, recognised = _with_parts(requested)
    import_outside(requested)
    config = _checked(requested)
    if folder is not None:
        check_home(folder)
        _check_resumable(folder)
    if not config.data.train:
        raise ConfigError("no data file is named; give one, two parallel files, or a configuration")
    existing = _existing(folder) if by_recipe and folder is not None else None
    if existing is not None:
        requested = _with_first_names(requested, config.data, existing.table["data"])
        _check_same_files(existing.table["data"]["train"], requested["data"]["train"], folder)
        config = parse(merged(existing.table, requested))
    elif by_recipe and "task" not in requested:
        task, evidence = recognise(config.data.train, config.data, config.task)
        config = replace(config, task=task)
        if evidence is not None:
            recognised += (Choice(f"task {task}", {"task": task}, f"{evidence}; --task overrides"),)
    check_field(config.task, config.data.field)
    found = survey(config)
    if not by_recipe:
        recipe = Recipe((Choice("model and training", {}, "from the configuration"),))
    elif existing is not None:
        recipe = Recipe((existing, *notes))
    else:
        chosen = _chosen(config, found, requested)
        if found.corpus.corrections is not None:
            chosen = corrected(chosen, found.corpus.corrections, found.split(config.data)["train"], requested)
        recipe = Recipe((*recognised, *chosen.choices))
    columns = {"data": {"columns": found.columns}} if found.columns else {}
    config = parse(merged(recipe.table(), merged(requested, columns)))
    return Design(config, found, recipe.choices, changes, requested)


def _with_parts(requested: dict[str, Any]) -> tuple[dict[str, Any], tuple[Choice, ...]]:
    """Replace a folder that holds the parts of a data set by these; parts that are requested stay. Of a
    folder of images and tables that name them, the tables are the data.
    """
    data = requested.get("data", {})
    files = data.get("train") if isinstance(data, dict) else None
    if not isinstance(files, list | tuple) or not files:
        return requested, ()
    if len(files) > 1:
        named = None if data.get("images") else tables_and_home(files, DataConfig())
        if named is None:
            return requested, ()
        tables, home = named
        choice = Choice(f"images in {home}", {}, f"{', '.join(tables)} names them; data.images overrides")
        return merged(requested, {"data": {"train": tables, "images": home}}), (choice,)
    parts = parts_in(files[0])
    found = {part: paths for part, paths in parts.items() if part == "train" or not data.get(part)}
    if not found:
        return requested, ()
    names = {part: ", ".join(map(os.path.basename, paths)) for part, paths in found.items()}
    what = ", ".join(f"{name} for {NAMES[part]}" for part, name in names.items())
    choice = Choice(f"parts of {files[0]}: {what}", {}, "by their names; --valid and --test override")
    return merged(requested, {"data": found}), (choice,)


def from_file(path: str) -> dict[str, Any]:
    """Return the tables of a TOML configuration."""
    try:
        return read_toml(Path(path).read_text(encoding="utf-8-sig"), path)  # some editors write a mark first
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (at byte {error.start}); convert it") from error


def _checked(requested: Mapping[str, Any]) -> Config:
    """Return the requested configuration; everything wrong with it is one error, before data is read."""
    training = requested.get("training", {})
    ends = isinstance(training, Mapping) and any(training.get(end) is not None for end in ENDS)
    complete = dict(requested) if ends else merged({"training": {"minutes": 1.0}}, requested)
    config, problems = read(complete, _model_keys)
    model = requested.get("model")
    keys = _wrong_keys(model) if isinstance(model, Mapping) else []
    problems += training_run.wrong_parts(config) + keys
    if problems:  # otherwise the model is checked as soon as the recipe is known
        problems += training_run.wrong_model(config) if config.start is None and not keys else []
        raise ConfigError("; ".join(dict.fromkeys(problems)))
    return config


def _wrong_keys(model: Mapping[str, Any]) -> list[str]:
    """Return options that no model has, and a preset that does not exist."""
    known = ["preset", "kind", *(key.removeprefix("model.") for key in _model_keys())]
    wrong = unknown_each("option of the model", [key for key in model if key not in known], known)
    named = model.get("preset")
    return wrong if named is None or named in PRESETS else [unknown("preset", named, list(PRESETS)), *wrong]


def _model_keys() -> list[str]:
    """Return the keys that the table of a model may have."""
    from seqwright.models import MODELS
    from seqwright.models.building.scaling import preset_options

    kinds = (MODELS.options(kind) for kind in MODELS.names())
    return [f"model.{key}" for key in sorted(set().union(*kinds, *map(preset_options, PRESETS)))]


def _check_resumable(folder: Path) -> None:
    """Refuse to overwrite a model whose checkpoints are gone."""
    if Run.exists(folder) and (folder / WEIGHTS).exists() and not Run.open(folder).checkpoints().steps():
        raise ModelError(
            f"{folder} holds a model but no checkpoints to resume from; a new training would overwrite it: "
            "train in another folder, or remove this one"
        )


def _check_same_files(known: Sequence[str], wanted: Sequence[str], folder: Path | None) -> None:
    """Refuse other training files before they are read in the form of the first ones."""
    if list(known) != list(wanted):
        files = ", not ".join(map(shorten_list, (known, wanted)))
        way_out = shlex.join(["--out", f"{folder}-2"])
        raise ModelError(
            f"{folder} was started with other data ({files}); train elsewhere, as with {way_out}"
        )


def _with_first_names(
    requested: dict[str, Any], data: DataConfig, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Files keep the names they had when the training began, however they are spelt now."""

    def places(files: Iterable[str]) -> list[str]:
        return [os.path.realpath(file) for file in files]

    parts = [part for part in NAMES if places(getattr(data, part)) == places(known[part])]
    return merged(requested, {"data": {part: known[part] for part in parts}})


def _existing(folder: Path) -> Choice | None:
    """Return what a training takes over from itself, once it has weights."""
    if not Run.exists(folder):
        return None
    run = Run.open(folder)
    steps = run.checkpoints().steps()
    if not steps:
        return None
    reason = (
        "its weights, tokenizers and options are kept except for what is requested now; steps and minutes "
        "count from its beginning; another --out starts a new training"
    )
    return Choice(f"resumes {folder} at step {max(steps):,}", run.config, reason)


def _chosen(config: Config, found: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Choose by the recipe of the task, with at least one example in each part of the split."""
    choose = partial(recipe_of(config.task), found)
    if config.start is None:
        recipe = choose(requested)
    else:
        recipe = started(choose, Start.open(config.start), config.task, requested)
    chosen = recipe.table().get("data", {}).get("held_out")
    if chosen is None or "held_out" in requested.get("data", {}):
        return recipe
    share = _least_share(found, replace(config.data, held_out=chosen))
    if share is None or share == chosen:
        return recipe
    again = "" if config.data.test else ", and as many for the test"
    what = f"{100 * share:.0f} % of the {found.corpus.task.nouns.group}s for validation{again}"
    reason = "there are so few that less would leave a part empty"
    others = (own for own in recipe.choices if "held_out" not in own.table.get("data", {}))
    return Recipe((Choice(what, {"data": {"held_out": share}}, reason), *others))


def recipe_of(task: str) -> Any:
    """Return the function `choose(survey, requested)` of a task: that of its recipe file, or of the module of
    a task outside of the package; without one, nothing is chosen.
    """
    module = task.partition(":")[0] if ":" in task else f"seqwright.recipes.{task}"
    return getattr(importlib.import_module(module), "choose", lambda survey, requested: Recipe(()))


def _least_share(found: Survey, data: DataConfig) -> float | None:
    """Return the share of `data`, or the next hundredth that leaves no part of the split empty."""
    hundredths = (number / 100 for number in range(int(100 * data.held_out) + 1, 50))
    for share in (data.held_out, *hundredths):
        if all(found.split(replace(data, held_out=share)).values()):
            return share
    return None


def held_out_files(given: Any, part: Part) -> list[str]:
    """Return the files of a part; refuse examples in memory, which only training data may be."""
    files = paths_of(given)
    if not files and not (given is None or (isinstance(given, list | tuple) and not given)):
        raise InputError(
            f"{part} is {reprlib.repr(given)}; name files that hold its examples, or leave it out to take a "
            "share of the training data"
        )
    return files

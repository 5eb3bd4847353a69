"""Fine-tuning: start from the weights of another run. New symbols get new embedding rows.

A run of the same task gives all its weights. A run of another task gives its encoder, or its decoder if it is
a language model; the other parts of the new model are new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqwright.config import Config, parse
from seqwright.data.task import Task, task_class
from seqwright.data.tokenizer import UNK
from seqwright.errors import ModelError
from seqwright.files import sha256
from seqwright.models import Model
from seqwright.models.building import parts_of, resolve
from seqwright.models.building.transfer import as_encoder, fixed_options
from seqwright.runs.folder import WEIGHTS, Run, differences

NOISE = 0.02  # of a new row, relative to its size, so that new symbols can diverge
RECORD = "start.json"


@dataclass(frozen=True)
class Start:
    """A run that another training starts from."""

    path: str
    run: Run
    config: Config

    @classmethod
    def open(cls, path: str | Path) -> Start:
        run = Run.open(path)
        if not run.path(WEIGHTS).exists():
            raise ModelError(f"{path} has no weights yet; finish its training, or train without start")
        return cls(str(path), run, parse(run.config))

    @cached_property
    def task(self) -> Task[Any, Any]:
        return task_class(self.config.task).load(self.run.folder, self.config)

    @cached_property
    def model(self) -> dict[str, Any]:
        """The complete description of its model."""
        return resolve(self.config.model)

    def check_transfer(self, task: str) -> None:
        """Refuse to take an encoder into another task, unless both read text."""
        named = f"{self.path} is a run of {self.config.task}"
        if not task_class(task).learning.transfers:
            raise ModelError(f"{named}; {task} can only start from a run of {task}")
        if self.task.reads is None:
            raise ModelError(f"{named}, which does not read plain text; {task} cannot start from it")

    def encoder(self) -> tuple[str, dict[str, Any]]:
        """Return the part that another task takes over, and its description as an encoder."""
        try:
            return as_encoder(self.model)
        except ModelError as error:
            raise ModelError(f"{self.path}: {error}") from error

    def check_encoder(self, wanted: Mapping[str, Any]) -> str:
        """Return the part that becomes the encoder of a model; refuse one with other options."""
        part, taken = self.encoder()
        sides: list[dict[str, Any]] = [{"kind": side["kind"]} for side in (taken, wanted)]
        if sides[0] == sides[1]:
            sides = [fixed_options(taken), fixed_options(wanted)]
        if changed := differences(*sides):
            changes = "; ".join(changed)
            raise ModelError(
                f"{self.path} has another encoder ({changes}); use its options, or train without start"
            )
        return part

    def parameters(self, part: str) -> int:
        shapes = self.run.weight_shapes()
        return sum(torch.Size(shape).numel() for name, shape in shapes.items() if name.startswith(f"{part}."))


def taken_parts(start: Start, config: Config) -> dict[str, str]:
    """Return the beginnings of the names of weights that are taken over: in the new model, and in the old.

    Raise a ModelError if the models do not fit each other.
    """
    path, new = start.path, resolve(config.model)
    if start.config.task == config.task:
        if changed := differences(start.model, new):
            changes = "; ".join(changed)
            raise ModelError(f"{path} has another model ({changes}); use its options, or train without start")
        return {"": ""}
    start.check_transfer(config.task)
    if "encoder" not in parts_of(new["kind"]):
        raise ModelError(
            f"{config.task} has no encoder, so it cannot start from {path}, a run of {start.config.task}; "
            "train without start"
        )
    return {"encoder.": f"{start.check_encoder(new['encoder'])}."}


def warm_start(model: Model, start: Start, config: Config) -> dict[str, Any]:
    """Copy weights of a run into a model. Vocabularies may be larger than those of the run, not smaller.

    Return the record of what was taken over: the number of parameters by part, and which run they are from.
    """
    saved, wanted, parts = start.run.load_weights(), model.weights(), taken_parts(start, config)
    chosen: dict[str, str] = {}  # names in the new model and in the old one
    for own, old in parts.items():
        chosen |= {name: f"{old}{name.removeprefix(own)}" for name in wanted if name.startswith(own)}
    missing = [name for name in chosen.values() if name not in saved]
    unused = [name for name in saved if "" in parts and name not in wanted]
    if different := sorted((*missing, *unused))[:3]:
        raise ModelError(f"{start.path} has other weights than this model: {different}")
    taken = {name: grown(saved[old], wanted[name], name) for name, old in chosen.items()}
    model.take_weights({**wanted, **taken})
    return {
        "run": start.path,
        "id": start.run.id,
        "task": start.config.task,
        "weights": sha256(start.run.path(WEIGHTS)),
        "taken": _count(wanted, taken),
        "new": _count(wanted, wanted.keys() - taken.keys()),
    }


def _count(weights: Mapping[str, Tensor], names: Any) -> dict[str, int]:
    """Count the numbers in weights by the part of the model that they belong to."""
    counts: dict[str, int] = {}
    for name in sorted(names):
        part = name.partition(".")[0]
        counts[part] = counts.get(part, 0) + weights[name].numel()
    return counts


def grown(saved: Tensor, wanted: Tensor, name: str) -> Tensor:
    """Extend a saved weight by rows for new symbols: copies of that of the unknown symbol, plus noise; in a
    head, where rows are classes, by those of the new model.
    """
    if saved.shape == wanted.shape:
        return saved
    more = wanted.shape[0] - saved.shape[0]
    if more < 0 or saved.shape[1:] != wanted.shape[1:]:
        old, new = tuple(saved.shape), tuple(wanted.shape)
        raise ModelError(f"{name} is {old} in the old run and {new} in the new one")
    if name.startswith("head."):
        return torch.cat([saved, wanted[len(saved) :]])
    unknown = saved[UNK].expand(more, *saved.shape[1:])
    spread = unknown.std() if unknown.numel() > 1 else 0.0  # undefined for one number
    noise = torch.randn(unknown.shape, generator=torch.Generator().manual_seed(more)).to(saved.dtype)
    return torch.cat([saved, unknown + NOISE * spread * noise])

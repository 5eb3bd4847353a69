"""Checkpoints: folders of tensors and state that are complete or absent, and pointers to two of them.

A checkpoint is a folder `step_00012000` with a tensor file per part (`model.safetensors`, ...), `state.json`,
and `manifest.json`, which has the size and SHA-256 of each file and of itself. The files `LATEST` and `BEST`
hold the names of two checkpoints. A save writes to a temporary folder, syncs it, renames it, moves the
pointers, and only then removes old checkpoints; a kill at any point leaves the old checkpoint or the new one.
A step that is saved again does not replace the first: it becomes `step_00012000.2`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, NonNegativeInt, ValidationError
from torch import Tensor

import seqwright
from seqwright import files
from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError
from seqwright.evaluation.metrics import Better
from seqwright.runs.tensors import allocating, load_tensors, not_finite, tied_names, write_tensors

FORMAT = 1
LATEST, BEST, MANIFEST, STATE, TENSORS = "LATEST", "BEST", "manifest.json", "state.json", ".safetensors"
FOLDER = re.compile(r"step_(\d{8,})(?:\.(\d+))?")
FILE = re.compile(r"\w[\w.-]*\.safetensors|state\.json")

log = logging.getLogger(__name__)


class FileEntry(BaseModel):
    """A file in the manifest."""

    bytes: NonNegativeInt
    sha256: str


class Manifest(BaseModel):
    """The contents of `manifest.json`. `parameters` is the number of parameters in the part `model`."""

    format: int
    run: str
    step: NonNegativeInt
    metric: float | None
    better: Better
    parameters: int
    versions: dict[str, str]
    files: dict[str, FileEntry]


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: part -> name -> tensor, and the state as read from JSON."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]
    path: Path


class Checkpoints:
    """The checkpoints of one run. Only one process may write at a time; any number may read."""

    def __init__(self, folder: Path, run_id: str, keep: int = 3, log: Callable[[str], None] = log.warning):
        if keep < 1:
            raise ConfigError(f"keep is {keep}; at least 1 checkpoint is needed to resume")
        self.folder, self.run_id, self.keep, self.log = folder, run_id, keep, log

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: dict[str, Any],
        metric: float | None = None,
        better: Better = "higher",
        *,
        kept: bool = False,
    ) -> Path:
        """Write a checkpoint and point LATEST at it, and BEST if it is `kept` or its metric beats the best.

        Raises DivergedError if a tensor is not finite, and WriteError if writing fails; others stay then.
        """
        self._check_finite(step, tensors)
        with files.writing(self.folder):
            self.folder.mkdir(exist_ok=True)  # not its parents: a run folder that was moved stays gone
        size = sum(tensor.nbytes for group in tensors.values() for tensor in group.values())
        files.check_space(self.folder, int(1.1 * size))  # some space stays free
        metric = metric if metric is not None and math.isfinite(metric) else None
        is_best = kept or self._beats_best(metric, better)
        place, times = self.folder / f"step_{step:08d}", 1
        while place.exists():
            times += 1
            place = self.folder / f"step_{step:08d}.{times}"
        model, entries = tensors.get("model", {}), {}
        tied = tied_names(model)
        with files.atomic_folder(place, "save") as fresh:
            for part, group in tensors.items():
                with files.HashedFile(fresh / (part + TENSORS), f"save:{part + TENSORS}") as file:
                    write_tensors(file, group)
                    entries[part + TENSORS] = file.finish()
            entries[STATE] = _write_json(fresh / STATE, state)
            manifest = {
                "format": FORMAT,
                "run": self.run_id,
                "step": step,
                "metric": metric,
                "better": better,
                "parameters": sum(tensor.numel() for name, tensor in model.items() if name not in tied),
                "versions": {"seqwright": seqwright.__version__, "torch": str(torch.__version__)},
                "files": entries,
            }
            _write_json(fresh / MANIFEST, _sealed(manifest))
        for pointer in (BEST, LATEST) if is_best else (LATEST,):
            files.write_text(self.folder / pointer, place.name + "\n", f"save:{pointer}")
        try:
            self.retain()
        except WriteError as error:
            self.log(f"an old checkpoint was not removed: {error}")
        return place

    def load(self, *, parts: Iterable[str] | None = None, verify: bool = True) -> Checkpoint | None:
        """Load the checkpoint that LATEST names, or if it is damaged the newest complete one, if any.

        If all are damaged, that is a ModelError: a trained run never restarts from zero silently.
        """
        latest = self._pointed(LATEST)
        others = [path for path in reversed(self._folders()) if path != latest]
        candidates = others if latest is None else [latest, *others]
        for path in candidates:
            try:
                return self.read(path, parts=parts, verify=verify)
            except files.NewerFormatError:
                raise  # resuming from an older one would discard newer work
            except ModelError as error:
                self.log(f"checkpoint {path.name} is skipped: {error}")
        if candidates:
            useless = f"none of the {len(candidates)} checkpoints in {self.folder} can be used"
            raise ModelError(f"{useless}; restore one from a copy, or train in another folder")
        return None

    def read(self, path: Path, *, parts: Iterable[str] | None = None, verify: bool = True) -> Checkpoint:
        """Read a checkpoint, or only some of its parts. Sizes are always checked, hashes if `verify`."""
        manifest = self._manifest(path)
        known = [name.removesuffix(TENSORS) for name in manifest.files if name.endswith(TENSORS)]
        wanted = known if parts is None else list(parts)
        if missing := [part for part in wanted if part not in known]:
            raise ModelError(f"{path} has no part {missing[0]!r}; it has: {', '.join(known)}")
        for name in (STATE, *(part + TENSORS for part in wanted)) if verify else ():
            with files.reading(path / name):
                found = files.sha256(path / name)
            if found != manifest.files[name].sha256:
                raise ModelError(f"{path / name} is damaged: its SHA-256 does not match the manifest")
        tensors = {part: load_tensors(path / (part + TENSORS)) for part in wanted}
        for part, group in tensors.items():
            if wrong := not_finite(group):
                raise ModelError(f"{path / (part + TENSORS)} has a non-finite value in {wrong}")
        return Checkpoint(manifest.step, tensors, files.read_json(path / STATE), path)

    def steps(self) -> list[int]:
        """Return the steps of this run with a complete checkpoint, ascending."""
        return sorted({manifest.step for manifest in self._complete().values()})

    def best(self) -> Path | None:
        """Return the checkpoint that BEST names, or if it is damaged the best of the others."""
        complete, named = self._complete(), self._pointed(BEST)
        if named in complete:
            return named
        if named is not None:
            self.log(f"{BEST} names {named.name}, which is damaged; using the best of the others")
        scored = [path for path, manifest in complete.items() if manifest.metric is not None]
        if not scored:
            return None
        pick = max if complete[scored[-1]].better == "higher" else min
        return pick(scored, key=lambda path: complete[path].metric or 0.0)

    def retain(self) -> None:
        """Remove the complete checkpoints of this run except LATEST, BEST, and the `keep` - 1 before LATEST.

        Nothing is removed unless LATEST is complete. Those after it are from before a training was resumed.
        """
        complete, latest = list(self._complete()), self._pointed(LATEST)
        if latest not in complete:
            return
        until = complete.index(latest) + 1
        kept = {*complete[max(0, until - self.keep) : until], self._pointed(BEST)}
        for path in (path for path in complete if path not in kept):
            with files.writing(path):
                files.discard(path, "retention")

    def _check_finite(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        for part, group in tensors.items():
            with allocating(part):
                wrong = not_finite(group)
            if wrong:
                last = self._pointed(LATEST)
                good = f"the last good checkpoint is {last.name if last else 'none'}"
                raise DivergedError(f"step {step} is not saved: {part} {wrong} is not finite; {good}")

    def _folders(self) -> list[Path]:
        """All folders named like checkpoints, oldest first: by step, then by repetition."""
        if not self.folder.is_dir():
            return []
        found = [(FOLDER.fullmatch(path.name), path) for path in self.folder.iterdir()]
        order = {path: (int(match[1]), int(match[2] or 1)) for match, path in found if match}
        return sorted(order, key=lambda path: order[path])

    def _complete(self) -> dict[Path, Manifest]:
        """The checkpoints of this run with a valid manifest and files of the right sizes, oldest first."""
        complete = {}
        for path in self._folders():
            with suppress(ModelError):
                complete[path] = self._manifest(path)
        return complete

    def _manifest(self, path: Path) -> Manifest:
        """Read the manifest of a checkpoint of this run, and check it and the sizes of its files."""
        place, fields = path / MANIFEST, files.read_json(path / MANIFEST)
        files.check_format(place, fields.get("format"), FORMAT)
        if fields != _sealed(fields):
            raise ModelError(f"{place} is damaged: its SHA-256 does not match")
        try:
            manifest = Manifest.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ModelError(f"{place} is not a manifest: {where}: {first['msg']}") from error
        if wrong := [name for name in manifest.files if not FILE.fullmatch(name)]:
            raise ModelError(f"{place} names {wrong[0]!r}, but a checkpoint has only safetensors and {STATE}")
        if STATE not in manifest.files:
            raise ModelError(f"{place} does not name {STATE}")
        if manifest.run != self.run_id:
            raise ModelError(f"{path} belongs to run {manifest.run}, but this is run {self.run_id}")
        for name, entry in manifest.files.items():
            with files.reading(path / name):
                size = (path / name).stat().st_size
            if size != entry.bytes:
                raise ModelError(f"{path / name} has {size} bytes instead of {entry.bytes}")
        return manifest

    def _pointed(self, pointer: str) -> Path | None:
        """The folder that a pointer names, whether it exists or not."""
        try:
            with files.open_regular(self.folder / pointer) as file:
                name = file.read(100).decode().strip()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.log(f"{self.folder / pointer} cannot be read: {error}")
            return None
        if not FOLDER.fullmatch(name):
            self.log(f"{self.folder / pointer} does not name a checkpoint: {name[:40]!r}")
            return None
        return self.folder / name

    def _beats_best(self, metric: float | None, better: Better) -> bool:
        path = self.best()
        best = None if path is None else self._manifest(path).metric
        if metric is None or best is None:
            return metric is not None
        return metric > best if better == "higher" else metric < best


def _sealed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a manifest with the SHA-256 of all of them."""
    content = {key: value for key, value in fields.items() if key != "sha256"}
    return {**content, "sha256": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def _write_json(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    with files.HashedFile(path, f"save:{path.name}") as file:
        file.write(files.encode_json(value, indent=1))
        return file.finish()

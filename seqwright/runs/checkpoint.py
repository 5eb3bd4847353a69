"""Checkpoints: tensors and a few numbers in a folder that is whole or not there, and pointers to the folders.

A checkpoint is a folder `step_00012000` with a file of tensors for each part (`model.safetensors`, ...), with
`state.json`, and with `manifest.json`, which has the size and SHA-256 of them and of itself; `LATEST` and
`BEST` beside it hold the names of two such folders. A save writes all of it beside its place, brings it to
the disk, renames it, moves the pointers, and only then removes old ones; so a kill at any point leaves the
old checkpoint or the new one. A step that is saved again never touches the first: it becomes
`step_00012000.2`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, NonNegativeInt, ValidationError
from torch import Tensor

import seqwright
from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError
from seqwright.files import (
    HashedFile,
    atomic_folder,
    check_space,
    discard,
    encode_json,
    read_json,
    remove_leftovers,
    sha256,
    write_text,
    writing,
)
from seqwright.runs.tensors import allocating, load_tensors, not_finite, tied_names, write_tensors

FORMAT = 1
SEAL = "sha256"
LATEST, BEST, MANIFEST, STATE, TENSORS = "LATEST", "BEST", "manifest.json", "state.json", ".safetensors"
SPARE = 1.1  # room asked of the disk for each byte of tensors
FOLDER = re.compile(r"step_(\d{8,})(?:\.(\d+))?")
FILE = re.compile(r"\w[\w.-]*\.safetensors|state\.json")

Better = Literal["higher", "lower"]

log = logging.getLogger(__name__)


class Entry(BaseModel):
    """A file in the manifest."""

    bytes: NonNegativeInt
    sha256: str


class Manifest(BaseModel):
    """What `manifest.json` says. `parameters` counts the numbers in the part `model`."""

    format: int
    run: str
    step: NonNegativeInt
    metric: float | None
    better: Better
    parameters: int
    versions: dict[str, str]
    files: dict[str, Entry]


@dataclass(frozen=True)
class Checkpoint:
    """What was saved at a step: part -> name -> tensor, and the state as JSON gives it back."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]
    path: Path


class NewerFormatError(ModelError):
    """A checkpoint of a format that only a later version knows."""


class Checkpoints:
    """The checkpoints of one run. One process may write them at a time; any number may read."""

    def __init__(
        self, folder: str | Path, run_id: str, keep: int = 3, log: Callable[[str], None] = log.warning
    ):
        if keep < 1:
            raise ConfigError(f"keep is {keep}; at least 1 checkpoint must be kept to resume from")
        self.folder, self.run_id, self.keep, self.log = Path(folder), run_id, keep, log

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
        """Write a checkpoint, point LATEST at it, and BEST if it is to be `kept`, or if its metric is better
        than that of the one that BEST names.

        Raises DivergedError if a tensor is not finite, and WriteError if the disk refuses; then what was
        saved before is untouched, and a later save may succeed.
        """
        self._check_finite(step, tensors)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        check_space(self.folder, int(SPARE * sum(_size(group) for group in tensors.values())))
        metric = metric if metric is not None and math.isfinite(metric) else None
        place, is_best = self._free_place(step), kept or self._beats_best(metric, better)
        with atomic_folder(place, "save") as fresh:
            files = {part + TENSORS: _write_part(fresh, part, group) for part, group in tensors.items()}
            files[STATE] = _write_json(fresh / STATE, state)
            manifest = Manifest(
                format=FORMAT,
                run=self.run_id,
                step=step,
                metric=metric,
                better=better,
                parameters=_count(tensors.get("model", {})),
                versions={"seqwright": seqwright.__version__, "torch": torch.__version__},
                files=files,
            )
            _write_json(fresh / MANIFEST, _sealed(manifest.model_dump()))
        if is_best:
            self._point(BEST, place)
        self._point(LATEST, place)
        self._retain_quietly()
        return place

    def load(self, *, parts: Iterable[str] | None = None, verify: bool = True) -> Checkpoint | None:
        """The checkpoint that LATEST names; if that is damaged, the newest whole one; None if there are none.

        Each one that is passed over is said to `log`. If all are, that is a ModelError: a run that has been
        trained never starts from zero in silence.
        """
        candidates = self._candidates()
        for path in candidates:
            try:
                return self.read(path, parts=parts, verify=verify)
            except NewerFormatError:
                raise  # an older one would do, but to go on from it would throw away newer work
            except ModelError as error:
                self.log(f"checkpoint {path.name} is passed over: {error}")
        if candidates:
            raise ModelError(
                f"none of the {len(candidates)} checkpoints in {self.folder} can be used; "
                "restore one from a copy, or choose another folder to start anew"
            )
        return None

    def read(self, path: Path, *, parts: Iterable[str] | None = None, verify: bool = True) -> Checkpoint:
        """One checkpoint, whole, or only some of its parts. Sizes are always checked, hashes if `verify`."""
        manifest = self._manifest(path)
        there = [name.removesuffix(TENSORS) for name in manifest.files if name.endswith(TENSORS)]
        wanted = there if parts is None else list(parts)
        if missing := [part for part in wanted if part not in there]:
            raise ModelError(f"{path} has no part {missing[0]!r}; it has: {', '.join(there)}")
        if verify:
            for name in (STATE, *(part + TENSORS for part in wanted)):
                _check_hash(path / name, manifest.files[name])
        tensors = {part: load_tensors(path / (part + TENSORS)) for part in wanted}
        for part, group in tensors.items():
            if wrong := not_finite(group):
                raise ModelError(f"{path / (part + TENSORS)} holds {wrong}, which is not finite")
        return Checkpoint(manifest.step, tensors, read_json(path / STATE), path)

    def steps(self) -> list[int]:
        """The steps of this run that were saved and look whole, ascending."""
        return sorted({manifest.step for manifest in self._whole().values()})

    def path(self, step: int) -> Path:
        """The folder of a step; the latest one if it was saved more than once."""
        found = [path for path, manifest in self._whole().items() if manifest.step == step]
        if not found:
            raise ModelError(f"{self.folder} has no whole checkpoint of step {step}; it has: {self.steps()}")
        return found[-1]

    def best(self) -> Path | None:
        """The checkpoint that BEST names, or if that is damaged the best one of the others."""
        whole = self._whole()
        named = self._pointed(BEST)
        if named in whole:
            return named
        if named is not None:
            self.log(f"{BEST} names {named.name}, which is damaged; the best of the others is taken")
        scored = [path for path, manifest in whole.items() if manifest.metric is not None]
        if not scored:
            return None
        pick = max if whole[scored[-1]].better == "higher" else min
        return pick(scored, key=lambda path: whole[path].metric or 0.0)

    def mark_best(self, step: int) -> None:
        self._point(BEST, self.path(step))

    def retain(self) -> None:
        """Remove the checkpoints of this run but for LATEST, BEST, and the `keep` - 1 before LATEST.

        Those beyond LATEST go as well: they are of a line of training that was given up for an earlier step.
        Nothing is removed unless LATEST is whole, nor anything of another run, nor what cannot be read.
        """
        whole = list(self._whole())
        latest = self._pointed(LATEST)
        if latest not in whole:
            return
        until = whole.index(latest) + 1
        kept = {*whole[max(0, until - self.keep) : until], self._pointed(BEST)}
        for path in whole:
            if path not in kept:
                with writing(path):
                    discard(path, "retention")

    def clean(self) -> None:
        """Remove what killed saves left behind. For the process that writes, before it begins."""
        remove_leftovers(self.folder)

    def _check_finite(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        for part, group in tensors.items():
            with allocating(part):
                wrong = not_finite(group)
            if wrong:
                last = self._pointed(LATEST)
                raise DivergedError(
                    f"step {step} is not saved: {part} {wrong} is not finite; "
                    f"the last good checkpoint is {last.name if last else 'none'}"
                )

    def _retain_quietly(self) -> None:
        try:
            self.retain()
        except WriteError as error:
            self.log(f"an old checkpoint was not removed: {error}")

    def _folders(self) -> list[Path]:
        """All folders named like checkpoints, oldest first: by step, then by how often it was saved."""
        if not self.folder.is_dir():
            return []
        found = [(FOLDER.fullmatch(path.name), path) for path in self.folder.iterdir()]
        order = {path: (int(match[1]), int(match[2] or 1)) for match, path in found if match}
        return sorted(order, key=lambda path: order[path])

    def _whole(self) -> dict[Path, Manifest]:
        """The checkpoints of this run with a manifest and files of the right sizes, oldest first."""
        whole = {}
        for path in self._folders():
            try:
                whole[path] = self._manifest(path)
            except ModelError:
                continue
        return whole

    def _candidates(self) -> list[Path]:
        """What to try when loading: LATEST, then all others from the newest on."""
        latest = self._pointed(LATEST)
        others = [path for path in reversed(self._folders()) if path != latest]
        return others if latest is None else [latest, *others]

    def _free_place(self, step: int) -> Path:
        place, times = self.folder / f"step_{step:08d}", 1
        while place.exists():
            times += 1
            place = self.folder / f"step_{step:08d}.{times}"
        return place

    def _manifest(self, path: Path) -> Manifest:
        manifest = _read_manifest(path / MANIFEST)
        if manifest.run != self.run_id:
            raise ModelError(f"{path} belongs to the run {manifest.run}, and this is the run {self.run_id}")
        for name, entry in manifest.files.items():
            _check_size(path / name, entry)
        return manifest

    def _pointed(self, pointer: str) -> Path | None:
        """The folder that a pointer names, whether it is there or not."""
        try:
            name = (self.folder / pointer).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.log(f"{self.folder / pointer} cannot be read: {error}")
            return None
        if not FOLDER.fullmatch(name):
            self.log(f"{self.folder / pointer} names no checkpoint: {name[:40]!r}")
            return None
        return self.folder / name

    def _point(self, pointer: str, place: Path) -> None:
        write_text(self.folder / pointer, place.name + "\n", f"save:{pointer}")

    def _beats_best(self, metric: float | None, better: Better) -> bool:
        best = self.best()
        return _beats(metric, None if best is None else self._manifest(best).metric, better)


def _beats(metric: float | None, best: float | None, better: Better) -> bool:
    if metric is None or best is None:
        return metric is not None
    return metric > best if better == "higher" else metric < best


def _read_manifest(path: Path) -> Manifest:
    fields = read_json(path)
    written = fields.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise NewerFormatError(
            f"{path} has format {written}, written by a newer Seqwright; "
            f"upgrade this one, which reads {FORMAT}"
        )
    if fields != _sealed(fields):
        raise ModelError(f"{path} is damaged: its SHA-256 is not the one that it names")
    try:
        manifest = Manifest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ModelError(f"{path} is no manifest: {where}: {first['msg']}") from error
    if wrong := [name for name in manifest.files if not FILE.fullmatch(name)]:
        raise ModelError(f"{path} names {wrong[0]!r}, which no checkpoint holds; only safetensors are loaded")
    if STATE not in manifest.files:
        raise ModelError(f"{path} does not name {STATE}")
    return manifest


def _sealed(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a manifest with the SHA-256 of all of them."""
    content = {key: value for key, value in fields.items() if key != SEAL}
    return {**content, SEAL: hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def _check_size(path: Path, entry: Entry) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    if size != entry.bytes:
        raise ModelError(f"{path} has {size} bytes instead of {entry.bytes}")


def _check_hash(path: Path, entry: Entry) -> None:
    try:
        found = sha256(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    if found != entry.sha256:
        raise ModelError(f"{path} is damaged: its SHA-256 is not the one of the manifest")


def _write_part(folder: Path, part: str, tensors: Mapping[str, Tensor]) -> Entry:
    with HashedFile(folder / (part + TENSORS), f"save:{part + TENSORS}") as file:
        write_tensors(file, tensors)
        return Entry(**file.finish())


def _write_json(path: Path, value: dict[str, Any]) -> Entry:
    with HashedFile(path, f"save:{path.name}") as file:
        file.write(encode_json(value, indent=1))
        return Entry(**file.finish())


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def _count(tensors: Mapping[str, Tensor]) -> int:
    tied = tied_names(tensors)
    return sum(tensor.numel() for name, tensor in tensors.items() if name not in tied)

"""The run folder: a model and the record of its training.

config.json         the resolved configuration, the format number, the run id
model.safetensors   the weights to use, with tokenizer*.json
start.json          what was taken over from another run, if the training started from one
README.md           the model card; report.html, data.json, evaluation.json, examples.json
metrics.jsonl       the training log, one record per line
checkpoints/        the state of training; data/ the prepared data; traces/ recorded attention (none of them
                    is needed to use the model)
"""

from __future__ import annotations

import difflib
import errno
import json
import logging
import os
import re
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from seqwright import files
from seqwright.config.outside import refuse_outside
from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError, brief
from seqwright.runs.checkpoint import Checkpoints
from seqwright.runs.tensors import (
    FLOATS,
    check_shapes,
    load_metadata,
    load_tensors,
    not_finite,
    tensor_shapes,
    write_tensors,
)

FORMAT = 1
CONFIG, WEIGHTS, METRICS = "config.json", "model.safetensors", "metrics.jsonl"
CHECKPOINTS, LOCK = "checkpoints", ".lock"
LONGEST = "longest_source"  # in the metadata of the weights: tokens of the longest training source
RUNS = "runs"  # the default folder for runs
LONGEST_RECORD = 1 << 24  # bytes of a line of metrics.jsonl
DIAGNOSED_FROM = 100  # the first step at which training diagnostics may log findings

logger = logging.getLogger(__name__)


class MovedError(WriteError):
    """A run folder that was renamed, moved or replaced while it was in use."""


class Run:
    """One run folder, from `create` or `open`. It contains no links: they could lead to files elsewhere."""

    def __init__(self, folder: Path, config: dict[str, Any], run_id: str):
        self.folder, self.config, self.id = folder, config, run_id
        self._identity = _identity(folder)
        self._pending: deque[bytes] = deque(maxlen=10_000)  # records that could not be written yet

    @classmethod
    def create(cls, folder: str | Path, config: Mapping[str, Any]) -> Run:
        """Create a run in an empty or new folder; raise WriteError if it cannot be written."""
        folder = Path(folder)
        if taken := sorted({"format", "run"} & config.keys()):
            raise ConfigError(f"the configuration key {taken[0]!r} is reserved in {CONFIG}; rename it")
        check_home(folder)
        with files.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _check_empty(folder)  # before a lock file is created among other files
        with files.locked(folder / LOCK):
            _check_empty(folder)  # again: another process may have been faster
            files.check_space(folder, 1 << 20)
            run = cls(folder, {}, secrets.token_hex(8))
            run.configure(config)
        return run

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Run:
        if not isinstance(folder, str | os.PathLike):
            raise ModelError(f"{brief(folder)} is not the path of a run folder")
        folder = Path(folder)
        if not cls.exists(folder):
            reason = f"{folder} is a file, not a run"
            if os.path.isdir(folder):
                reason = f"{folder} is not a run: it has no {CONFIG}"
            elif not os.path.exists(folder):
                reason = f"the folder {folder} does not exist"
            raise ModelError(f"{reason}; {_suggestion(folder)}pass a run folder that training created")
        path, fields = folder / CONFIG, files.read_json(folder / CONFIG)
        written, run_id = fields.pop("format", None), fields.pop("run", None)
        if not isinstance(written, int) or not isinstance(run_id, str):
            found = f"format {brief(written)}, run {brief(run_id)}"
            raise ModelError(f"{path} is not the configuration of a run: {found}")
        files.check_format(path, written, FORMAT)
        refuse_outside(fields, path)
        return cls(folder, fields, run_id)

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether there is a run to open, complete or not."""
        return os.path.isfile(os.path.join(folder, CONFIG))  # also False for invalid paths

    def configure(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration, for example when a run is resumed with more steps."""
        files.write_json(self.path(CONFIG), {"format": FORMAT, "run": self.id, **config}, "run:config")
        self.config = json.loads(json.dumps(config))  # as `open` reads it

    def path(self, *parts: str) -> Path:
        return self.folder.joinpath(*parts)

    def checkpoints(self, keep: int = 3) -> Checkpoints:
        return Checkpoints(self.path(CHECKPOINTS), self.id, keep)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for writing, or raise WriteError; remove what killed processes left behind."""
        with files.locked(self.path(LOCK)):
            _refuse_links(self.folder)
            files.remove_leftovers(self.folder)
            files.remove_leftovers(self.path(CHECKPOINTS))
            yield

    def check_folder(self) -> None:
        """Raise MovedError unless the folder is still the one that was opened."""
        if _identity(self.folder) != self._identity:
            raise MovedError(
                f"{self.folder} was moved or replaced during the training; its checkpoints are in the moved "
                "folder: move it back, or pass its new name with --out, to resume"
            )

    def log(self, record: Mapping[str, Any]) -> None:
        """Append a record to metrics.jsonl, or keep it for the next call; NaN and infinity become null."""
        self._pending.append(files.encode_json(files.strict(record)))
        try:
            self.check_folder()
            _append(self.path(METRICS), b"".join(self._pending))
            self._pending.clear()
        except (OSError, MovedError) as error:
            if len(self._pending) == 1:  # the first one that cannot be written
                reason = error.strerror if isinstance(error, OSError) else error
                logger.warning("%s cannot be written: %s; records wait in memory", METRICS, reason)

    def records(self) -> Iterator[dict[str, Any]]:
        """Return the records of metrics.jsonl, without a last line that a kill cut off."""
        for number, (line, record) in enumerate(self._log_entries(), start=1):
            if record is not None:
                yield record
            elif line.endswith(b"\n"):
                logger.warning("%s:%d is not a record and is skipped", self.path(METRICS), number)

    def rewind_log(self, step: int) -> None:
        """Remove the records after a step that is resumed from, and lines that are not records."""
        self.check_folder()
        with files.atomic_file(self.path(METRICS), "run:metrics") as file:
            for line, record in self._log_entries():
                at = None if record is None else record.get("step")
                if record is not None and not (isinstance(at, int | float) and at > step):
                    file.write(line)

    def save_weights(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
        """Write model.safetensors."""
        if wrong := not_finite(tensors):
            raise DivergedError(f"{self.path(WEIGHTS)} is not written: {wrong} is not finite")
        self.check_folder()
        with files.atomic_file(self.path(WEIGHTS), "run:weights") as file:
            write_tensors(file, tensors, metadata)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight without reading the weights."""
        return tensor_shapes(self._weights(), FLOATS.values())

    def check_weights(self, expected: Mapping[str, Sequence[int]]) -> None:
        """Raise ModelError unless the weights have these names and shapes."""
        check_shapes(self._weights(), self.weight_shapes(), expected)

    def load_weights(self) -> dict[str, Tensor]:
        self.weight_shapes()  # refuses integers
        weights = load_tensors(self._weights())
        if wrong := not_finite(weights):
            raise ModelError(
                f"{self.path(WEIGHTS)} has a non-finite value in {wrong}; restore it from a copy"
            )
        return weights

    def weights_metadata(self) -> dict[str, str]:
        return load_metadata(self._weights())

    def longest_input(self) -> int | None:
        """Return the tokens of the longest training input; None if the weights do not record it."""
        noted = self.weights_metadata().get(LONGEST, "")
        return int(noted) if re.fullmatch(r"[0-9]{1,18}", noted) else None

    def _weights(self) -> Path:
        path = self.path(WEIGHTS)
        if not path.exists() and self.checkpoints().steps():
            unfinished = f"{self.folder} has no model yet, because its training has not finished"
            raise ModelError(f"{unfinished}; run the same train command again to resume it")
        return path

    def _log_entries(self) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        """Yield the lines of metrics.jsonl, each with its record if it is a complete JSON object."""
        path = self.path(METRICS)
        with files.reading(path), suppress(FileNotFoundError), files.open_regular(path) as file:
            while line := file.readline(LONGEST_RECORD):
                record = None
                with suppress(ValueError, RecursionError):
                    record = json.loads(line) if line.endswith(b"\n") else None
                yield line, record if isinstance(record, dict) else None


def check_order(folder: str, *others: str) -> None:
    """Raise ConfigError if a run folder follows arguments that belong after it."""
    for other in others:
        if other and Run.exists(other) and not Run.exists(folder):
            raise ConfigError(f"{other} is a run folder and {folder} is not; pass the run folder first")


def check_home(folder: str | Path) -> None:
    """Raise WriteError if no run can be created or resumed in this folder."""
    folder = Path(folder)
    if "\0" in str(folder):
        raise WriteError(f"{str(folder)!r} is not the name of a folder; choose another one")
    with files.writing(folder):
        for place in (folder, *folder.parents):
            if place.exists() and not place.is_dir():
                raise WriteError(f"{folder} cannot be written: {place} is a file; choose another folder")
        if folder.is_dir() and not Run.exists(folder):
            _check_empty(folder)


def _suggestion(folder: Path) -> str:
    """Suggest the run with the most similar name next to this folder, in it, or in the default folder."""
    found: dict[str, Path] = {}
    for home in (Path(RUNS), folder, folder.parent):
        with suppress(OSError, ValueError):  # not a folder, not readable, or not a path
            found |= {path.name: path for path in home.iterdir() if Run.exists(path)}
    near = difflib.get_close_matches(folder.name, sorted(found), n=1)
    return f"did you mean {found[near[0]]}? " if near else ""


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List the changes between two configurations by key: "training.rate: 0.003 -> 0.001"."""
    before, after = _leaves(json.loads(json.dumps(old))), _leaves(json.loads(json.dumps(new)))
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return [f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}" for key in changed]


def _leaves(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Return dotted key -> value as JSON. An empty table is a leaf: it differs from no table."""
    leaves: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            leaves |= _leaves(value, f"{above}{key}.")
        else:
            leaves[above + key] = json.dumps(value, ensure_ascii=False)
    return leaves


def _check_empty(folder: Path) -> None:
    """Raise WriteError if a folder has more in it than a killed `create` leaves."""
    if Run.exists(folder):
        raise WriteError(f"{folder} already has a {CONFIG}; resume that run, or choose another folder")
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name != LOCK and not name.startswith(f".{CONFIG}.tmp.")]
    if foreign:
        some = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise WriteError(f"{folder} is not empty and not a run: it contains {some}; choose another folder")


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return what stays the same when a folder is renamed; None if it does not exist."""
    with suppress(OSError):
        found = os.stat(folder)
        return found.st_dev, found.st_ino
    return None


def _refuse_links(folder: Path) -> None:
    """Raise WriteError if a run folder contains a link: what is written to it would end up elsewhere."""
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if os.path.islink(path := os.path.join(place, name)):
                raise WriteError(
                    f"{path} is a link, which a run folder must not contain; replace it by a copy"
                )


def _append(path: Path, data: bytes) -> None:
    """Append all of the data or nothing: a full disk must not cut a line in the middle of the file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | files.NO_FOLLOW | files.NO_WAIT
    with os.fdopen(os.open(path, flags, 0o666), "ab", buffering=0) as file:
        before = file.tell()
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(before)
            raise

"""The run folder, which is the model.

config.json         the resolved configuration, the number of the format, the id of the run
model.safetensors   the weights to use; tokenizer*.json beside them
README.md           the model card; report.html, examples.json
metrics.jsonl       one record per line, while it trains
checkpoints/        the state of training; data/ the prepared pairs; traces/ what happened inside while it
                    learned: none of them is needed to use the model
"""

from __future__ import annotations

import difflib
import errno
import json
import logging
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from seqwright.errors import ConfigError, DivergedError, ModelError, WriteError
from seqwright.files import (
    atomic_file,
    check_space,
    encode_json,
    locked,
    read_json,
    remove_leftovers,
    strict,
    write_json,
    writing,
)
from seqwright.runs.tensors import load_metadata, load_tensors, not_finite, write_tensors
from seqwright.runs.checkpoint import Checkpoints

FORMAT = 1
CONFIG, WEIGHTS, METRICS = "config.json", "model.safetensors", "metrics.jsonl"
CHECKPOINTS, LOCK = "checkpoints", ".lock"
LONGEST = "longest_source"  # in the metadata of the weights: tokens of the longest that was trained on
RUNS = "runs"  # the folder for runs that nobody gave a place
RESERVED = ("format", "run")  # the keys in config.json that are not configuration
LEAST_SPACE = 1 << 20  # bytes: with less, nothing worth the name of a run can be written
PENDING = 10_000  # records that wait for a disk that cannot be written

logger = logging.getLogger(__name__)


class Run:
    """One run folder. Made by `create` and `open`."""

    def __init__(self, folder: Path, config: dict[str, Any], run_id: str):
        self.folder, self.config, self.id = folder, config, run_id
        self._pending: deque[bytes] = deque(maxlen=PENDING)
        self._warned = False

    @classmethod
    def create(cls, folder: str | Path, config: Mapping[str, Any]) -> Run:
        """A new run in a folder that is empty or not there; a disk that cannot be written is found now."""
        folder = Path(folder)
        if taken := sorted(RESERVED & config.keys()):
            raise ConfigError(f"the configuration has the key {taken[0]!r}, which {CONFIG} needs; rename it")
        check_home(folder)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _check_vacant(folder)  # before a lock file is put among the things of somebody else
        with locked(folder / LOCK):
            _check_vacant(folder)  # again: another process may have been faster
            check_space(folder, LEAST_SPACE)
            run = cls(folder, {}, secrets.token_hex(8))
            run.configure(config)
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        folder = Path(folder)
        if not cls.exists(folder):
            raise ModelError(f"{_no_run(folder)}; {_nearest(folder)}name a folder made by training")
        fields = read_json(folder / CONFIG)
        written, run_id = fields.pop("format", None), fields.pop("run", None)
        if isinstance(written, int) and written > FORMAT:
            raise ModelError(
                f"{folder / CONFIG} has format {written}, written by a newer Seqwright; "
                f"upgrade this one, which reads {FORMAT}"
            )
        if written != FORMAT or not isinstance(run_id, str):
            raise ModelError(f"{folder / CONFIG} is not of a run: format {written!r}, run {run_id!r}")
        return cls(folder, fields, run_id)

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether there is a run to open, be it whole or not."""
        return os.path.isfile(os.path.join(folder, CONFIG))  # also False for what no path can be

    def configure(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration: of a run that goes on with more steps, say."""
        write_json(self.path(CONFIG), {"format": FORMAT, "run": self.id, **config}, "run:config")
        self.config = json.loads(json.dumps(config))  # what `open` will give

    def path(self, *parts: str) -> Path:
        return self.folder.joinpath(*parts)

    def checkpoints(self, keep: int = 3, log: Callable[[str], None] = logger.warning) -> Checkpoints:
        return Checkpoints(self.path(CHECKPOINTS), self.id, keep, log)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one process that writes here, and clear up after those that were killed.

        Raises WriteError naming the process that is at work.
        """
        with locked(self.path(LOCK)):
            remove_leftovers(self.folder)
            self.checkpoints().clean()
            yield

    def log(self, record: Mapping[str, Any]) -> None:
        """Append a record to metrics.jsonl. A disk that cannot be written never stops a training: the record
        waits for the next call. A number that is not finite becomes null, as JSON knows no other.
        """
        self._pending.append(encode_json(strict(record)))
        try:
            _append(self.path(METRICS), b"".join(self._pending))
        except OSError as error:
            if not self._warned:
                logger.warning("%s cannot be written: %s; records wait", self.path(METRICS), error.strerror)
            self._warned = True
        else:
            self._pending.clear()
            self._warned = False

    @property
    def unlogged(self) -> int:
        """How many records wait for a disk that cannot be written."""
        return len(self._pending)

    def records(self) -> Iterator[dict[str, Any]]:
        """The records of metrics.jsonl, without a last line that was torn by a kill."""
        for number, line in enumerate(self._log_lines(), start=1):
            record = _record(line)
            if record is not None:
                yield record
            elif line.endswith(b"\n"):
                logger.warning("%s:%d is no record and is passed over", self.path(METRICS), number)

    def rewind_log(self, step: int) -> None:
        """Forget the records of the steps after the one that is resumed from, and what is no record."""
        kept = []
        for line in self._log_lines():
            record = _record(line)
            if record is not None and not _is_after(record, step):
                kept.append(line)
        with atomic_file(self.path(METRICS), "run:metrics") as file:
            file.writelines(kept)

    def save_weights(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
        """Write model.safetensors, the weights to use."""
        if wrong := not_finite(tensors):
            raise DivergedError(f"{self.path(WEIGHTS)} is not written: {wrong} is not finite")
        with atomic_file(self.path(WEIGHTS), "run:weights") as file:
            write_tensors(file, tensors, metadata)

    def load_weights(self, expected: Mapping[str, Sequence[int]] | None = None) -> dict[str, Tensor]:
        """The weights to use; with `expected` (name -> shape), those of that model and no others."""
        return load_tensors(self._weights(), expected)

    def weights_metadata(self) -> dict[str, str]:
        return load_metadata(self._weights())

    def _weights(self) -> Path:
        path = self.path(WEIGHTS)
        if not path.exists() and self.checkpoints().steps():
            raise ModelError(
                f"{self.folder} holds a training that has not ended, and no model yet; "
                "the command that began it goes on with it"
            )
        return path

    def _log_lines(self) -> Iterator[bytes]:
        try:
            with self.path(METRICS).open("rb") as file:
                yield from file
        except FileNotFoundError:
            return


def check_order(folder: str, *others: str) -> None:
    """Refuses a run that is named behind what belongs behind a run."""
    for other in others:
        if other and Run.exists(other) and not Run.exists(folder):
            raise ConfigError(f"{other} is a run and {folder} is none; name the run first, then the other")


def check_home(folder: str | Path) -> None:
    """Refuses a place where a run can neither begin nor go on, before there is work to lose."""
    folder = Path(folder)
    with writing(folder):
        for place in (folder, *folder.parents):
            if place.exists() and not place.is_dir():
                raise WriteError(f"{folder} cannot be written: {place} is a file; choose another folder")
        if folder.is_dir() and not Run.exists(folder):
            _check_vacant(folder)


def _no_run(folder: Path) -> str:
    if os.path.isdir(folder):
        return f"{folder} is not a run: it has no {CONFIG}"
    return f"{folder} is a file and not a run" if os.path.exists(folder) else f"there is no folder {folder}"


def _nearest(folder: Path) -> str:
    """Asks for the run of the most similar name beside a folder that is none, in it, or where runs are."""
    found: dict[str, Path] = {}
    for home in (Path(RUNS), folder, folder.parent):
        with suppress(OSError):  # no folder, or one of somebody else
            found |= {path.name: path for path in home.iterdir() if Run.exists(path)}
    near = difflib.get_close_matches(folder.name, sorted(found), n=1)
    return f"did you mean {found[near[0]]}? " if near else ""


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two configurations: "training.rate: 0.003 -> 0.001", in the order of the keys."""
    before, after = _leaves(json.loads(json.dumps(old))), _leaves(json.loads(json.dumps(new)))
    return [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _leaves(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Dotted key -> the value as JSON. An empty table is a leaf, for it is not the same as no table."""
    leaves: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            leaves |= _leaves(value, f"{above}{key}.")
        else:
            leaves[above + key] = json.dumps(value, ensure_ascii=False)
    return leaves


def _check_vacant(folder: Path) -> None:
    """A folder is vacant with nothing in it, or with no more than a killed `create` leaves."""
    if Run.exists(folder):
        raise WriteError(f"{folder} holds a {CONFIG} already; open it to go on, or choose another folder")
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name != LOCK and not name.startswith(f".{CONFIG}.tmp.")]
    if foreign:
        some = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise WriteError(f"{folder} is not empty and not a run: it holds {some}; choose another folder")


def _append(path: Path, data: bytes) -> None:
    """All of the data or nothing of it: a full disk must not tear a line in the middle of the file."""
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            written = file.write(data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(before)
            raise


def _record(line: bytes) -> dict[str, Any] | None:
    """A whole line with an object in it, or None."""
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_after(record: Mapping[str, Any], step: int) -> bool:
    at = record.get("step")
    return isinstance(at, int | float) and at > step

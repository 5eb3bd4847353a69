"""From files to what a training reads: a fitted task, and the examples as numbers on disk. Done once."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from seqwright.config import Config
from seqwright.config import parse as parse_config
from seqwright.data.checks.findings import Finding, left_out_finding
from seqwright.data.corpus import Corpus
from seqwright.data.plan import RowLengths
from seqwright.data.read_report import Occurrences, Place
from seqwright.data.split import NAMES, Part
from seqwright.data.store import Store, StoredRow
from seqwright.data.task import Task
from seqwright.errors import InputError, ModelError
from seqwright.files import reached, read_json, sha256, sync, write_json
from seqwright.runs.folder import CHECKPOINTS, Run

BLOCK = 20_000  # examples that are encoded together

Check = Callable[[], None]


@dataclass(frozen=True)
class Prepared:
    """Everything that a training reads, and what it leaves out."""

    corpus: Corpus
    task: Task[Any, Any]
    train: Store
    valid: Store
    left_out: tuple[Finding, ...]

    @property
    def lengths(self) -> RowLengths:
        """The lengths of the training examples."""
        return self.task.lengths(self.train)

    @property
    def longest_input(self) -> int:
        """The tokens of the longest training input."""
        lengths = self.lengths
        return int(lengths.context.max() if lengths.context.any() else lengths.counted.max())


def prepare(config: Config, folder: Path, check: Check = lambda: None) -> Prepared:
    """Fit the task into the run folder and build the stores in its `data`, unless they are there already."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    corpus = Corpus.of(config)
    work = _Preparation(config, corpus, folder, fingerprint(corpus.paths, data / "inputs.json"), check)
    task = work.task()
    train, valid = work.store("train", task), work.store("valid", task)
    left_out = (work.left_out(part) for part in ("train", "valid"))
    return Prepared(corpus, task, train, valid, tuple(filter(None, left_out)))


@dataclass(frozen=True)
class _Preparation:
    """The preparation of one run; `files` is the fingerprint of its data files."""

    config: Config
    corpus: Corpus
    folder: Path
    files: str
    check: Check

    def task(self) -> Task[Any, Any]:
        """Load the task that was fitted for this configuration and these files, or fit it."""
        kind, config, data = self.corpus.task, self.config, self.folder / "data"
        table = config.to_dict()
        wanted = {"files": self.files, **{key: table[key] for key in ("tokenizer", "data", "start")}}
        note = data / "tokenizer.json"
        noted = read_json(note) if note.exists() else {}
        if noted == wanted:
            return kind.load(self.folder, config)
        if any((self.folder / CHECKPOINTS).glob("step_*")):  # whose weights fit no other task
            _refuse_changed(self.corpus.paths, noted.get("files", self.files), self.files)
            return kind.load(self.folder, config)
        if next(self.corpus.examples("train"), None) is None:
            raise InputError(_nothing_left("train", self.corpus, config.data.max_length, Counter()))
        start = None
        if config.start is not None:
            start = kind.load(Path(config.start), parse_config(Run.open(config.start).config))
        task = kind.fit(config, self._examples, start)
        note.unlink(missing_ok=True)  # a kill from here on must not leave it next to another task
        sync(data)
        task.save(self.folder)
        reached("prepare:tokenizer")
        write_json(note, wanted)
        return task

    def _examples(self) -> Iterator[Any]:
        for count, example in enumerate(self.corpus.examples("train")):
            if count % BLOCK == 0:
                self.check()
            yield example

    def store(self, part: Part, task: Task[Any, Any]) -> Store:
        columns, config = task.columns(readable=part != "train"), self.config
        key = json.dumps(
            [part, self.files, task.fingerprint, config.to_dict()["data"], config.tokenizer.sampled]
        )
        rows = self._rows(part, task, [column.name for column in columns])
        place = self.folder / "data" / part
        store = Store.open_or_build(place, rows, columns, key=key, inputs=self.corpus.paths)
        reached(f"prepare:{part}")
        return store

    def _rows(self, part: Part, task: Task[Any, Any], columns: list[str]) -> Iterator[StoredRow]:
        """Encode examples. Those that are too long are left out, and noted before the store is complete: a
        complete store always has its note.
        """
        limit, numbers = self.config.data.max_length, {path: k for k, path in enumerate(self.corpus.paths)}
        examples = self.corpus.examples(part)
        kept, lengths, seen = 0, Counter[int](), Occurrences()
        while block := list(islice(examples, BLOCK)):
            self.check()
            for row in task.encode(block):
                place = row.example.place
                if row.length > limit:
                    lengths[row.length] += 1
                    seen.add(place)
                    continue
                kept += 1
                chosen = {name: row.columns[name] for name in columns}
                yield StoredRow(chosen, (numbers[place.file], place.line))
        if not kept:
            raise InputError(_nothing_left(part, self.corpus, limit, lengths))
        left_out = {"left_out": seen.count, "longest": max(lengths, default=0), "places": seen.places}
        write_json(self._note(part), {"pairs": kept + seen.count, **left_out})

    def left_out(self, part: Part) -> Finding | None:
        """Return what the store of a part leaves out; stores of older versions have no note."""
        if not self._note(part).exists():
            return None
        known = read_json(self._note(part))
        seen = Occurrences(known["left_out"], [Place(*place) for place in known["places"]])
        limit = self.config.data.max_length
        return left_out_finding(seen, known["pairs"], known["longest"], limit, NAMES[part])

    def _note(self, part: Part) -> Path:
        return self.folder / "data" / f"{part}_left_out.json"


def fingerprint(paths: list[str], memory: Path) -> str:
    """Return the SHA-256 of each file. A file is read again only if its size or time of change is new."""
    known = read_json(memory) if memory.exists() else {}
    now: dict[str, dict[str, int | str]] = {}
    for path in paths:
        try:
            seen = os.stat(path) if path != "-" else None
            if seen is None or not stat.S_ISREG(seen.st_mode):
                raise InputError(f"{path} is a pipe, but training reads its files again; save it to a file")
            mark = {"bytes": seen.st_size, "changed": seen.st_mtime_ns}
            old = known.get(path, {})
            same = all(old.get(key) == value for key, value in mark.items())
            now[path] = {**mark, "sha256": old["sha256"] if same else sha256(Path(path))}
        except OSError as error:
            raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if now != known:
        write_json(memory, now)
    return ":".join(str(entry["sha256"]) for entry in now.values())


def _refuse_changed(paths: list[str], before: str, now: str) -> None:
    """A training resumes with the very files it began with."""
    different = dict.fromkeys(paths)  # each has one fingerprint, in however many parts it is
    hashes = zip(different, before.split(":"), now.split(":"), strict=True)
    if changed := [path for path, old, new in hashes if old != new]:
        raise ModelError(
            f"{', '.join(changed)} changed since this training began; restore the old content, "
            "or train into another folder"
        )


def _nothing_left(part: Part, corpus: Corpus, limit: int, lengths: Counter[int]) -> str:
    noun = f"{corpus.task.noun}s"
    if not lengths:
        files = "files of their own with --valid and --test" if part == "train" else f"files with --{part}"
        return (
            f"{', '.join(corpus.data.train)} has no {noun} for {NAMES[part]} after the split; "
            f"add {noun}, or give {files}"
        )
    histogram: Counter[int] = Counter()
    for length, count in lengths.items():
        histogram[length.bit_length()] += count
    shown = ", ".join(f"{n:,} under {1 << bits:,} tokens" for bits, n in sorted(histogram.items()))
    return (
        f"all {lengths.total():,} {noun} for {NAMES[part]} are longer than data.max_length = {limit} tokens: "
        f"the shortest has {min(lengths):,}, the longest {max(lengths):,}; {shown}; raise it"
    )

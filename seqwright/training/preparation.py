"""From files to what a training reads: a fitted task, and the examples as numbers on disk. Done once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, NonNegativeInt, ValidationError

from seqwright.config import Config
from seqwright.data.checks.findings import Finding, left_out_finding
from seqwright.data.corpus import Corpus
from seqwright.data.fingerprints import INPUTS, Fingerprints, fingerprints, hashes, refuse_changed
from seqwright.data.plan import RowLengths
from seqwright.data.progress import counted
from seqwright.data.read_report import Occurrences, Place
from seqwright.data.split import NAMES, Part
from seqwright.data.store import Store, StoredRow
from seqwright.data.task import Task
from seqwright.errors import InputError, ModelError
from seqwright.files import reached, read_json, sync, write_json
from seqwright.runs.folder import CHECKPOINTS
from seqwright.training.warm_start import Start

AGAIN = "wait until it is complete, then train again"

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


def prepare(
    config: Config, folder: Path, check: Check = lambda: None, surveyed: Fingerprints | None = None
) -> Prepared:
    """Fit the task into the run folder and build the stores in its `data`, unless they are there already.

    The files must still be those that were `surveyed`.
    """
    (folder / "data").mkdir(exist_ok=True)
    if surveyed is not None:
        refuse_changed(surveyed, "since it was surveyed", AGAIN)
    corpus, memory = Corpus.of(config), folder / INPUTS
    known = read_json(memory) if memory.exists() else {}
    found = fingerprints(corpus.paths, surveyed or known)
    _refuse_other_files(folder, hashes(known), hashes(found))
    if found != known and (known or not _trained(folder)):
        write_json(memory, found)
    work = _Preparation(config, corpus, folder, found, check)
    task = work.task()
    train, valid = work.store("train", task), work.store("valid", task)
    left_out = (work.left_out(part) for part in ("train", "valid"))
    return Prepared(corpus, task, train, valid, tuple(filter(None, left_out)))


class LeftOut(BaseModel):
    """The note next to a store: what it leaves out, because it is too long."""

    pairs: NonNegativeInt
    left_out: NonNegativeInt
    longest: NonNegativeInt
    places: list[tuple[str, int]]


@dataclass(frozen=True)
class _Preparation:
    """The preparation of one run; `inputs` are the fingerprints of its data files."""

    config: Config
    corpus: Corpus
    folder: Path
    inputs: Fingerprints
    check: Check

    @property
    def files(self) -> str:
        return ":".join(hashes(self.inputs).values())

    def check_unchanged(self) -> None:
        """Refuse what was learned from files that changed meanwhile, before it is kept."""
        refuse_changed(self.inputs, "while it was prepared", AGAIN)

    def task(self) -> Task[Any, Any]:
        """Load the task that was fitted for this configuration and these files, or fit it."""
        kind, config, data = self.corpus.task, self.config, self.folder / "data"
        table = config.to_dict()
        wanted = {"files": self.files, **{key: table[key] for key in ("tokenizer", "data", "start")}}
        note = data / "tokenizer.json"
        noted = read_json(note) if note.exists() else {}
        if noted == wanted:
            return kind.load(self.folder, config)
        if _trained(self.folder):  # the weights fit no other task
            return kind.load(self.folder, config)
        if next(self.corpus.examples("train"), None) is None:
            raise InputError(_nothing_left("train", self.corpus, config.data.max_length, Counter()))
        start = None if config.start is None else Start.open(config.start).task
        task = kind.fit(config, self._examples, start)
        self.check_unchanged()
        note.unlink(missing_ok=True)  # a kill from here on must not leave it next to another task
        sync(data)
        task.save(self.folder)
        reached("prepare:tokenizer")
        write_json(note, wanted)
        return task

    def _examples(self) -> Iterator[Any]:
        for count, example in enumerate(self.corpus.examples("train")):
            if count % self.corpus.task.learning.block == 0:
                self.check()
            yield example

    def store(self, part: Part, task: Task[Any, Any]) -> Store:
        columns, config = task.columns(readable=part != "train"), self.config
        key = json.dumps(
            [part, self.files, task.fingerprint, config.to_dict()["data"], config.tokenizer.sampled]
        )
        rows = self._rows(part, task, [column.name for column in columns])
        place = self.folder / "data" / part
        rows = counted(rows, f"{task.nouns.example}s prepared")
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
        while block := list(islice(examples, task.learning.block)):
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
        self.check_unchanged()
        if not kept:
            raise InputError(_nothing_left(part, self.corpus, limit, lengths))
        note = LeftOut(
            pairs=kept + seen.count,
            left_out=seen.count,
            longest=max(lengths, default=0),
            places=[(place.file, place.line) for place in seen.places],
        )
        write_json(self._note(part), note.model_dump())

    def left_out(self, part: Part) -> Finding | None:
        """Return what the store of a part leaves out; stores of older versions have no note."""
        if not self._note(part).exists():
            return None
        path, limit = self._note(part), self.config.data.max_length
        try:
            note = LeftOut.model_validate(read_json(path))
        except ValidationError as error:
            raise ModelError(f"{path} is damaged; remove the folder data, then train again") from error
        seen = Occurrences(note.left_out, [Place(*place) for place in note.places])
        return left_out_finding(seen, note.pairs, note.longest, limit, NAMES[part])

    def _note(self, part: Part) -> Path:
        return self.folder / "data" / f"{part}_left_out.json"


def _trained(folder: Path) -> bool:
    return any((folder / CHECKPOINTS).glob("step_*"))


def _refuse_other_files(folder: Path, before: dict[str, str], now: dict[str, str]) -> None:
    """A training resumes with the very files it began with."""
    changed = [path for path, digest in now.items() if before.get(path, digest) != digest]
    if changed and _trained(folder):
        raise ModelError(
            f"{', '.join(changed)} changed since this training began; restore the old content, "
            "or train in another folder"
        )


def _nothing_left(part: Part, corpus: Corpus, limit: int, lengths: Counter[int]) -> str:
    noun = f"{corpus.task.nouns.example}s"
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

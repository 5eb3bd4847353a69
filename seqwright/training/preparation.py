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
LEFT_OUT = "{}_left_out.json"  # next to the store of a part

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
    files = fingerprint(corpus.paths, data / "inputs.json")
    task = _task(config, corpus, folder, data, files, check)
    parts: tuple[Part, ...] = ("train", "valid")
    stores = {part: _store(part, config, corpus, task, data, files, check) for part in parts}
    left_out = (_left_out(part, config, data) for part in parts)
    return Prepared(corpus, task, stores["train"], stores["valid"], tuple(filter(None, left_out)))


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


def _task(
    config: Config, corpus: Corpus, folder: Path, data: Path, files: str, check: Check
) -> Task[Any, Any]:
    """Load the task that was fitted for this configuration and these files, or fit it."""
    table = config.to_dict()
    wanted = {"files": files, **{key: table[key] for key in ("tokenizer", "data", "start")}}
    note = data / "tokenizer.json"
    noted = read_json(note) if note.exists() else {}
    if noted == wanted:
        return corpus.task.load(folder, config)
    if any((folder / CHECKPOINTS).glob("step_*")):  # these weights fit only the task they were trained with
        _refuse_changed(corpus.paths, noted.get("files", files), files)
        return corpus.task.load(folder, config)

    def examples() -> Iterator[Any]:
        for count, example in enumerate(corpus.examples("train")):
            if count % BLOCK == 0:
                check()
            yield example

    if next(corpus.examples("train"), None) is None:
        raise InputError(_nothing_left("train", corpus, config.data.max_length, Counter()))
    start = None
    if config.start is not None:
        start = corpus.task.load(Path(config.start), parse_config(Run.open(config.start).config))
    task = corpus.task.fit(config, examples, start)
    note.unlink(missing_ok=True)  # a kill from here on must not leave it next to another task
    sync(data)
    task.save(folder)
    reached("prepare:tokenizer")
    write_json(note, wanted)
    return task


def _refuse_changed(paths: list[str], before: str, now: str) -> None:
    """A training resumes with the very files it began with."""
    different = dict.fromkeys(paths)  # each has one fingerprint, in however many parts it is
    hashes = zip(different, before.split(":"), now.split(":"), strict=True)
    if changed := [path for path, old, new in hashes if old != new]:
        raise ModelError(
            f"{', '.join(changed)} changed since this training began; restore the old content, "
            "or train into another folder"
        )


def _store(
    part: Part, config: Config, corpus: Corpus, task: Task[Any, Any], data: Path, files: str, check: Check
) -> Store:
    columns = task.columns(readable=part != "train")
    key = json.dumps([part, files, task.fingerprint, config.to_dict()["data"], config.tokenizer.sampled])
    names = [column.name for column in columns]
    rows = _rows(part, config, corpus, task, data, names, check)
    store = Store.open_or_build(data / part, rows, columns, key=key, inputs=corpus.paths)
    reached(f"prepare:{part}")
    return store


def _rows(
    part: Part,
    config: Config,
    corpus: Corpus,
    task: Task[Any, Any],
    data: Path,
    columns: list[str],
    check: Check,
) -> Iterator[StoredRow]:
    """Encode examples. Those that are too long are left out, and noted before the store is complete: a
    complete store always has its note.
    """
    limit, numbers = config.data.max_length, {path: k for k, path in enumerate(corpus.paths)}
    examples = corpus.examples(part)
    kept, lengths, seen = 0, Counter[int](), Occurrences()
    while block := list(islice(examples, BLOCK)):
        check()
        for row in task.encode(block):
            place = row.example.place
            if row.length > limit:
                lengths[row.length] += 1
                seen.add(place)
                continue
            kept += 1
            yield StoredRow({name: row.columns[name] for name in columns}, (numbers[place.file], place.line))
    if not kept:
        raise InputError(_nothing_left(part, corpus, limit, lengths))
    left_out = {"left_out": seen.count, "longest": max(lengths, default=0), "places": seen.places}
    write_json(data / LEFT_OUT.format(part), {"pairs": kept + seen.count, **left_out})


def _left_out(part: Part, config: Config, data: Path) -> Finding | None:
    note = data / LEFT_OUT.format(part)
    if not note.exists():  # a store of an older version
        return None
    known = read_json(note)
    seen = Occurrences(known["left_out"], [Place(*place) for place in known["places"]])
    return left_out_finding(seen, known["pairs"], known["longest"], config.data.max_length, NAMES[part])


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

"""From files to what a training needs: tokenizers, and the pairs as ids on disk. Streaming, and done once."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from seqwright.config import Config, DataConfig, Spec
from seqwright.config.registry import parse
from seqwright.data.checks.findings import Finding, left_out_finding
from seqwright.data.read_report import Count, Pair, Place, Tally
from seqwright.data.readers.opening import open_pairs
from seqwright.data.readers.pairs import PairFiles
from seqwright.data.split import NAMES, Fractions, Part, part_of
from seqwright.data.store import Example, Store
from seqwright.data.tokenizer import Tokenizer, train_tokenizer
from seqwright.errors import InputError, ModelError
from seqwright.files import reached, read_json, sha256, sync, write_json
from seqwright.runs.folder import CHECKPOINTS
from seqwright.tasks.text_to_text import Translation

BLOCK = 20_000  # pairs that are encoded together
LEFT_OUT = "{}_left_out.json"  # beside the store of a part

Check = Callable[[], None]


@dataclass
class Corpus:
    """The pairs of a configuration by part, read from their files as often as they are asked for."""

    config: DataConfig

    def pairs(self, part: Part, tally: Tally | None = None) -> Iterator[Pair]:
        """Without files of its own a part is a share of the training files, chosen by the source."""
        tally = Tally() if tally is None else tally
        files = {"train": self.config.train, "valid": self.config.valid, "test": self.config.test}
        if part != "train" and files[part]:
            yield from self.files(files[part]).read(tally)
            return
        shares = self.shares
        for pair in self.files(self.config.train).read(tally):
            if part_of(pair.source, self.config.split, shares) == part:
                yield pair

    @property
    def shares(self) -> Fractions:
        """A part with files of its own takes nothing from the training files; without any, the test is held
        out too.
        """
        valid = 0.0 if self.config.valid else self.config.held_out
        test = 0.0 if self.config.test or self.config.valid else self.config.held_out
        return Fractions(valid, test)

    def name(self, part: Part) -> str:
        """The files of a part, or those that it is taken from."""
        own: tuple[str, ...] = getattr(self.config, part)
        return self.files(own).name if own else f"{part} part of {self.files(self.config.train).name}"

    def files(self, paths: tuple[str, ...]) -> PairFiles:
        return open_pairs(paths, self.config)

    @property
    def paths(self) -> list[str]:
        return [*self.config.train, *self.config.valid, *self.config.test]


@dataclass(frozen=True)
class Prepared:
    """Everything that a training reads, and what it leaves out."""

    corpus: Corpus
    task: Translation
    train: Store
    valid: Store
    left_out: tuple[Finding, ...]


def prepare(config: Config, folder: Path, check: Check = lambda: None) -> Prepared:
    """Tokenizers into the run folder, stores into its `data`; what is there already is taken as it is."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    corpus = Corpus(config.data)
    files = fingerprint(corpus.paths, data / "inputs.json")
    task = _task(config, corpus, folder, data, files, check)
    parts: tuple[Part, ...] = ("train", "valid")
    stores = {part: _store(part, config, corpus, task, data, files, check) for part in parts}
    left_out = (_left_out(part, config, data) for part in parts)
    return Prepared(corpus, task, stores["train"], stores["valid"], tuple(filter(None, left_out)))


def fingerprint(paths: list[str], memory: Path) -> str:
    """SHA-256 over the files. A file is read again only if its size or time of change is new."""
    known = read_json(memory) if memory.exists() else {}
    now: dict[str, dict[str, int | str]] = {}
    for path in paths:
        try:
            seen = os.stat(path) if path != "-" else None
            if seen is None or not stat.S_ISREG(seen.st_mode):
                raise InputError(f"{path} is a pipe, and training reads its files again; save it to a file")
            mark = {"bytes": seen.st_size, "changed": seen.st_mtime_ns}
            old = known.get(path, {})
            same = all(old.get(key) == value for key, value in mark.items())
            now[path] = {**mark, "sha256": old["sha256"] if same else sha256(Path(path))}
        except OSError as error:
            raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if now != known:
        write_json(memory, now)
    return ":".join(str(entry["sha256"]) for entry in now.values())


def _task(config: Config, corpus: Corpus, folder: Path, data: Path, files: str, check: Check) -> Translation:
    """The tokenizers of this configuration and these files: those in the folder if they are, else trained
    anew.
    """
    known = config.to_dict()
    wanted = {"files": files, **{key: known[key] for key in ("tokenizer", "data", "start")}}
    note = data / "tokenizer.json"
    noted = read_json(note) if note.exists() else {}
    if noted == wanted:
        return Translation.load(folder, sampled=config.tokenizer.sampled)
    if any((folder / CHECKPOINTS).glob("step_*")):  # there are weights that only their own tokenizers fit
        _refuse_changed(corpus.paths, noted.get("files", files), files)
        return Translation.load(folder, sampled=config.tokenizer.sampled)
    options = config.tokenizer

    def texts(*sides: int) -> Iterator[str]:
        for count, pair in enumerate(corpus.pairs("train")):
            if count % BLOCK == 0:
                check()
            both = (pair.source, pair.target)
            yield from (both[side] for side in sides)

    if next(corpus.pairs("train"), None) is None:
        raise InputError(_nothing_left("train", corpus, config.data.max_length, Counter()))
    if config.start is not None:
        task = _grown(Translation.load(Path(config.start), sampled=options.sampled), texts)
    elif options.joint:
        joint = _tokenizer(options.source, texts(0, 1))
        task = Translation(joint, joint, options.sampled)
    else:
        task = Translation(
            _tokenizer(options.source, texts(0)), _tokenizer(options.target, texts(1)), options.sampled
        )
    note.unlink(missing_ok=True)  # a kill from here on must not leave it beside other tokenizers
    sync(data)
    task.save(folder)
    reached("prepare:tokenizer")
    write_json(note, wanted)
    return task


def _refuse_changed(paths: list[str], before: str, now: str) -> None:
    """A training goes on with the very files it began with."""
    different = dict.fromkeys(paths)  # each has one fingerprint, in however many parts it is
    hashes = zip(different, before.split(":"), now.split(":"), strict=True)
    changed = [path for path, old, new in hashes if old != new]
    if changed:
        raise ModelError(
            f"{', '.join(changed)} changed since this training began; put the old content back, "
            "or train into another folder"
        )


def _grown(old: Translation, texts: Callable[..., Iterator[str]]) -> Translation:
    """The tokenizers of an earlier run, with what is new in these texts."""
    if old.source is old.target:
        joint = old.source.grown(texts(0, 1))
        return Translation(joint, joint, old.sampled)
    return Translation(old.source.grown(texts(0)), old.target.grown(texts(1)), old.sampled)


def _tokenizer(spec: Spec, texts: Iterator[str]) -> Tokenizer:
    kind, options = parse("tokenizer", spec)
    return train_tokenizer(kind, texts, **options)


def _store(
    part: Part, config: Config, corpus: Corpus, task: Translation, data: Path, files: str, check: Check
) -> Store:
    described = json.dumps(
        [part, files, task.fingerprint, config.to_dict()["data"], config.tokenizer.sampled]
    )
    store = Store.open_or_build(
        data / part,
        _examples(part, config, corpus, task, data, check),
        key=described,
        vocabulary=max(task.source.size, task.target.size),
        inputs=corpus.paths,
    )
    reached(f"prepare:{part}")
    return store


def _examples(
    part: Part, config: Config, corpus: Corpus, task: Translation, data: Path, check: Check
) -> Iterator[Example]:
    """The pairs as ids. Those that are too long are left out, and noted before the store is complete: who
    finds the store later finds the note.
    """
    limit, numbers = config.data.max_length, {path: k for k, path in enumerate(corpus.paths)}
    with_texts = part != "train" or config.tokenizer.sampled
    pairs = corpus.pairs(part)
    kept, lengths, seen = 0, Counter[int](), Count()
    while block := list(islice(pairs, BLOCK)):
        check()
        sources = task.source.encode_batch([pair.source for pair in block])
        targets = task.target.encode_batch([pair.target for pair in block])
        for pair, source, target in zip(block, sources, targets, strict=True):
            if max(len(source), len(target)) > limit:
                lengths[max(len(source), len(target))] += 1
                seen.add(pair.place)
                continue
            kept += 1
            place = (numbers[pair.place.file], pair.place.line)
            yield Example(source, target, (pair.source, pair.target) if with_texts else None, place)
    if not kept:
        raise InputError(_nothing_left(part, corpus, limit, lengths))
    left_out = {"left_out": seen.count, "longest": max(lengths, default=0), "places": seen.places}
    write_json(data / LEFT_OUT.format(part), {"pairs": kept + seen.count, **left_out})


def _left_out(part: Part, config: Config, data: Path) -> Finding | None:
    note = data / LEFT_OUT.format(part)
    if not note.exists():  # beside stores from a time when it was not written
        return None
    known = read_json(note)
    seen = Count(known["left_out"], [Place(*place) for place in known["places"]])
    return left_out_finding(seen, known["pairs"], known["longest"], config.data.max_length, NAMES[part])


def _nothing_left(part: Part, corpus: Corpus, limit: int, lengths: Counter[int]) -> str:
    if not lengths:
        files = "files of their own with --valid and --test" if part == "train" else f"files with --{part}"
        return (
            f"no pairs for {part} among those of {', '.join(corpus.config.train)} after what is held out; "
            f"give more pairs, or {files}"
        )
    histogram: Counter[int] = Counter()
    for length, count in lengths.items():
        histogram[length.bit_length()] += count
    shown = ", ".join(f"{n:,} under {1 << bits:,} tokens" for bits, n in sorted(histogram.items()))
    return (
        f"all {lengths.total():,} pairs for {part} are longer than data.max_length = {limit} tokens: the "
        f"shortest has {min(lengths):,}, the longest {max(lengths):,}; {shown}; raise it"
    )

"""Pairs as numbers on disk, mapped into memory: built once, opened at once, however many there are.

A store is a folder. Each column of rows is two files, `NAME.flat` (all rows end to end) and `NAME.offsets`
(n + 1 int64: where each row begins, and where the last ends); `store.json` says what there is, with the size
and SHA-256 of every file. All numbers are little-endian. A store is written into a neighbouring folder, which
is renamed when it is complete: a folder of the right name is always whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqwright.errors import InputError, WriteError
from seqwright.files import HashedFile, alone, encode_json, sync, writing

FORMAT = 1
HEADER = "store.json"
SIDES = ("source", "target")
CHUNK = 1 << 18  # symbols held in memory while building
OFFSET, BYTE, PLACE = np.dtype("<i8"), np.dtype("u1"), np.dtype("<u4")

Row = Sequence[int] | np.ndarray

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length laid end to end: flat (sum of lengths,), lengths (B,)."""

    flat: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Ragged:
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        if rows and all(isinstance(row, np.ndarray) for row in rows):
            return cls(np.concatenate(rows).astype(np.int64), lengths)
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum())), lengths)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Ragged:
        """UTF-8 bytes; a lone surrogate is kept as it is, so that every string comes back."""
        rows = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls(np.frombuffer(b"".join(rows), dtype=BYTE), lengths)


class Example(NamedTuple):
    """One pair: ids without begin and end; if wanted, the texts and the place (number of the input, line)."""

    source: Row
    target: Row
    texts: tuple[str, str] | None = None
    place: tuple[int, int] | None = None


class Lengths(NamedTuple):
    """How many ids each source and each target has, begin and end not counted. (n,) int32 each."""

    source: np.ndarray
    target: np.ndarray


@dataclass(frozen=True)
class Header:
    """What `store.json` says. `key` names what the store was built from, `fingerprint` what is in it."""

    format: int
    key: str
    fingerprint: str
    count: int
    vocabulary: int
    dtype: str
    texts: bool
    places: bool
    inputs: list[str]
    files: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Column:
    """Rows on disk: row i is flat[offsets[i] : offsets[i + 1]]."""

    flat: np.ndarray
    offsets: np.ndarray

    def row(self, number: int) -> np.ndarray:
        start, stop = self.offsets[number : number + 2]
        return self.flat[start:stop]

    def lengths(self) -> np.ndarray:
        lengths = np.empty(len(self.offsets) - 1, dtype=np.int32)
        return np.subtract(self.offsets[1:], self.offsets[:-1], out=lengths, casting="unsafe")

    def gather(self, numbers: np.ndarray) -> Ragged:
        starts = self.offsets[numbers]
        lengths = self.offsets[numbers + 1] - starts
        before = np.cumsum(lengths) - lengths  # where each row begins in the result
        places = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return Ragged(self.flat[places], lengths)


class Store:
    """Pairs of id sequences, read in place from the disk."""

    def __init__(self, folder: Path, header: Header):
        """Use `Store.open`, which reads and checks the header."""
        self.folder, self.header = folder, header
        ids = np.dtype(header.dtype)
        self._source, self._target = self._column("source", ids), self._column("target", ids)
        self._texts = tuple(self._column(f"{side}_text", BYTE) for side in SIDES if header.texts)
        self._places = self._file("places", PLACE).reshape(-1, 2) if header.places else None

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """A store that is there and whole; the sizes of all files are checked, their content is not read."""
        folder = Path(folder)
        header = _read_header(folder / HEADER)
        for name, known in header.files.items():
            _check_size(folder / name, known["bytes"])
        return cls(folder, header)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        pairs: Iterable[tuple],
        *,
        key: str,
        vocabulary: int,
        inputs: Sequence[str] = (),
    ) -> Store:
        """Write a store anew, in bounded memory, replacing the one that was there.

        `pairs` are `Example`s or tuples like them; the first decides whether texts and places are kept.
        `key` names what they come from (`open_or_build` asks for it), `vocabulary` bounds the ids, and
        `inputs` are the names of the files that the places count.
        """
        folder = Path(folder)
        with alone(_lock(folder)):
            _build(folder, pairs, key, vocabulary, inputs)
        return cls.open(folder)

    @classmethod
    def open_or_build(
        cls,
        folder: str | Path,
        pairs: Iterable[tuple],
        *,
        key: str,
        vocabulary: int,
        inputs: Sequence[str] = (),
    ) -> Store:
        """The store of that key: opened if it is there, built from `pairs` if not.

        Give `pairs` as a generator, as they may go unused. Several processes may ask at once: one builds, the
        others wait for it.
        """
        folder = Path(folder)
        if (store := cls._of_key(folder, key)) is not None:
            return store
        with alone(_lock(folder)):
            if (store := cls._of_key(folder, key)) is not None:
                return store
            _build(folder, pairs, key, vocabulary, inputs)
        return cls.open(folder)

    @classmethod
    def _of_key(cls, folder: Path, key: str) -> Store | None:
        if not (folder / HEADER).exists():
            return None
        try:
            store = cls.open(folder)
        except InputError as error:
            log.warning("building the store anew: %s", error)
            return None
        return store if store.header.key == key else None

    def __len__(self) -> int:
        return self.header.count

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content, the same wherever and whenever it was built."""
        return self.header.fingerprint

    @cached_property
    def lengths(self) -> Lengths:
        return Lengths(self._source.lengths(), self._target.lengths())

    def source(self, number: int) -> np.ndarray:
        return self._source.row(number)

    def target(self, number: int) -> np.ndarray:
        return self._target.row(number)

    def gather(self, numbers: np.ndarray) -> tuple[Ragged, Ragged]:
        """The sources and the targets of these examples, in this order."""
        return self._source.gather(numbers), self._target.gather(numbers)

    def texts(self, number: int) -> tuple[str, str]:
        """The two texts of an example as they were before any tokenizer."""
        if not self._texts:
            raise InputError(f"{self.folder} holds no texts, only ids; build it again from pairs with texts")
        source, target = (column.row(number).tobytes() for column in self._texts)
        return source.decode("utf-8", "surrogatepass"), target.decode("utf-8", "surrogatepass")

    def place(self, number: int) -> str:
        """Where an example comes from, for messages: `file:line` if places were kept."""
        if self._places is None:
            return f"pair {number + 1}"
        file, line = self._places[number]
        return f"{self.header.inputs[file]}:{line}"

    def _column(self, name: str, dtype: np.dtype) -> Column:
        column = Column(self._file(f"{name}.flat", dtype), self._file(f"{name}.offsets", OFFSET))
        if len(column.offsets) != len(self) + 1 or column.offsets[-1] != len(column.flat):
            raise InputError(
                f"{self.folder / name}.offsets does not fit {name}.flat; remove the folder to build it again"
            )
        return column

    def _file(self, name: str, dtype: np.dtype) -> np.ndarray:
        path = self.folder / name
        if self.header.files[name]["bytes"] == 0:
            return np.empty(0, dtype)  # an empty file cannot be mapped
        mapped = np.memmap(path, dtype=dtype, mode="r")
        return np.asarray(mapped)  # the same memory as a plain array, whose slices are faster


def _read_header(path: Path) -> Header:
    again = "remove the folder to build it again"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:
            raise InputError(f"{path} has format {fields['format']}, this version reads {FORMAT}; {again}")
        return Header(**fields)
    except OSError as error:
        raise InputError(f"{path.parent} is not a store: {path.name}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is not the header of a store ({error}); {again}") from error


def _check_size(path: Path, expected: int) -> None:
    size = path.stat().st_size if path.exists() else 0
    if size != expected:
        raise InputError(
            f"{path} has {size} bytes instead of {expected}; remove the folder to build it again"
        )


def _lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _build(folder: Path, pairs: Iterable[tuple], key: str, vocabulary: int, inputs: Sequence[str]) -> None:
    """Write into `.NAME.new`, then rename. The caller is `alone`: what lies there was left by the dead."""
    fresh, stale = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    with writing(folder):
        _check_replaceable(folder)
        for leftover in (fresh, stale):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir()
    try:
        _write(fresh, pairs, key, vocabulary, inputs)
        with writing(folder):
            if folder.exists():
                folder.rename(stale)
            fresh.rename(folder)
            sync(folder.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(stale, ignore_errors=True)


def _check_replaceable(folder: Path) -> None:
    if not folder.exists() or (folder / HEADER).exists():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise WriteError(f"{folder} exists and is not a store; choose another folder or remove it")


def _write(folder: Path, pairs: Iterable[tuple], key: str, vocabulary: int, inputs: Sequence[str]) -> None:
    writer = None
    with ExitStack() as opened:
        for chunk in _chunks(pairs):
            with writing(folder):
                writer = writer or _Writer(folder, vocabulary, chunk[0], opened)
                writer.add(chunk)
        with writing(folder):
            writer = writer or _Writer(folder, vocabulary, Example([], []), opened)
            _write_header(folder / HEADER, writer, key, inputs)
            sync(folder)


def _write_header(path: Path, writer: _Writer, key: str, inputs: Sequence[str]) -> None:
    files = writer.close()
    content = [(name, known["sha256"]) for name, known in sorted(files.items())]
    header = Header(
        format=FORMAT,
        key=key,
        fingerprint=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
        count=writer.count,
        vocabulary=writer.vocabulary,
        dtype=writer.dtype.str,
        texts=writer.texts,
        places=writer.places,
        inputs=list(inputs),
        files=files,
    )
    with HashedFile(path) as file:
        file.write(encode_json(asdict(header), indent=1))
        file.finish()


def _chunks(pairs: Iterable[tuple]) -> Iterator[list[Example]]:
    """Examples in lists of about `CHUNK` symbols: memory is bounded by symbols, not by lines."""
    chunk: list[Example] = []
    size = 0
    for pair in pairs:
        example = Example(*pair)
        chunk.append(example)
        size += 1 + len(example.source) + len(example.target) + sum(map(len, example.texts or ()))
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Writer:
    """The files of a store that is being built."""

    def __init__(self, folder: Path, vocabulary: int, first: Example, opened: ExitStack):
        self.vocabulary, self.count = vocabulary, 0
        self.dtype = np.dtype("<u2") if vocabulary <= 1 << 16 else np.dtype("<u4")
        self.texts, self.places = first.texts is not None, first.place is not None
        self.ids = [_Rows(folder / side, self.dtype, opened) for side in SIDES]
        self.bytes = [_Rows(folder / f"{side}_text", BYTE, opened) for side in SIDES if self.texts]
        self.lines = [opened.enter_context(HashedFile(folder / "places")) for _ in range(self.places)]

    def add(self, chunk: list[Example]) -> None:
        sources, targets, texts, places = zip(*chunk, strict=True)
        self._check_column("texts", texts, self.texts)
        self._check_column("a place", places, self.places)
        for side, column, rows in zip(SIDES, self.ids, (Ragged.of(sources), Ragged.of(targets)), strict=True):
            self._check_ids(side, rows)
            column.write(rows)
        if self.texts:
            for column, side_texts in zip(self.bytes, zip(*texts, strict=True), strict=True):
                column.write(Ragged.of_texts(side_texts))
        for file in self.lines:
            file.write(np.array(places, dtype=PLACE).tobytes())
        self.count += len(chunk)

    def close(self) -> dict[str, dict[str, Any]]:
        """Everything on the disk for good: name -> bytes and sha256 of each file."""
        files = [file for column in (*self.ids, *self.bytes) for file in (column.flat, column.offsets)]
        return {file.name: file.finish() for file in (*files, *self.lines)}

    def _check_column(self, name: str, values: Sequence[Any], wanted: bool) -> None:
        for row, value in enumerate(values):
            if (value is not None) != wanted:
                has = "has" if wanted else "has not"
                number = self.count + row + 1
                raise InputError(
                    f"the first pair {has} {name}, but pair {number} differs; give all pairs {name}, or none"
                )

    def _check_ids(self, side: str, rows: Ragged) -> None:
        if not len(rows.flat) or (rows.flat.min() >= 0 and rows.flat.max() < self.vocabulary):
            return
        wrong = np.flatnonzero((rows.flat < 0) | (rows.flat >= self.vocabulary))[0]
        row = int(np.searchsorted(np.cumsum(rows.lengths), wrong, side="right"))
        raise InputError(
            f"the {side} of pair {self.count + row + 1} has the id {rows.flat[wrong]}, outside the "
            f"vocabulary of {self.vocabulary}; encode it with the tokenizer that the vocabulary belongs to"
        )


class _Rows:
    """The two files of a column of rows."""

    def __init__(self, path: Path, dtype: np.dtype, opened: ExitStack):
        self.flat, self.offsets = (
            opened.enter_context(HashedFile(path.with_name(path.name + end))) for end in (".flat", ".offsets")
        )
        self.dtype, self.end = dtype, 0
        self.offsets.write(np.zeros(1, OFFSET).tobytes())

    def write(self, rows: Ragged) -> None:
        self.flat.write(rows.flat.astype(self.dtype).tobytes())
        self.offsets.write((self.end + np.cumsum(rows.lengths)).astype(OFFSET).tobytes())
        self.end += len(rows.flat)

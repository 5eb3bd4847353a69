"""Examples as numbers on disk, mapped into memory: built once, opened at once, however many there are.

A store is a folder. Each column of rows is two files, `NAME.flat` (all rows end to end) and `NAME.offsets`
(n + 1 int64: where each row begins, and where the last ends). A column that stores equal rows once has a
third, `NAME.rows` (n int64: the stored row of each example). `store.json` lists the columns, with the size
and SHA-256 of every file. All numbers are little-endian. A store is written into a neighbouring folder, which
is renamed when it is complete: a folder of the right name is always whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, FailFast, Field, NonNegativeInt, ValidationError

from seqwright.errors import InputError, ModelError, WriteError
from seqwright.files import HashedFile, alone, check_format, encode_json, read_json, sha256, sync, writing

FORMAT = 2
HEADER = "store.json"
CHUNK = 1 << 18  # values held in memory while building
OFFSET, BYTE, PLACE = np.dtype("<i8"), np.dtype("u1"), np.dtype("<u4")
AGAIN = "remove the folder to build it again"

FileName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]
NumberType = Annotated[str, Field(pattern=r"^[<|]?([iu][1248]|f[248]|b1)$")]  # of numpy
Values = Sequence[float] | np.ndarray | str

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length laid end to end: flat (sum of lengths,), lengths (B,)."""

    flat: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[float] | np.ndarray], dtype: type[np.number] = np.int64) -> Ragged:
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        if rows and all(isinstance(row, np.ndarray) for row in rows):
            flat = np.concatenate(rows)
            return cls(flat if flat.dtype == BYTE else flat.astype(dtype), lengths)
        return cls(np.fromiter(chain.from_iterable(rows), dtype=dtype, count=int(lengths.sum())), lengths)

    def split(self) -> list[np.ndarray]:
        """Return the rows."""
        return np.split(self.flat, np.cumsum(self.lengths)[:-1]) if len(self.lengths) else []

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Ragged:
        """Return UTF-8 bytes; a lone surrogate is kept as it is, so that every string comes back."""
        rows = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls(np.frombuffer(b"".join(rows), dtype=BYTE), lengths)


@dataclass(frozen=True)
class ColumnSpec:
    """A column of rows: its name, the numpy type of its values, and the limit that ids stay below.

    shared: equal rows, such as the image of several captions, are stored once.
    """

    name: str
    dtype: str
    limit: int | None = None
    shared: bool = False

    @classmethod
    def ids(cls, name: str, vocabulary: int) -> ColumnSpec:
        """Return a column of token ids, as small as the vocabulary allows."""
        return cls(name, "<u2" if vocabulary <= 1 << 16 else "<u4", vocabulary)

    @classmethod
    def text(cls, name: str) -> ColumnSpec:
        return cls(name, BYTE.str)

    @classmethod
    def pixels(cls, name: str) -> ColumnSpec:
        """Return a column of images, all of one size."""
        return cls(name, BYTE.str, shared=True)


class StoredRow(NamedTuple):
    """One example by column; `place` is the number of its input file and its line."""

    columns: Mapping[str, Values]
    place: tuple[int, int] | None = None


class FileEntry(BaseModel):
    """A file in the header."""

    bytes: NonNegativeInt
    sha256: str


class Header(BaseModel):
    """The contents of `store.json`. `key` names what the store was built from, `fingerprint` its content."""

    format: int
    key: str
    fingerprint: str
    count: Annotated[int, Field(ge=0, lt=1 << 62)]
    columns: dict[FileName, NumberType]
    places: bool
    inputs: Annotated[list[str], FailFast()]
    files: dict[FileName, FileEntry]


@dataclass(frozen=True)
class StoredColumn:
    """Rows on disk: row i is flat[offsets[k] : offsets[k + 1]], where k is rows[i], or i without `rows`."""

    flat: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray | None = None

    def row(self, number: int) -> np.ndarray:
        stored = self._stored(number)
        start, stop = self.offsets[stored : stored + 2]
        return self.flat[start:stop]

    def equal_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return these rows of a column whose rows all have one length, (B, length)."""
        return self.flat.reshape(len(self.offsets) - 1, -1)[self._stored(numbers)]

    def _stored(self, numbers: Any) -> Any:
        return numbers if self.rows is None else self.rows[numbers]

    def text(self, number: int) -> str:
        try:
            return self.row(number).tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise InputError(f"the text of example {number + 1} in the store is damaged: {error}") from error

    def lengths(self) -> np.ndarray:
        """Return the length of every row (n,) int32."""
        lengths = np.empty(len(self.offsets) - 1, dtype=np.int32)
        np.subtract(self.offsets[1:], self.offsets[:-1], out=lengths, casting="unsafe")
        return lengths if self.rows is None else lengths[self.rows]

    def gather(self, numbers: np.ndarray) -> Ragged:
        """Return these rows, in this order."""
        stored = self._stored(numbers)
        starts = self.offsets[stored]
        lengths = self.offsets[stored + 1] - starts
        before = np.cumsum(lengths) - lengths  # where each row begins in the result
        places = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return Ragged(self.flat[places], lengths)

    def blocks(self, rows: int = 1 << 16) -> Iterator[Ragged]:
        """Yield all rows, so many at a time."""
        count = len(self.offsets) - 1 if self.rows is None else len(self.rows)
        for start in range(0, count, rows):
            yield self.gather(np.arange(start, min(start + rows, count)))


class Store:
    """Columns of rows, read in place from the disk. `Store.open` reads and checks the header."""

    def __init__(self, folder: Path, header: Header):
        self.folder, self.header = folder, header
        self._columns = {name: self._column(name, np.dtype(kind)) for name, kind in header.columns.items()}
        self._places = self._file("places", PLACE, 2 * header.count) if header.places else None

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """Open a complete store. The sizes of all files and the offsets are checked; rows are not read."""
        folder = Path(folder)
        header = _read_header(folder / HEADER)
        for path, known in ((folder / name, known) for name, known in header.files.items()):
            size = path.stat().st_size if path.exists() else 0
            if size != known.bytes:
                raise InputError(f"{path} has {size} bytes, not {known.bytes}; {AGAIN}")
        return cls(folder, header)

    @classmethod
    def open_or_build(
        cls,
        folder: str | Path,
        rows: Iterable[StoredRow],
        columns: Sequence[ColumnSpec],
        *,
        key: str,
        inputs: Sequence[str] = (),
    ) -> Store:
        """Open the store of that key, or build it in bounded memory from `rows`, a generator that may go
        unused. It replaces a store of another key.

        The first row decides whether places are kept; `inputs` are the names of the files that they count.
        Several processes may call this at once: one builds, the others wait for it.
        """
        folder = Path(folder)
        if (store := cls._of_key(folder, key, columns)) is not None:
            return store
        with alone(folder.with_name(f".{folder.name}.lock")):
            if (store := cls._of_key(folder, key, columns)) is not None:
                return store
            _build(folder, rows, columns, key, inputs)
        return cls.open(folder)

    @classmethod
    def _of_key(cls, folder: Path, key: str, columns: Sequence[ColumnSpec]) -> Store | None:
        """Open the store of a key and verify its rows, which decide what a training learns."""
        if not (folder / HEADER).exists():
            return None
        try:
            store = cls.open(folder)
            if store.header.key != key:
                return None
            store._verify(columns)
        except InputError as error:
            log.warning("building the store again: %s", error)
            return None
        return store

    def _verify(self, columns: Sequence[ColumnSpec]) -> None:
        """Raise InputError unless every file has its SHA-256, and every column its type and its ids."""
        for name, known in self.header.files.items():
            if sha256(self.folder / name) != known.sha256:
                raise InputError(f"{self.folder / name} is damaged: its SHA-256 does not match; {AGAIN}")
        if self.header.columns != {spec.name: spec.dtype for spec in columns}:
            raise InputError(f"{self.folder} has other columns than its key; {AGAIN}")
        for spec in columns:
            if spec.limit is not None and self.column(spec.name).flat.max(initial=0) >= spec.limit:
                raise InputError(f"{self.folder / spec.name}.flat has an id outside the vocabulary; {AGAIN}")

    def __len__(self) -> int:
        return self.header.count

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content, the same wherever and whenever it was built."""
        return self.header.fingerprint

    def column(self, name: str) -> StoredColumn:
        if name not in self._columns:
            raise InputError(
                f"{self.folder} has no column {name!r}, only {', '.join(self._columns)}; build it again"
            )
        return self._columns[name]

    def place(self, number: int) -> str:
        """Return where an example comes from, for messages: `file:line` if places were kept."""
        if self._places is None:
            return f"example {number + 1}"
        file, line = self._places[2 * number : 2 * number + 2]
        if file >= len(self.header.inputs):
            raise InputError(f"{self.folder / 'places'} names an input file that {HEADER} lacks; {AGAIN}")
        return f"{self.header.inputs[file]}:{line}" if line else self.header.inputs[file]

    def _column(self, name: str, dtype: np.dtype) -> StoredColumn:
        flat = self._file(f"{name}.flat", dtype)
        shared = f"{name}.rows" in self.header.files
        rows = self._file(f"{name}.rows", OFFSET, len(self)) if shared else None
        offsets = self._file(f"{name}.offsets", OFFSET, None if shared else len(self) + 1)
        if not len(offsets) or offsets[0] or offsets[-1] != len(flat) or (offsets[1:] < offsets[:-1]).any():
            raise InputError(f"{self.folder / name}.offsets does not fit {name}.flat; {AGAIN}")
        if rows is not None and len(rows) and not 0 <= rows.min() <= rows.max() < len(offsets) - 1:
            raise InputError(f"{self.folder / name}.rows does not fit {name}.offsets; {AGAIN}")
        return StoredColumn(flat, offsets, rows)

    def _file(self, name: str, dtype: np.dtype, count: int | None = None) -> np.ndarray:
        """Map the numbers of a file, `count` of them if it is given."""
        path = self.folder / name
        if name not in self.header.files:
            raise InputError(f"{self.folder / HEADER} does not list {name}; {AGAIN}")
        numbers, rest = divmod(self.header.files[name].bytes, dtype.itemsize)
        if rest or count not in (None, numbers):
            raise InputError(f"{path} does not have the numbers of {len(self):,} rows; {AGAIN}")
        if not numbers:
            return np.empty(0, dtype)  # an empty file cannot be mapped
        mapped = np.memmap(path, dtype=dtype, mode="r")
        return np.asarray(mapped)  # the same memory as a plain array, whose slices are faster


def _read_header(path: Path) -> Header:
    if not path.exists():
        raise InputError(f"{path.parent} is not a store: it has no {path.name}")
    try:
        fields = read_json(path)
        if fields.get("format") == 1:
            fields = _upgraded(fields)
        check_format(path, fields.get("format"), FORMAT)
        return Header.model_validate(fields)
    except ModelError as error:
        raise InputError(f"{path} is not the header of a store: {error}; {AGAIN}") from error
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        reason = f"{where}: {first['msg']}"
        raise InputError(f"{path} is not the header of a store: {reason}; {AGAIN}") from error


def _upgraded(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a header of format 1, which always had two sides of text, as one of format 2."""
    columns = dict.fromkeys(("source", "target"), fields.get("dtype"))
    columns |= {f"{side}_text": BYTE.str for side in ("source", "target") if fields.get("texts")}
    return {**fields, "format": 2, "columns": columns}


def _build(
    folder: Path, rows: Iterable[StoredRow], columns: Sequence[ColumnSpec], key: str, inputs: Sequence[str]
) -> None:
    """Write into `.NAME.new`, then rename. The caller holds the lock: what lies there is left from a kill."""
    fresh, stale = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    with writing(folder):
        empty = folder.is_dir() and not any(folder.iterdir())
        if folder.exists() and not (folder / HEADER).exists() and not empty:
            raise WriteError(f"{folder} exists and is not a store; choose another folder or remove it")
        for leftover in (fresh, stale):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir()
    try:
        _write(fresh, rows, columns, key, inputs)
        with writing(folder):
            if folder.exists():
                folder.rename(stale)
            fresh.rename(folder)
            sync(folder.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(stale, ignore_errors=True)


def _write(
    folder: Path, rows: Iterable[StoredRow], columns: Sequence[ColumnSpec], key: str, inputs: Sequence[str]
) -> None:
    with ExitStack() as opened:
        with writing(folder):
            writer = _Writer(folder, columns, opened)
        for chunk in _chunks(rows):
            with writing(folder):
                writer.add(chunk)
        with writing(folder):
            files = writer.close()
            content = [(name, known["sha256"]) for name, known in sorted(files.items())]
            header = Header(
                format=FORMAT,
                key=key,
                fingerprint=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
                count=writer.count,
                columns={spec.name: spec.dtype for spec in columns},
                places=bool(writer.places),
                inputs=list(inputs),
                files={name: FileEntry(**known) for name, known in files.items()},
            )
            with HashedFile(folder / HEADER) as file:
                file.write(encode_json(header.model_dump(), indent=1))
                file.finish()
            sync(folder)


def _chunks(rows: Iterable[StoredRow]) -> Iterator[list[StoredRow]]:
    """Yield rows in lists of about `CHUNK` values: memory is bounded by values, not by lines."""
    chunk: list[StoredRow] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += 1 + sum(map(len, row.columns.values()))
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Writer:
    """The files of a store that is being built."""

    def __init__(self, folder: Path, columns: Sequence[ColumnSpec], opened: ExitStack):
        self.count, self.columns = 0, [(spec, _ColumnFiles(folder, spec, opened)) for spec in columns]
        self.folder, self.opened = folder, opened
        self.places: HashedFile | None = None

    def add(self, chunk: list[StoredRow]) -> None:
        if not self.count and chunk[0].place is not None:
            self.places = self.opened.enter_context(HashedFile(self.folder / "places"))
        for spec, column in self.columns:
            values = [row.columns[spec.name] for row in chunk]
            kind = np.float64 if np.dtype(spec.dtype).kind == "f" else np.int64
            rows = Ragged.of_texts(values) if isinstance(values[0], str) else Ragged.of(values, kind)  # type: ignore[arg-type]
            self._check_ids(spec, rows)
            column.write(rows)
        if self.places is not None:
            self.places.write(np.array([row.place for row in chunk], dtype=PLACE).tobytes())
        self.count += len(chunk)

    def close(self) -> dict[str, dict[str, Any]]:
        """Flush everything to disk; return name -> bytes and sha256 of each file."""
        files = [file for _, column in self.columns for file in column.files]
        return {file.name: file.finish() for file in (*files, *filter(None, [self.places]))}

    def _check_ids(self, spec: ColumnSpec, rows: Ragged) -> None:
        if spec.limit is None or not len(rows.flat):
            return
        if rows.flat.min() >= 0 and rows.flat.max() < spec.limit:
            return
        wrong = np.flatnonzero((rows.flat < 0) | (rows.flat >= spec.limit))[0]
        row = int(np.searchsorted(np.cumsum(rows.lengths), wrong, side="right"))
        raise InputError(
            f"the {spec.name} of example {self.count + row + 1} has the id {rows.flat[wrong]}, outside the "
            f"vocabulary of {spec.limit}; encode it with the tokenizer of that vocabulary"
        )


class _ColumnFiles:
    """The files of a column."""

    def __init__(self, folder: Path, spec: ColumnSpec, opened: ExitStack):
        self.flat, self.offsets = (
            opened.enter_context(HashedFile(folder / f"{spec.name}.{end}")) for end in ("flat", "offsets")
        )
        self.files = [self.flat, self.offsets]
        if spec.shared:
            self.files.append(opened.enter_context(HashedFile(folder / f"{spec.name}.rows")))
        self.known: dict[bytes, int] = {}  # the hashes of stored rows -> their numbers
        self.dtype, self.end = np.dtype(spec.dtype), 0
        self.offsets.write(np.zeros(1, OFFSET).tobytes())

    def write(self, rows: Ragged) -> None:
        if len(self.files) == 3:
            rows = self._new(rows)
        self.flat.write(rows.flat.astype(self.dtype, copy=False).tobytes())
        self.offsets.write((self.end + np.cumsum(rows.lengths)).astype(OFFSET).tobytes())
        self.end += len(rows.flat)

    def _new(self, rows: Ragged) -> Ragged:
        """Note the stored row of each example, and return the rows that are not stored yet."""
        ends, numbers, new = np.cumsum(rows.lengths), [], []
        for i, (end, length) in enumerate(zip(ends.tolist(), rows.lengths.tolist(), strict=True)):
            digest = hashlib.sha256(rows.flat[end - length : end].tobytes()).digest()
            if digest not in self.known:
                self.known[digest] = len(self.known)
                new.append(i)
            numbers.append(self.known[digest])
        self.files[2].write(np.array(numbers, dtype=OFFSET).tobytes())
        kept = [rows.flat[ends[i] - rows.lengths[i] : ends[i]] for i in new]
        return Ragged(np.concatenate(kept) if kept else rows.flat[:0], rows.lengths[new])

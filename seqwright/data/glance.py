"""A glance at a user's files, made once, from which tasks claim them.

One pass over the files: distinct values of each column over all rows (the set is capped), shapes from a
sample spread over the whole file, because files sorted by class break rules that look at the first rows.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from seqwright.config import DataConfig
from seqwright.data.fields import symbols_in
from seqwright.data.images import archive_above, is_archive, is_home, open_home
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.columns import parse_columns
from seqwright.data.readers.conll import COMMENT, DOCUMENT, FIELDS, cells_of, is_conllu
from seqwright.data.readers.files import Input, files_in, is_text
from seqwright.data.readers.jsonl import json_document
from seqwright.data.readers.lines import Decoding, LongLineError, first_lines, read_text, table_lines
from seqwright.data.readers.sniffing import csv_delimiter, quoted
from seqwright.data.task import TASKS, task_class
from seqwright.data.text_display import excerpt
from seqwright.errors import ConfigError, InputError, SeqwrightError
from seqwright.files import uncompressed

Shape = Literal["folder", "json", "jsonl", "tsv", "csv", "text", "parquet"]

CAP = 1001  # distinct values of a column that are counted
SAMPLE = 5000  # rows that are kept
WIDEST = 100  # columns that are kept
LONGEST = 200  # characters of a cell that are kept
METADATA = ("metadata.jsonl", "metadata.csv")  # tables that describe the other files of a folder
HEAD = 200  # lines that decide the format
PARQUET = (".parquet", ".pq")  # the endings of binary tables, which have names and types themselves
OPENED = 50  # texts of a folder, spread over it, whose words are counted
BEGINNING = 1 << 16  # characters of a text whose words are counted
DAMAGED = 0.01  # share of lines of words that may have another number of columns
SENTENCE = 200  # lines of a block of words, on average, at most
LABELLED, SHORT = 10, 1000  # texts per sub-folder, and words in the median of texts that have a label
UNLABELLED = ("unsup", "unlabeled", "unlabelled")  # sub-folders that are no label


@dataclass(frozen=True)
class ColumnGlance:
    """A column: its name or number, how many distinct values it has (at most `CAP`), and a sample."""

    name: str
    distinct: int
    sample: tuple[str, ...]

    @cached_property
    def repeated(self) -> float:
        """The share of the sample with a value that occurs twice or more."""
        counts = Counter(self.sample)
        return sum(count for count in counts.values() if count > 1) / max(len(self.sample), 1)

    @property
    def words(self) -> float:
        """Words of a cell, on average."""
        return sum(len(cell.split()) for cell in self.sample) / max(len(self.sample), 1)

    @cached_property
    def numbers(self) -> bool:
        """Whether every cell is a number."""
        try:
            return bool(self.sample) and all(float(cell) is not None for cell in self.sample)
        except ValueError:
            return False

    def looks_like_labels(self, rows: int) -> bool:
        """Whether the column has few, short, repeated values; numbers only if they are very few."""
        most = 20 if self.numbers else min(100, rows // 10)
        return self.repeated >= 0.9 and 2 <= self.distinct <= most and self.words < 3

    @cached_property
    def looks_like_features(self) -> bool:
        """Bundles such as `V;IND;1;PL`: a separator in most cells, and names that come again."""
        filled = [cell for cell in self.sample if cell.strip()]
        separated = sum(";" in cell or "|" in cell for cell in filled)
        if not filled or 2 * separated < len(filled) or any(" " in cell for cell in filled):
            return False
        names = [name for cell in filled for name in symbols_in(cell)]
        return 3 * len(set(names)) <= len(names) or len(filled) < 6


@dataclass(frozen=True)
class FolderGlance:
    """The files of folders, by their paths inside of them; `words`: the median of a sample of the texts;
    `images`: those that are images by their endings or first bytes.
    """

    files: tuple[str, ...]
    words: float
    images: tuple[str, ...] = ()

    @cached_property
    def suffixes(self) -> Counter[str]:
        """The number of files by ending, that of a compression left out."""
        return Counter(uncompressed(file).suffix.lower() for file in self.files)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(filter(is_text, self.files))

    @cached_property
    def labels(self) -> Counter[str]:
        """The number of texts by sub-folder."""
        parents = (Path(file).parent for file in self.texts)
        return Counter(
            str(parent) for parent in parents if parent != Path() and parent.name not in UNLABELLED
        )

    @property
    def labelled_texts(self) -> bool:
        """Whether short texts lie in several sub-folders, which are then their labels."""
        return len(self.labels) >= 2 and min(self.labels.values()) >= LABELLED and self.words <= SHORT


@dataclass(frozen=True)
class BlockGlance:
    """Lines with a word each, in blocks between blank lines.

    width: the columns of the lines, but for a few damaged ones; 0 if they differ. last: the distinct values
    of the last one, at most `CAP`. numbered: ten columns, the first one a number, as in CoNLL-U.
    """

    count: int
    width: int
    last: int
    numbered: bool


@dataclass(frozen=True)
class Glance:
    """What the files of a training look like. `rows` counts all rows, `lines` those of each file; `keys` are
    those of a JSON document; `blocks` are there if blank lines divide the files into sentences of words.
    `head` are the first lines without gaps, which a sample has.
    """

    files: tuple[str, ...]
    shape: Shape
    columns: tuple[ColumnGlance, ...]
    rows: int
    lines: tuple[int, ...]
    folder: FolderGlance | None = None
    keys: tuple[str, ...] = ()
    blocks: BlockGlance | None = None
    head: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return ", ".join(Path(file).name for file in self.files)

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def parallel(self) -> bool:
        """Whether several files of one column have equally many lines."""
        return self.shape == "text" and len(self.files) > 1 and len(set(self.lines)) == 1

    def narrowed(self, keys: Sequence[str]) -> Glance:
        """Return the glance with these columns alone, by name or number; with all if one is not there."""
        known = {next(iter(column.sample), "").strip(): column for column in self.columns}
        known |= {column.name: column for column in self.columns}
        return replace(self, columns=tuple(known[key] for key in keys)) if known.keys() >= set(keys) else self

    @property
    def names(self) -> str:
        """The names of the columns, for a sentence."""
        return ", ".join(excerpt(column.name, 20)[1:-1] for column in self.columns[:6])


class Recognition(NamedTuple):
    """The task of some files and the evidence; no evidence where no task claims them."""

    task: str
    evidence: str | None = None


def recognise(paths: Sequence[str], data: DataConfig, default: str) -> Recognition:
    """Return the task that claims the files; the reader of the default task explains those that none claims.

    Two claims of one tier are an error: each file has one winner.
    """
    try:
        glance = look_at(paths, data)
        if glance is not None and data.columns:
            glance = glance.narrowed(parse_columns(data.columns).keys)
    except LongLineError as error:
        raise InputError(f"{error}; if it is running text, add --task language_modeling") from error
    except (OSError, SeqwrightError):  # reading names what is wrong
        return Recognition(default)
    found = {} if glance is None else {name: task_class(name).claim(glance) for name in TASKS.names()}
    claims = {name: claim for name, claim in found.items() if claim is not None}
    if glance is None or not claims:
        return Recognition(default)
    winner, *others = sorted(claims, key=lambda name: claims[name].tier)
    if others and claims[others[0]].tier == claims[winner].tier:
        raise ConfigError(f"{glance.name} fits {winner} and {others[0]}; choose one with --task")
    return Recognition(winner, claims[winner].evidence)


def look_at(paths: Sequence[str], data: DataConfig) -> Glance | None:
    """Return a glance, or None for what cannot be read twice."""
    if any(map(is_home, paths)):
        if tables := [table for path in paths for table in _metadata(path)]:
            glance = look_at(tables, data)
            return glance and replace(glance, files=tuple(paths))
        return Glance(tuple(paths), "folder", (), 0, (), _folder(paths, data))
    if keys := _json_keys(paths[0]):
        return Glance(tuple(paths), "json", (), 0, (), keys=keys)
    inputs = [Input(path) for path in paths]
    if not inputs or any(file.single_pass for file in inputs):
        return None
    if all(uncompressed(path).suffix.lower() in PARQUET for path in paths):
        return Glance(tuple(paths), "parquet", (), 0, ())
    decoding = Decoding(data.encoding, "replace", data.max_line)
    head = tuple(line for line in first_lines(inputs[0], decoding)[1] if line.strip())
    shape, delimiter = _shape(head[:HEAD], paths[0], data)
    columns, rows, counts, blocks = _Columns(), 0, [], _Blocks()
    for file in inputs:
        before = rows
        lines = blocks.watched(_lines(file, decoding))
        for cells in _rows(lines, shape, delimiter, data.max_line):
            columns.add(cells)
            rows += 1
        counts.append(rows - before)
    more: dict[str, Any] = {"blocks": blocks.glance(), "head": head}
    return Glance(tuple(paths), shape, columns.glances(), rows, tuple(counts), **more)


def _metadata(path: str) -> list[str]:
    """Return the tables that describe the files of a folder, or of its sub-folders."""
    places = (Path(path), *(each for each in sorted(Path(path).glob("*")) if each.is_dir()))
    return [str(place / name) for place in places for name in METADATA if (place / name).is_file()]


def _json_keys(path: str) -> tuple[str, ...]:
    """Return the keys of the JSON object that is a whole file, or of the first one in its list."""
    if uncompressed(path).suffix.lower() != ".json" or Input(path).single_pass:
        return ()
    try:
        document = json_document(path)
    except InputError:
        return ()
    document = document[0] if isinstance(document, list) and document else document
    return tuple(document) if isinstance(document, dict) else ()


def _folder(paths: Sequence[str], data: DataConfig) -> FolderGlance:
    archives = [path for path in paths if is_archive(path) or archive_above(path)]
    archived = [name for path in archives for name in open_home(path).names]
    inside = {
        os.path.relpath(file, path) if file != path else os.path.basename(path): file
        for path in paths
        if path not in archives
        for file in files_in([path])
    }
    folders = [path for path in paths if os.path.isdir(path)]
    images = [name for path in (*folders, *archives) for name in open_home(path).image_names]
    found = FolderGlance((*inside, *archived), 0.0, tuple(images))
    texts = [inside[name] for name in found.texts if name in inside]
    decoding, counts = Decoding(data.encoding, "replace", data.max_line), []
    for file in texts[:: max(len(texts) // OPENED, 1)][:OPENED]:
        _, text = next(read_text(Input(file), decoding, ReadReport()), (1, ""))
        counts.append(len(text[:BEGINNING].split()))
    return replace(found, words=median(counts) if counts else 0.0)


def _lines(file: Input, decoding: Decoding) -> Iterator[str]:
    yield from table_lines(file, decoding, ReadReport())[1]


def _shape(head: Sequence[str], path: str, data: DataConfig) -> tuple[Shape, str]:
    """Return the format and the delimiter, by the first lines."""
    if data.delimiter is not None:
        return "csv", data.delimiter
    if head and all(line.lstrip().startswith("{") for line in head):
        return "jsonl", ""
    if head and 2 * sum("\t" in line for line in head) > len(head):
        return "tsv", "\t"
    if head and (data.format == "csv" or ".csv" in path.lower()):
        delimiter = csv_delimiter(head)
        return ("text", "") if delimiter is None else ("csv", delimiter)
    return "text", ""


def _rows(lines: Iterator[str], shape: Shape, delimiter: str, longest: int) -> Iterator[dict[str, str]]:
    """Yield rows by the names or numbers of their columns; what does not parse is one cell."""
    if shape == "csv":
        try:
            yield from (_numbered(cells) for _, cells in quoted(lines, delimiter, longest) if cells)
        except csv.Error:
            return
        return
    for line in lines:
        if not line.strip():
            continue
        if shape == "jsonl":
            yield _object(line)
        else:
            yield _numbered(line.split(delimiter) if shape == "tsv" else [line])


def _numbered(cells: Sequence[str]) -> dict[str, str]:
    return {str(number): cell[:LONGEST] for number, cell in enumerate(cells[:WIDEST], start=1)}


def _object(line: str) -> dict[str, str]:
    try:
        value: Any = json.loads(line)
        cells = islice(value.items(), WIDEST) if isinstance(value, dict) else ()
        texts = ((key, item if isinstance(item, str) else repr(item)) for key, item in cells)
        return {key[:LONGEST]: text[:LONGEST] for key, text in texts}
    except (ValueError, RecursionError):
        return {}


class _Columns:
    """Distinct values and a sample of each column; the sample thins itself out as rows come."""

    def __init__(self) -> None:
        self.seen: dict[str, set[str]] = {}
        self.sample: list[dict[str, str]] = []
        self.rows, self.apart = 0, 1

    def add(self, cells: dict[str, str]) -> None:
        for name, cell in cells.items():
            if name not in self.seen and len(self.seen) == WIDEST:
                continue
            values = self.seen.setdefault(name, set())
            if len(values) < CAP:
                values.add(cell)
        if self.rows % self.apart == 0:
            self.sample.append(cells)
            if len(self.sample) > SAMPLE:
                self.sample, self.apart = self.sample[::2], 2 * self.apart
        self.rows += 1

    def glances(self) -> tuple[ColumnGlance, ...]:
        return tuple(
            ColumnGlance(name, len(values), tuple(row[name] for row in self.sample if name in row))
            for name, values in self.seen.items()
        )


class _Blocks:
    """Whether lines are words in columns, with blank lines between sentences; it stops at the first line
    that is not.
    """

    def __init__(self) -> None:
        self.count = self.rows = self.spaced = 0
        self.widths, self.last = Counter[int](), set[str]()
        self.inside: bool | None = None  # a block; None: before the first line of a file
        self.divided, self.numbered = False, True  # whether blank lines divide a file

    def watched(self, lines: Iterator[str]) -> Iterator[str]:
        """Yield the lines of a file after looking at each."""
        self.inside = None
        for line in lines:
            if self.rows <= self.most and (self.numbered or self.damaged <= 5 + DAMAGED * self.rows):
                self._add(line)
            yield line

    @property
    def most(self) -> int:
        """The number of lines that so many sentences have at most."""
        return SENTENCE * max(self.count, 5)

    @property
    def damaged(self) -> int:
        """The number of lines that have not as many columns as most lines."""
        return self.rows - max(self.widths.values(), default=0)

    def _add(self, line: str) -> None:
        if not line.strip():
            self.inside = False if self.inside is not None else None
            return
        self.count += not self.inside
        self.divided |= self.inside is False
        self.inside = True
        if line.startswith(DOCUMENT):
            return
        self.rows += 1
        cells = cells_of(line)
        self.widths[len(cells)] += 1
        self.spaced += " " in cells[0]
        self.numbered &= is_conllu([line]) or line.startswith(COMMENT)
        if len(self.last) < CAP:
            self.last.add(cells[-1])

    def glance(self) -> BlockGlance | None:
        words = 10 * self.spaced <= self.rows  # most of the first cells have one
        steady = self.damaged <= DAMAGED * self.rows
        columns = steady and words and self.divided and self.rows >= 2 * self.count
        numbered = self.numbered and len(FIELDS) in self.widths
        if self.rows > self.most or not (columns or numbered):
            return None
        width = max(self.widths, key=self.widths.__getitem__)
        return BlockGlance(self.count, width if columns else 0, len(self.last), numbered)

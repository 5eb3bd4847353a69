"""Texts with labels: tables (TSV, CSV, JSONL), lines of fastText, and folders with a sub-folder per label.

Which column has the labels is decided by its name, or by its values in the whole file: files are often sorted
by label.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from seqwright.config import DataConfig
from seqwright.data.glance import UNLABELLED, ColumnGlance, Glance, look_at
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.columns import parse_columns
from seqwright.data.readers.files import Input, is_text
from seqwright.data.readers.lines import Decoding, cleaned, first_lines, read_blocks
from seqwright.data.readers.opened import OpenedFiles
from seqwright.data.readers.pairs import PairFiles, SkipRules
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.data.readers.unlabelled import (
    LINE,
    MOSTLY,
    OBJECTS,
    Rows,
    ending,
    name_of,
    object_in,
    open_table,
    rows_of_objects,
    text_under,
)
from seqwright.data.text_display import pluralize
from seqwright.errors import ConfigError, InputError

LABELS = (  # names of columns
    *("label", "labels", "class", "category", "sentiment", "intent"),
    *("topic", "emotion", "polarity", "rating", "stars", "language"),
)
TEXTS = (
    *("text", "sentence", "review", "content", "body", "question", "document"),
    *("tweet", "comment", "utterance", "query", "message", "title"),
)
SEVERAL = (  # names of the texts of one example
    *(("sentence1", "sentence2"), ("question1", "question2"), ("text1", "text2")),
    *(("text_a", "text_b"), ("sentence_a", "sentence_b"), ("premise", "hypothesis")),
)
MARK = "__label__"  # of fastText: `__label__sports the match ended`
CONSTANT = 20  # rows from which on a column of one value is a label, which training refuses
ENDLESS = 1 << 62  # texts are cut when they are encoded, not left out


class Labelled(NamedTuple):
    """A text, its label (None for an input without one), and where it comes from."""

    text: str
    label: str | None
    place: Place


class Columns(NamedTuple):
    """The text and the label column of a glance, and why; `several`: names of two texts that belong
    together.
    """

    text: ColumnGlance
    label: ColumnGlance
    named: bool
    reason: str
    several: tuple[str, ...] = ()


def label_columns(glance: Glance) -> Columns | None:
    """Return the columns of labelled texts, or None: a column with the name of labels, or with values that
    come again and again.
    """
    named = glance.shape == "jsonl"
    heads = {column: column.name if named else next(iter(column.sample), "") for column in glance.columns}
    known = {column: head.strip().lower() for column, head in heads.items()}
    header = all(head.isidentifier() for head in known.values()) and len(set(known.values())) == len(known)
    for label in (column for column in glance.columns if header and known[column] in LABELS):
        others = [column for column in glance.columns if column is not label]
        if others and label.distinct <= max(glance.rows // 2, 3):
            text = min(others, key=lambda column: (known[column] not in TEXTS, -column.words))
            names = set(known.values())
            several = next((pair for pair in SEVERAL if names.issuperset(pair)), ())
            return Columns(text, label, True, f"{heads[label]} is a name of labels", several)
    if glance.width != 2:
        return None
    for label, text in (glance.columns[::-1], glance.columns):
        if label.distinct == 1 < text.distinct and glance.rows >= CONSTANT and label.words < 3:
            return Columns(text, label, False, f"column {label.name} has one value in {glance.rows:,} rows")
    for label, text in (glance.columns, glance.columns[::-1]):
        if label.looks_like_labels(glance.rows) and text.distinct > label.distinct:
            values = pluralize(label.distinct, "value")
            return Columns(text, label, False, f"column {label.name} has {values} in {glance.rows:,} rows")
    return None


def unlabelled(path: str, data: DataConfig, labels: Container[Any]) -> Rows[str] | None:
    """Return the texts in JSON lines, a table or a folder, for predictions: labels may be absent. None for a
    file with a text on each line, and if it is not clear which column has the texts.
    """
    if os.path.isdir(path):
        return partial(_texts_in, path, data)
    if ending(path) in OBJECTS:

        def parse(value: dict[str, Any], place: Place, report: ReadReport) -> str:
            return cleaned(text_under(value, key, TEXTS, place) or "", place, data.on_bad_bytes, report)

        key = name_of(data) or TEXTS[0]
        return rows_of_objects(path, data, parse, "")
    table = open_table(path, data, TEXTS, LABELS)
    if table is None:
        return None
    found = label_columns(table.glance)
    return table.texts(lambda column: column is (found and found.label) or _are_labels(column, labels))


def _texts_in(folder: str, data: DataConfig, report: ReadReport) -> Iterator[tuple[Place, str]]:
    """Yield the texts in the sub-folders of a folder; without these, those in the folder itself."""
    files = _texts_at(folder, "*/*") or _texts_at(folder, "*")
    if not files:
        raise InputError(f"{folder} has no text files; expected NAME.txt or LABEL/NAME.txt")
    for file in files:
        yield Place(str(file), 1), _whole_text(file, Decoding(data.encoding, data.on_bad_bytes), report)


def _are_labels(column: ColumnGlance, labels: Container[Any]) -> bool:
    """Whether most cells of a column are labels of the training data."""
    known = sum(cell.strip() in labels for cell in column.sample)
    return known >= MOSTLY * len(column.sample) and column.words < 3


def bare_text(line: str, labels: Container[Any], key: str | None = None) -> str:
    """Return the text of a line for a prediction, without a label: that of a JSON object under `key` or a
    usual name, of fastText, or in another column.
    """
    value = object_in(line)
    found = None if value is None else text_under(value, key, TEXTS, LINE)
    if found is not None:
        return cleaned(found, LINE, "replace", ReadReport())
    cells = line.split("\t")
    if len(cells) == 2 and cells[1].strip() in labels:
        return cells[0]
    if len(cells) == 2 and cells[0].strip() in labels:
        return cells[1]
    if line.startswith(MARK):
        return " ".join(word for word in line.split() if not word.startswith(MARK))
    return line


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return re.sub(r"[\r\n]+", " ", text)


def is_marked(glance: Glance) -> bool:
    """Whether the lines begin with the labels of fastText."""
    if glance.shape != "text" or glance.width != 1:
        return False
    (lines,) = glance.columns
    return sum(line.startswith(MARK) for line in lines.sample) >= 0.99 * max(len(lines.sample), 1)


def open_labelled(paths: Sequence[str], data: DataConfig) -> LabelledFiles:
    """Open labelled texts of any layout."""
    if not paths:
        raise ConfigError("no file to read; name one")
    if any(Path(path).is_dir() for path in paths):
        return LabelFolder(tuple(paths), data)
    decoding = Decoding(data.encoding, "replace", data.max_line)
    head = [line for line in first_lines(Input(paths[0]), decoding)[1] if line.strip()]
    if head and sum(line.startswith(MARK) for line in head) >= 0.99 * len(head):
        return MarkedLines(tuple(paths), data)
    return LabelTable(tuple(paths), data)


@dataclass(frozen=True)
class LabelledFiles(OpenedFiles):
    """Files of labelled texts."""

    @abstractmethod
    def read(self, report: ReadReport) -> Iterator[Labelled]: ...


@dataclass(frozen=True)
class LabelTable(LabelledFiles):
    """Rows of a text and a label."""

    @cached_property
    def pairs(self) -> PairFiles:
        data = self.data
        columns = data.columns or self._found()
        evidence = "requested" if data.columns else "the text and the label"
        if len(parse_columns(columns).source) > 1:
            raise ConfigError(f"columns {columns!r} name several texts; name one, as in text:label")
        options = FormatOptions(data.format, data.delimiter, data.header, columns, data.quoting, evidence)
        rules = SkipRules(data.skip_bad_rows, ENDLESS, (Reason.BLANK_TEXT, Reason.BLANK_LABEL))
        return PairFiles(self.paths, options=options, decoding=self.decoding, rules=rules)

    def _found(self) -> str:
        """Return the columns as `text:label`, by their names if there is a header."""
        glance = look_at(self.paths, self.data)
        found = None if glance is None else label_columns(glance)
        if found is not None and found.several:
            texts = " and ".join(found.several)
            raise InputError(
                f"{self.name} has two texts per label, {texts}; a classifier reads one: join them into one "
                f"column, or choose one, as in --columns {found.several[0]}:{_key(found.label)}"
            )
        if found is not None:
            return f"{_key(found.text)}:{_key(found.label)}"
        if glance is not None and glance.width == 2:
            return ":".join(column.name for column in glance.columns)
        names = "" if glance is None else f" ({glance.names})"
        raise InputError(
            f"{self.name}: it is not clear which columns{names} have texts and labels; name them, as in "
            "--columns text:label or --columns 2:1"
        )

    @property
    def form(self) -> tuple[str, ...]:
        return self.pairs.form

    @property
    def columns(self) -> str | None:
        columns = self.pairs.sniffed.columns
        keys = "1:2" if columns is None else ":".join(columns.keys)
        return None if keys == "1:2" else keys  # the order without any other evidence

    def read(self, report: ReadReport) -> Iterator[Labelled]:
        for text, label, place in self.pairs.read(report):
            yield Labelled(text, label.strip(), place)


@dataclass(frozen=True)
class MarkedLines(LabelledFiles):
    """Lines of fastText: `__label__NAME text`. Of several labels the first one counts."""

    form = (f"lines that begin with {MARK}NAME (fastText)",)

    def read(self, report: ReadReport) -> Iterator[Labelled]:
        for path in self.paths:
            for place, line in self.lines(path, report):
                yield from self._labelled(line, place, report)

    def _labelled(self, line: str, place: Place, report: ReadReport) -> Iterator[Labelled]:
        label, *words = line.split() or [""]
        words = [word for word in words if not word.startswith(MARK)]
        if not line.strip():
            report.add(Reason.BLANK_PAIR, place)
        elif not label.startswith(MARK) or label == MARK:
            fault = f"{place}: the line does not begin with {MARK}NAME"
            if not self.data.skip_bad_rows:
                raise InputError(f"{fault}; fix it, or skip such lines with data.skip_bad_rows=true")
            report.add(Reason.BAD_ROW, place, fault)
        elif not words:
            report.add(Reason.BLANK_TEXT, place)
        else:
            yield Labelled(" ".join(words), label.removeprefix(MARK), place)


@dataclass(frozen=True)
class LabelFolder(LabelledFiles):
    """A folder with a sub-folder of text files for each label. Line breaks become spaces."""

    @property
    def form(self) -> tuple[str, ...]:
        files = [file for path in self.paths for file in _texts_by_label(path)]
        labels = pluralize(len({file.parent.name for file in files}), "sub-folder")
        unlabelled = [
            f"{name} is not a label: ignored"
            for name in UNLABELLED
            if any(Path(path, name).is_dir() for path in self.paths)
        ]
        return (f"{pluralize(len(files), 'text file')} in {labels}, one per label", *unlabelled)

    def read(self, report: ReadReport) -> Iterator[Labelled]:
        for file in (file for path in self.paths for file in _texts_by_label(path)):
            place = Place(str(file), 1)
            text = _whole_text(file, self.decoding, report)
            if text.strip():
                yield Labelled(text, file.parent.name, place)
            else:
                report.add(Reason.BLANK_TEXT, place)


def _texts_by_label(folder: str) -> list[Path]:
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is not a folder; name folders only, or files only")
    labelled = [file for file in _texts_at(folder, "*/*") if file.parent.name not in UNLABELLED]
    if not labelled:
        raise InputError(f"{folder} has no text files in sub-folders; expected LABEL/NAME.txt")
    return labelled


def _texts_at(folder: str, pattern: str) -> list[Path]:
    return sorted(file for file in Path(folder).glob(pattern) if is_text(str(file)) and file.is_file())


def _whole_text(file: Path, decoding: Decoding, report: ReadReport) -> str:
    blocks = read_blocks(Input(file), decoding, report)
    return " ".join(line for _, block in blocks for line in block)


def _key(column: ColumnGlance) -> str:
    """Return the name of a column in its header; without one, its number."""
    first = next(iter(column.sample), "").strip()
    return first if column.name.isdecimal() and first.lower() in (*LABELS, *TEXTS) else column.name

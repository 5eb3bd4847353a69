"""Texts with labels: tables (TSV, CSV, JSONL), lines of fastText, and folders with a sub-folder per label.

A table may have two texts per label, such as a premise and a hypothesis: they are the fields of one text
(`seqwright.data.fields`). Which column has the labels is decided by its name, or by its values in the whole
file: files are often sorted by label.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from seqwright.config import DataConfig
from seqwright.data.fields import join_texts, plain
from seqwright.data.glance import UNLABELLED, ColumnGlance, Glance, look_at
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.columns import parse_columns
from seqwright.data.readers.files import Input, is_text
from seqwright.data.readers.jsonl import MISSING, names_in, value_under
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
    keys_of,
    name_of,
    object_in,
    open_table,
    rows_of_objects,
    text_under,
)
from seqwright.data.text_display import excerpt, pluralize, shorten_list
from seqwright.errors import ConfigError, InputError

LABELS = (  # names of columns
    *("label", "labels", "class", "category", "sentiment", "intent"),
    *("topic", "emotion", "polarity", "rating", "stars", "language"),
    *("gold_label", "is_duplicate"),
)
TEXTS = (
    *("text", "sentence", "review", "content", "body", "question", "document"),
    *("tweet", "comment", "utterance", "query", "message", "title"),
)
PAIRS = (  # names of the two texts of one example
    *(("sentence1", "sentence2"), ("question1", "question2"), ("text1", "text2")),
    *(("text_a", "text_b"), ("sentence_a", "sentence_b"), ("premise", "hypothesis")),
)
UNNAMED = ("text1", "text2")  # names of two texts whose columns are given by number
MARK = "__label__"  # of fastText: `__label__sports the match ended`
CONSTANT = 20  # rows from which on a column of one value is a label, which training refuses
ENDLESS = 1 << 62  # texts are cut when they are encoded, not left out


class Labelled(NamedTuple):
    """A text, or two as its fields, the label (None for an input without one), and where it comes from."""

    text: str
    label: str | None
    place: Place


class Columns(NamedTuple):
    """The columns of one or two texts and of the label in a glance, and why."""

    texts: tuple[ColumnGlance, ...]
    label: ColumnGlance
    named: bool
    reason: str


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
            reason, columns = f"{heads[label]} is a name of labels", {known[each]: each for each in others}
            if pair := next((pair for pair in PAIRS if columns.keys() >= set(pair)), None):
                first, second = (columns[name] for name in pair)
                reason += f", {heads[first]} and {heads[second]} are names of two texts"
                return Columns((first, second), label, True, reason)
            text = min(others, key=lambda column: (known[column] not in TEXTS, -column.words))
            return Columns((text,), label, True, reason)
    if glance.width != 2:
        return None
    for label, text in (glance.columns[::-1], glance.columns):
        if label.distinct == 1 < text.distinct and glance.rows >= CONSTANT and label.words < 3:
            reason = f"column {label.name} has one value in {glance.rows:,} rows"
            return Columns((text,), label, False, reason)
    for label, text in (glance.columns, glance.columns[::-1]):
        if label.looks_like_labels(glance.rows) and text.distinct > label.distinct:
            values = pluralize(label.distinct, "value")
            reason = f"column {label.name} has {values} in {glance.rows:,} rows"
            return Columns((text,), label, False, reason)
    return None


def pair_of(data: DataConfig) -> tuple[str, str] | None:
    """Return the names of the two texts per label that `data.columns` names; None for one text."""
    keys = keys_of(data)
    if len(keys) != 2:
        return None
    return UNNAMED if any(key.isdecimal() for key in keys) else (keys[0], keys[1])


def unlabelled(path: str, data: DataConfig, labels: Container[Any]) -> Rows[str] | None:
    """Return the texts in JSON lines, a table or a folder, for predictions: labels may be absent. None for a
    file with a text on each line, and if it is not clear which column has the texts.
    """
    pair, key = pair_of(data), name_of(data) or TEXTS[0]
    if os.path.isdir(path):
        if pair is not None:
            rule = f"the model reads two texts, {pair[0]} and {pair[1]}"
            raise InputError(
                f"{path} is a folder with a text in each file; {rule}: name a table or JSON lines"
            )
        return partial(_texts_in, path, data)
    if ending(path) in OBJECTS:

        def parse(value: dict[str, Any], place: Place, report: ReadReport) -> str:
            if pair is None:
                return cleaned(text_under(value, key, TEXTS, place) or "", place, data.on_bad_bytes, report)
            texts = texts_under(value, pair, place)
            return join_texts([cleaned(text, place, data.on_bad_bytes, report) for text in texts])

        return rows_of_objects(path, data, parse, "")
    names = TEXTS if pair is None else [name for each in PAIRS for name in each]
    table = open_table(path, data, names, LABELS)
    if table is None:
        return None
    found = label_columns(table.glance)

    def is_label(column: ColumnGlance) -> bool:
        return column is (found and found.label) or _are_labels(column, labels)

    return table.texts(is_label) if pair is None else table.pairs(PAIRS, is_label)


def texts_under(value: Mapping[str, Any], names: tuple[str, str], place: Place) -> list[str]:
    """Return the two texts of an object: under the names of training, or under usual ones."""
    table = dict(value)
    for pair in (names, *PAIRS):
        found = [value_under(table, name) for name in pair]
        if all(isinstance(text, str) for text in found):
            return found
        if not any(text is MISSING for text in found):
            break
    keys = shorten_list(names_in(table)) or "none"
    raise InputError(
        f"{place}: the keys are {keys}; the model reads two texts, under {names[0]!r} and {names[1]!r}"
    )


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


def bare_pair(line: str, labels: Container[Any], names: tuple[str, str]) -> str:
    """Return the two texts of a line for a prediction, without a label: those of a JSON object, or in two
    cells.
    """
    if not line.strip():
        return ""
    value = object_in(line)
    if value is not None:
        texts = texts_under(value, names, LINE)
        return join_texts([cleaned(text, LINE, "replace", ReadReport()) for text in texts])
    cells = line.split("\t")
    if len(cells) == 3:
        cells = (
            cells[:2] if cells[2].strip() in labels else cells[1:] if cells[0].strip() in labels else cells
        )
    if len(cells) != 2:
        raise InputError(
            f"{excerpt(line)} has {pluralize(len(cells), 'text')}; the model reads two: write {names[0]}, a "
            f"tab and {names[1]}, or a JSON object with these keys"
        )
    return join_texts(list(map(plain, cells)))


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
    opened: type[LabelledFiles] = LabelTable
    if any(Path(path).is_dir() for path in paths):
        opened = LabelFolder
    else:
        decoding = Decoding(data.encoding, "replace", data.max_line)
        head = [line for line in first_lines(Input(paths[0]), decoding)[1] if line.strip()]
        if head and sum(line.startswith(MARK) for line in head) >= 0.99 * len(head):
            opened = MarkedLines
    if opened is not LabelTable and pair_of(data):
        rule = f"columns {data.columns!r} name two texts"
        raise InputError(f"{', '.join(paths)} has one text per label, but {rule}; leave the columns out")
    return opened(tuple(paths), data)


@dataclass(frozen=True)
class LabelledFiles(OpenedFiles):
    """Files of labelled texts."""

    @abstractmethod
    def read(self, report: ReadReport) -> Iterator[Labelled]: ...


@dataclass(frozen=True)
class LabelTable(LabelledFiles):
    """Rows of one or two texts and a label."""

    @cached_property
    def pairs(self) -> PairFiles:
        data = self.data
        columns = data.columns or self._found()
        texts = parse_columns(columns).source
        two = len(texts) == 2
        evidence = "requested" if data.columns else f"the {'two texts' if two else 'text'} and the label"
        if len(texts) > 2 or (two and any(text.kind == "symbols" for text in texts)):
            rule = "a classifier reads one or two texts"
            raise ConfigError(
                f"columns {columns!r}: {rule}; write them as in text:label or text1,text2:label"
            )
        options = FormatOptions(
            data.format, data.delimiter, data.header, columns, data.quoting, evidence, texts=two
        )
        rules = SkipRules(data.skip_bad_rows, ENDLESS, (Reason.BLANK_TEXT, Reason.BLANK_LABEL), two)
        return PairFiles(self.paths, options=options, decoding=self.decoding, rules=rules)

    def _found(self) -> str:
        """Return the columns as `text:label` or `text1,text2:label`, by their names if there is a header."""
        glance = look_at(self.paths, self.data)
        found = None if glance is None else label_columns(glance)
        if found is not None:
            return f"{','.join(map(_key, found.texts))}:{_key(found.label)}"
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
        keys = "1:2" if columns is None else f"{','.join(columns.keys[:-1])}:{columns.target.key}"
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
    names = {*LABELS, *TEXTS, *(name for pair in PAIRS for name in pair)}
    return first if column.name.isdecimal() and first.lower() in names else column.name

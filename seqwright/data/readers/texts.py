"""Running text from files and folders: passages of about a thousand characters, in order.

Files are documents, and so are the objects of JSON lines; with `data.documents=blank_lines`, the texts
between blank lines. A text is read in blocks, so that neither a file nor a line has to fit into memory. White
space is kept: the passages of a document, one after the other, are the document.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from seqwright.config import DataConfig
from seqwright.data.fields import split_parts
from seqwright.data.glance import look_at
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.files import TEXTS, Input, files_in
from seqwright.data.readers.jsonl import cells_of, parse_object
from seqwright.data.readers.labelled import LABELS, LabelTable, label_columns
from seqwright.data.readers.labelled import TEXTS as NAMES
from seqwright.data.readers.lines import Decoding, OnBadBytes, cleaned, read_blocks, read_text
from seqwright.data.readers.unlabelled import (
    OBJECTS,
    TABLES,
    Rows,
    ending,
    name_of,
    open_table,
    rows_of_objects,
)
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import InputError

PASSAGE = 1000  # characters, at most
BREAKS = ("\n\n", "\n", " ")  # where a passage ends, the best place first
FIELD = "text"  # of a JSON object
LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Passage(NamedTuple):
    """A part of a document, the text right before it, and whether the document ends with it."""

    text: str
    before: str
    ends: bool
    place: Place


@dataclass(frozen=True)
class TextFiles:
    """Files, and folders of them, as passages; of a folder only the files that end like a text.

    A table with a column of labels gives its texts, so that a model can learn from them before it learns the
    labels.
    """

    paths: tuple[str, ...]
    decoding: Decoding
    key: str = FIELD
    columns: str | None = None
    by_blank_lines: bool = False

    @property
    def name(self) -> str:
        return ", ".join(self.paths)

    @cached_property
    def files(self) -> list[str]:
        found = [file for path in self.paths for file in _texts_in(path)]
        if not found:
            endings = shorten_list([*TEXTS, *OBJECTS])
            raise InputError(f"{self.name} has no files that end in {endings}; name the text files")
        return found

    @property
    def form(self) -> tuple[str, ...]:
        objects = any(map(_has_objects, self.files))
        documents = f'each "{self.key}" of a JSON object' if objects else "each file"
        kept = "line ends and blank lines are"
        if self.by_blank_lines:
            documents, kept = "each text between blank lines", "line ends are"
        several = [] if self.files == list(self.paths) else [pluralize(len(self.files), "file")]
        ignored = len(files_in(self.paths)) - len(self.files)
        several += [f"{pluralize(ignored, 'file')} of other kinds ignored"] if ignored else []
        if all(self.tables.values()):
            return (*several, "a table of texts and labels: each text is a document, labels are not read")
        return (*several, f"{documents} is a document; {kept} part of the text", *self._divided)

    @property
    def _divided(self) -> tuple[str, ...]:
        """What blank lines divide the beginning of the first text into, and the option to use it."""
        texts = [file for file in self.files if not _has_objects(file)]
        if self.by_blank_lines or not texts:
            return ()
        _, beginning = next(read_text(Input(texts[0]), self.decoding, ReadReport()), (1, ""))
        count = sum(1 for _ in _documents([(1, beginning)]))
        if count < 2:
            return ()
        found = f"blank lines divide its first {len(beginning):,} characters into {count:,} texts"
        return (f"{found}: if these are documents of their own, set data.documents=blank_lines",)

    @property
    def named_twice(self) -> str | None:
        return next((path for path in self.paths if self.paths.count(path) > 1), None)

    @cached_property
    def tables(self) -> dict[str, LabelTable | None]:
        """The reader of each file that is a table of texts and labels."""
        return {file: _table(file, self.decoding) for file in self.files}

    def read(self, report: ReadReport) -> Iterator[Passage]:
        for file in self.files:
            table = self.tables[file]
            if table is not None:
                for source, _, place in table.read(report):
                    for text in split_parts(source)[::2]:
                        yield from _passages([(place.line, text)], file, report)
            elif _has_objects(file):
                yield from self._objects(Input(file), report)
            else:
                blocks = read_text(Input(file), self.decoding, report)
                for document in _documents(blocks) if self.by_blank_lines else [blocks]:
                    yield from _passages(document, file, report)

    def _objects(self, file: Input, report: ReadReport) -> Iterator[Passage]:
        for number, lines in read_blocks(file, self.decoding, report):
            for row, line in enumerate(lines, number):
                if line.strip():
                    place = Place(file.name, row)
                    (text,) = cells_of(parse_object(line, place), [self.key], place)
                    text = _clean(text, place, self.decoding.on_bad_bytes, report)
                    yield from _passages([(row, text)], file.name, report)


def open_texts(paths: Sequence[str], data: DataConfig) -> TextFiles:
    """Return the texts in `paths`, with the encoding of a configuration; `data.columns` names a JSON key."""
    decoding = Decoding(data.encoding, data.on_bad_bytes, data.max_line)
    by_blank_lines = data.documents == "blank_lines"
    return TextFiles(tuple(paths), decoding, data.columns or FIELD, data.columns, by_blank_lines)


def prompts(path: str, data: DataConfig) -> Rows[str] | None:
    """Return the texts in JSON lines or in a table, for predictions. None for a file with a text on each
    line, and if it is not clear which column has the texts.
    """
    if os.path.isfile(path) and _has_objects(path):

        def parse(value: dict[str, Any], place: Place, report: ReadReport) -> str:
            (text,) = cells_of(value, [name_of(data) or FIELD], place)
            return _clean(text, place, data.on_bad_bytes, report)

        return rows_of_objects(path, data, parse, "")
    table = open_table(path, data, NAMES, LABELS) if ending(path) in TABLES else None
    if table is None:
        return None
    found = label_columns(table.glance)
    return table.texts(lambda column: column is (found and found.label))


def _clean(text: str, place: Place, on_bad_bytes: OnBadBytes, report: ReadReport) -> str:
    """Return a text of several lines without characters that a line cannot hold."""
    return "\n".join(cleaned(line, place, on_bad_bytes, report) for line in text.split("\n"))


def _texts_in(path: str) -> list[str]:
    if not Path(path).is_dir():
        return [path]
    return [file for file in files_in([path]) if ending(file) in (*TEXTS, *OBJECTS)]


def _has_objects(file: str) -> bool:
    """Whether a file has JSON lines: by its ending, or because it begins like an object and is not a text."""
    if ending(file) in (*TEXTS, *OBJECTS):
        return ending(file) in OBJECTS
    return next(Input(file).peek(), b"").lstrip()[:2] in (b'{"', b"{ ")


def _table(file: str, decoding: Decoding) -> LabelTable | None:
    """Return the reader of a table of texts and labels, recognised by its ending and its columns."""
    if ending(file) not in TABLES:
        return None
    data = DataConfig(
        encoding=decoding.encoding, on_bad_bytes=decoding.on_bad_bytes, max_line=decoding.max_line
    )
    glance = look_at((file,), data)
    return LabelTable((file,), data) if glance is not None and label_columns(glance) is not None else None


def _documents(blocks: Iterable[tuple[int, str]]) -> Iterator[Iterator[tuple[int, str]]]:
    """Divide a text at blank lines: yield the lines of each document with their numbers."""
    lines = ((number + k, line) for number, block in blocks for k, line in enumerate(LINES.findall(block)))
    for blank, document in groupby(lines, key=lambda each: not each[1].strip()):
        if not blank:
            yield document


def _passages(blocks: Iterable[tuple[int, str]], file: str, report: ReadReport) -> Iterator[Passage]:
    """Yield the passages of one document, given in blocks with their first lines; a blank one is skipped."""
    rest, before, blank, line = "", "", True, 0
    for number, block in blocks:
        line = line or number
        text, start = rest + block, 0
        while len(text) - start > PASSAGE:
            end = _end(text, start)
            passage = text[start:end]
            yield Passage(passage, before, False, Place(file, line))
            line, before, start = line + passage.count("\n"), passage, end
        rest, blank = text[start:], blank and not block.strip()
    if blank:
        report.add(Reason.BLANK_TEXT, Place(file, line or 1))
    elif rest:
        yield Passage(rest, before, True, Place(file, line))


def _end(text: str, start: int) -> int:
    """Return where a passage that starts there ends: after a line, before a space, or anywhere."""
    least, most = start + PASSAGE // 2, start + PASSAGE
    for mark in BREAKS:
        place = text.rfind(mark, least, most)
        if place >= 0:
            return place if mark == " " else place + len(mark)
    return most

"""Sentences with a tag for each word: CoNLL columns, CoNLL-U, lines of words and tags, and JSON lines.

The tags of entities are made valid while they are read; the report counts the sentences that change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from seqwright.data.glance import ColumnGlance, Glance
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.columns import unknown_name
from seqwright.data.readers.conll import (
    FIELDS,
    Line,
    column_rows,
    conllu_rows,
    is_columns,
    is_conllu,
    sentence_blocks,
)
from seqwright.data.readers.files import Input
from seqwright.data.readers.jsonl import MISSING, parse_object, value_under
from seqwright.data.readers.lines import Decoding, OnBadBytes, cleaned, first_lines
from seqwright.data.readers.opened import OpenedFiles
from seqwright.data.readers.pairs import PairFiles, SkipRules
from seqwright.data.readers.parses import HEAD_COLUMN, tree_of
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.data.readers.unlabelled import MOSTLY, OBJECTS, Rows, ending, open_table, rows_of_objects
from seqwright.data.tag_scheme import Scheme, repaired, scheme_of
from seqwright.data.text_display import pluralize
from seqwright.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seqwright.config import DataConfig

UPOS = "upos"  # the field of CoNLL-U that is read by default
WORDS = ("tokens", "words", "sentence", "text")  # names of columns and of keys
TAGS = ("tags", "ner_tags", "pos_tags", "chunk_tags", "labels")
MOST_TAGS = 100
PARTLY = 0.99  # share of the lines that have as many words as tags
ENDLESS = 1 << 62  # a sentence of any length is read
FIX = "fix it, or skip such sentences with data.skip_bad_rows=true"


class Tagged(NamedTuple):
    """Words, their tags (None for an input without them), where the sentence begins, whether the file has a
    word on each line, and the head of each word, counted from 1; 0: the root. None: no dependency tree.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    place: Place
    in_column: bool = False
    heads: tuple[int, ...] | None = None


def evidence_of_tags(glance: Glance) -> tuple[int, str] | None:
    """Return the tier of a claim and its evidence, or None."""
    if glance.shape == "jsonl":
        names = {column.name for column in glance.columns}
        words, tags = (next((name for name in usual if name in names), None) for usual in (WORDS, TAGS))
        listed = {column.name for column in glance.columns if _are_lists(column.sample)}
        if words in listed and tags in listed:
            return 2, f'JSON objects with the lists "{words}" and "{tags}"'
        return None
    blocks = glance.blocks
    if blocks is not None and blocks.numbered:
        return 5, f"CoNLL-U, {pluralize(blocks.count, 'sentence')}"
    if blocks is not None and blocks.width >= 2 and 1 < blocks.last <= MOST_TAGS:
        tags = pluralize(blocks.last, "tag")
        return 5, f"CoNLL, {pluralize(blocks.count, 'block')} of lines with {blocks.width} columns, {tags}"
    if glance.shape == "tsv" and glance.width == 2 and _are_parallel(*(c.sample for c in glance.columns)):
        return 7, "as many words in column 1 as tags in column 2"
    return None


def _are_lists(cells: Sequence[str]) -> bool:
    return bool(cells) and all(cell.startswith("[") for cell in cells)


def _are_parallel(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether cells have equally many parts, and those of the second column are few and no words."""
    rows = [(one.split(), other.split()) for one, other in zip(words, tags, strict=False)]
    whole = [row for row in rows if max(map(len, map(" ".join, row))) < 190]  # a glance cuts long cells
    equal = sum(len(one) == len(other) for one, other in whole)
    known, marks = ({part for row in whole for part in row[side]} for side in (0, 1))
    several = sum(len(one) for one, _ in whole) >= 2 * len(whole)
    few = 2 <= len(marks) <= min(MOST_TAGS, len(known) // 2)
    return bool(whole) and equal >= PARTLY * len(whole) and several and few and not known & marks


def untagged(path: str, data: DataConfig, tags: Container[Any]) -> Rows[tuple[str, ...]] | None:
    """Return the words in JSON lines or in a table, for predictions: tags may be absent. None for CoNLL, and
    for a file with a sentence on each line.
    """
    if ending(path) in OBJECTS:

        def parse(value: dict[str, Any], place: Place, report: ReadReport) -> tuple[str, ...]:
            return words_in_object(value, place, data.on_bad_bytes, report)

        return rows_of_objects(path, data, parse, ())
    _, head = first_lines(Input(path), Decoding(data.encoding, "replace", data.max_line))
    table = None if is_columns(head) or is_conllu(head) else open_table(path, data, WORDS, TAGS)
    if table is None:
        return None

    def are_tags(column: ColumnGlance) -> bool:
        marks = [mark for cell in column.sample for mark in cell.split()]
        return sum(mark in tags for mark in marks) >= MOSTLY * len(marks)

    rows = table.texts(are_tags)
    return rows and (lambda report: ((place, tuple(text.split())) for place, text in rows(report)))


def words_in_object(
    value: dict[str, Any], place: Place, on_bad_bytes: OnBadBytes, report: ReadReport
) -> tuple[str, ...]:
    """Return the words of a JSON object: a list, or a text that is divided at its spaces."""
    name = next((name for name in WORDS if name in value), None)
    if name is None:
        raise InputError(
            f"{place}: {unknown_name('key', WORDS[0], list(value))}; the words are expected there"
        )
    return tuple(_listed(value, name, place, on_bad_bytes, report))


def _listed(
    value: dict[str, Any], name: str, place: Place, on_bad_bytes: OnBadBytes, report: ReadReport
) -> list[str]:
    """Return a list of texts or numbers, as clean texts."""
    found = value_under(value, name)
    found = found.split() if isinstance(found, str) else found
    if not isinstance(found, list) or not all(type(each) in (str, int) for each in found):
        raise InputError(f"{place}: expected a list of texts under {name!r}")
    texts = [cleaned(str(each), place, on_bad_bytes, report).strip() for each in found]
    if not all(texts):
        raise InputError(f"{place}: a text in the list under {name!r} is blank")
    return texts


def open_tagged(paths: Sequence[str], data: DataConfig) -> TaggedFiles:
    """Open tagged sentences of any layout, found by the first lines of the first file."""
    if not paths:
        raise ConfigError("no file to read; name one")
    _, head = first_lines(Input(paths[0]), Decoding(data.encoding, "replace", data.max_line))
    full = [line for line in head if line.strip()]
    if full and all(line.lstrip().startswith("{") for line in full):
        return TagObjects(tuple(paths), data)
    if is_conllu(full):
        return ConlluFiles(tuple(paths), data)
    if is_columns(head) or not any("\t" in line or "," in line for line in full):
        return ColumnFiles(tuple(paths), data)
    return TagTable(tuple(paths), data)


@dataclass(frozen=True)
class TaggedFiles(OpenedFiles):
    """Files of tagged sentences."""

    @abstractmethod
    def sentences(self, report: ReadReport) -> Iterator[Tagged]:
        """Yield the sentences as they are in the files."""

    @cached_property
    def scheme(self) -> Scheme | None:
        """The scheme of the tags in all files, if they mark entities."""
        found: set[str] = set()
        for example in self.sentences(ReadReport()):
            found.update(example.tags or ())
            if scheme_of(found) is None and found - {"O"}:
                return None
        return scheme_of(found)

    def read(self, report: ReadReport) -> Iterator[Tagged]:
        scheme, empty = self.scheme, True
        for example in self.sentences(report):
            empty = False
            valid = None if scheme is None else repaired(example.tags or (), scheme)
            if valid is not None and valid != example.tags:
                report.add(Reason.BROKEN_ENTITY, example.place)
            yield example if valid is None else example._replace(tags=valid)
        if empty:
            skipped = [line for line in report.summary() if " skipped: " in line]
            raise InputError(f"{self.name} has no sentences: {'; '.join(skipped) or 'it is empty'}")

    def _bad(self, place: Place, fault: str, report: ReadReport) -> None:
        """Refuse a sentence, or count it."""
        if not self.data.skip_bad_rows:
            raise InputError(f"{fault}; {FIX}")
        report.add(Reason.BAD_ROW, place, fault)

    def _tagged(
        self, words: Sequence[str], tags: Sequence[str], place: Place, report: ReadReport
    ) -> Iterator[Tagged]:
        """Yield a sentence if it has words and as many tags."""
        if len(words) != len(tags):
            counts = f"{pluralize(len(words), 'word')} and {pluralize(len(tags), 'tag')}"
            self._bad(place, f"{place}: {counts}; each word needs one tag", report)
        elif words:
            yield Tagged(tuple(words), tuple(tags), place)
        else:
            report.add(Reason.BLANK_TEXT, place)


@dataclass(frozen=True)
class ConllFiles(TaggedFiles):
    """Sentences with a word on each line."""

    def sentences(self, report: ReadReport) -> Iterator[Tagged]:
        for path in self.paths:
            for block in sentence_blocks(self.lines(path, report)):
                try:
                    sentence = self._sentence(block)
                except InputError as error:
                    self._bad(block[0][0], str(error), report)
                else:
                    if sentence.words:
                        yield sentence

    @abstractmethod
    def _sentence(self, block: Sequence[Line]) -> Tagged:
        """Return the sentence of a block of lines."""


@dataclass(frozen=True)
class ConlluFiles(ConllFiles):
    """CoNLL-U. Ranges and empty nodes are not words."""

    @cached_property
    def field(self) -> int:
        name = (self.data.field or UPOS).lower()
        if name not in FIELDS[2:]:
            raise ConfigError(f"field is {self.data.field!r}; CoNLL-U has {', '.join(FIELDS[2:])}")
        return FIELDS.index(name)

    @property
    def form(self) -> tuple[str, ...]:
        return (f"CoNLL-U: the tags are those of the field {FIELDS[self.field]}; --field changes it",)

    def _sentence(self, block: Sequence[Line]) -> Tagged:
        rows = [row.cells for row in conllu_rows(block) if row.is_word]
        words, tags = (tuple(row[column] for row in rows) for column in (1, self.field))
        return Tagged(words, tags, block[0][0], heads=tree_of([row[HEAD_COLUMN] for row in rows]))


@dataclass(frozen=True)
class ColumnFiles(ConllFiles):
    """CoNLL columns: words in the first, tags in the last or in that of `data.field`."""

    @cached_property
    def width(self) -> int:
        """The number of columns of the first word of the first file."""
        for path in self.paths:
            for block in sentence_blocks(self.lines(path, ReadReport())):
                for _, cells in column_rows(block[:1]):
                    return len(cells)
        return 2

    @cached_property
    def column(self) -> int:
        name = self.data.field or str(self.width)
        if not name.isdecimal() or not 2 <= int(name) <= self.width:
            raise ConfigError(
                f"{self.name} has {pluralize(self.width, 'column')}, and the field of the tags is {name!r}; "
                "it must be the number of a column after the first, which has the words"
            )
        return int(name) - 1

    @property
    def form(self) -> tuple[str, ...]:
        return (f"CoNLL: words in column 1, tags in column {self.column + 1} of {self.width}",)

    def _sentence(self, block: Sequence[Line]) -> Tagged:
        rows = [cells for _, cells in column_rows(block, self.width)]
        words, tags = (tuple(row[column].strip() for row in rows) for column in (0, self.column))
        return Tagged(words, tags, block[0][0])


@dataclass(frozen=True)
class TagTable(TaggedFiles):
    """Lines of words and tags, both separated by spaces, in two columns (TSV or CSV)."""

    @cached_property
    def pairs(self) -> PairFiles:
        data = self.data
        evidence = "requested" if data.columns else "the words and the tags"
        columns = data.columns or "1:2"
        options = FormatOptions(data.format, data.delimiter, data.header, columns, data.quoting, evidence)
        rules = SkipRules(data.skip_bad_rows, ENDLESS, (Reason.BLANK_TEXT, Reason.BLANK_LABEL))
        return PairFiles(self.paths, options=options, decoding=self.decoding, rules=rules)

    @property
    def form(self) -> tuple[str, ...]:
        return (*self.pairs.form, "words and tags are separated by spaces")

    def sentences(self, report: ReadReport) -> Iterator[Tagged]:
        for words, tags, place in self.pairs.read(report):
            yield from self._tagged(words.split(), tags.split(), place, report)


@dataclass(frozen=True)
class TagObjects(TaggedFiles):
    """JSON lines with a list of words and a list of tags; a text is divided at its spaces."""

    @cached_property
    def keys(self) -> tuple[str, str]:
        """The keys of the words and of the tags in the first object."""
        for path in self.paths:
            for place, line in self.lines(path, ReadReport()):
                if line.strip():
                    return self._keys(parse_object(line, place), place)
        raise InputError(f"{self.name} has no sentences: it is empty")

    def _keys(self, value: dict[str, Any], place: Place) -> tuple[str, str]:
        tags = self.data.field or next((name for name in TAGS if name in value), TAGS[0])
        words = next((name for name in WORDS if name in value), WORDS[0])
        for name in (words, tags):
            if value_under(value, name) is MISSING:
                raise InputError(f"{place}: {unknown_name('key', name, list(value))}; --field names the tags")
        return words, tags

    @property
    def form(self) -> tuple[str, ...]:
        words, tags = self.keys
        return (f'JSON lines: words under "{words}", tags under "{tags}"',)

    def sentences(self, report: ReadReport) -> Iterator[Tagged]:
        for path in self.paths:
            for place, line in self.lines(path, report):
                if not line.strip():
                    report.add(Reason.BLANK_PAIR, place)
                    continue
                try:
                    value = parse_object(line, place)
                    words, tags = (
                        _listed(value, name, place, self.data.on_bad_bytes, report) for name in self.keys
                    )
                except InputError as error:
                    self._bad(place, str(error), report)
                else:
                    yield from self._tagged(words, tags, place, report)

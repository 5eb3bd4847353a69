"""Parsed sentences in CoNLL-U: their text, the spans of their words, and their dependency trees."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from seqwright.data.read_report import Pair, Place, ReadReport
from seqwright.data.readers.conll import ConlluRow, Line, conllu_rows, sentence_blocks
from seqwright.data.readers.pairs import PairFiles, read_lines
from seqwright.errors import InputError

Span = tuple[int, int]
HEAD_COLUMN = 6  # column of the heads
logger = logging.getLogger(__name__)
_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class Parse:
    """A parsed sentence: the span of each word, the word that governs it (−1: none), and the relation."""

    text: str
    spans: tuple[Span, ...]
    governors: tuple[int, ...]
    relations: tuple[str, ...]

    @property
    def source(self) -> ParsedSource:
        """The sentence as an input."""
        return ParsedSource(self.text, self)

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """The head of each word, counted from 1; 0: the root. Empty if the arcs are not a tree."""
        return tree_of([str(governor + 1) for governor in self.governors]) or ()

    def words_at(self, text: str, starts: Sequence[int]) -> list[int]:
        """Return the words, counted from 1, at places of a text that has the letters of this sentence, if not
        its spaces. A space belongs to the word behind it; a place behind all words has no word, 0.
        """
        places = np.cumsum([not char.isspace() for char in self.text]) - 1
        owners = np.zeros(len(squeezed(self.text)) + 1, np.int64)
        for number in range(len(self.spans), 0, -1):  # words of a range share a span: the first one owns it
            start, end = self.spans[number - 1]
            owners[places[start] : places[end - 1] + 1] = number
        before = np.cumsum([0, *(not char.isspace() for char in text)])
        return owners[before[list(starts)]].tolist()


class ParsedSource(str):
    """A source with its parse, None if there is none."""

    parse: Parse | None

    def __new__(cls, text: str, parse: Parse | None) -> ParsedSource:
        source = super().__new__(cls, text)
        source.parse = parse
        return source


@dataclass(frozen=True)
class ParsedPairs:
    """Pairs whose sources have the parses in `syntax`, by their text without its spaces."""

    pairs: PairFiles
    syntax: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.pairs.name

    @property
    def form(self) -> tuple[str, ...]:
        return (*self.pairs.form, f"dependency trees of the sources from {', '.join(self.syntax)}")

    @property
    def columns(self) -> str | None:
        return self.pairs.columns

    @property
    def named_twice(self) -> str | None:
        return self.pairs.named_twice

    def read(self, report: ReadReport) -> Iterator[Pair]:
        changed = (os.path.getmtime(path) if os.path.exists(path) else 0.0 for path in self.syntax)
        known = _known(tuple(zip(self.syntax, changed, strict=True)))
        for pair in self.pairs.read(report):
            yield pair._replace(source=ParsedSource(pair.source, known.get(squeezed(pair.source))))


@lru_cache(maxsize=1)
def _known(files: tuple[tuple[str, float], ...]) -> Mapping[str, Parse]:
    """Return the sentences of files by their text without spaces. Data are read several times."""
    return {squeezed(parse.text): parse for path, _ in files for parse in read_conllu(path)}


def squeezed(text: str) -> str:
    """Return a text without its spaces, by which sources and parses are matched."""
    return "".join(text.split())


def tree_of(cells: Sequence[str]) -> tuple[int, ...] | None:
    """Return the head of each word by the cells of the column HEAD_COLUMN; None if they are not a tree."""
    if not all(_NUMBER.fullmatch(cell) and int(cell) <= len(cells) for cell in cells):
        return None
    heads, reached = tuple(map(int, cells)), {0}
    for word in range(1, len(heads) + 1):
        way = dict[int, None]()
        while word not in reached:
            if word in way:
                return None  # a circle
            way[word] = None
            word = heads[word - 1]
        reached |= way.keys()
    return heads


def warn_without_trees(parsed: Iterable[bool], noun: str) -> None:
    """Report training inputs without a tree, for a model whose positions read trees."""
    found = list(parsed)
    if missing := found.count(False):
        every = "no" if missing == len(found) else f"{missing:,} of {len(found):,}"
        verb = f"{noun} has a" if missing == len(found) else f"{noun}s have no"
        logger.warning("%s %s dependency tree; their positions are linear", every, verb)


def read_conllu(path: str | os.PathLike[str]) -> list[Parse]:
    """Return the sentences of a CoNLL-U file."""
    name = os.fspath(path)
    lines = ((Place(name, row), line) for row, line in enumerate(read_lines(path, ReadReport()), start=1))
    parses = [parse_of(block, rows) for block in sentence_blocks(lines) if (rows := conllu_rows(block))]
    if not parses:
        raise InputError(
            f"{name} has no sentences; CoNLL-U has ten columns, and blank lines between sentences"
        )
    return parses


def parse_of(block: Sequence[Line], rows: Sequence[ConlluRow]) -> Parse:
    """Return the sentence of a block of lines, whose rows are `rows`."""
    words = [row for row in rows if row.is_word]
    for place, cells, *_ in words:
        if not _NUMBER.fullmatch(cells[HEAD_COLUMN]) or int(cells[HEAD_COLUMN]) > len(words):
            raise InputError(
                f"{place} has the head {cells[HEAD_COLUMN][:40]!r}, neither a word of the sentence nor 0"
            )
    surface = list(_surface(rows))
    joined = "".join(row.cells[1] + ("" if "SpaceAfter=No" in row.cells[9] else " ") for row, _ in surface)
    named = re.search(r"^# *text *= *(.*)$", "\n".join(line for _, line in block), re.MULTILINE)
    text = named[1].strip() if named else joined.rstrip()
    spans, end = list[Span](), 0
    for row, count in surface:
        form = row.cells[1]
        start = text.find(form, end)
        if start < 0:
            rest = f"the rest of the text, {text[end : end + 40]!r}"
            raise InputError(f"{row.place}: {form[:40]!r} does not occur in {rest}")
        end = start + len(form)
        spans += [(start, end)] * count  # the words of a range share its span
    governors = tuple(int(row.cells[HEAD_COLUMN]) - 1 for row in words)
    return Parse(text, tuple(spans), governors, tuple(row.cells[7].partition(":")[0] for row in words))


def _surface(rows: Sequence[ConlluRow]) -> Iterator[tuple[ConlluRow, int]]:
    """Yield the rows that occur in the text, with their word counts: a range such as 3-4, not its words."""
    last = 0
    for row in rows:
        if not row.empty and row.first > last:
            yield row, row.last - last
            last = row.last

"""CoNLL files: a word on each line, in columns; a blank line ends a sentence.

CoNLL-U (https://universaldependencies.org/format.html) has ten columns and numbers its words. Other files
have the word in the first column, separated from the others by tabs or spaces; a line that begins with
-DOCSTART- is not a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from seqwright.data.read_report import Place
from seqwright.data.text_display import pluralize
from seqwright.errors import InputError

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
DOCUMENT = "-DOCSTART-"
COMMENT = "#"
MOST = 100_000  # lines of a sentence
MOSTLY = 0.9  # share of the first lines by which a file is recognised
_NUMBER = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\.[0-9]+))?")  # a word, a range, or an empty node

Line = tuple[Place, str]


class ConlluRow(NamedTuple):
    """A line of CoNLL-U: a word, a range of words such as 3-4, or an empty node such as 8.1."""

    place: Place
    cells: list[str]
    first: int
    last: int  # of a range
    empty: bool

    @property
    def is_word(self) -> bool:
        return not self.empty and "-" not in self.cells[0]


def sentence_blocks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines between blank lines, in bounded memory."""
    for full, run in groupby(lines, lambda line: bool(line[1].strip())):
        if not full:
            continue
        block = []
        for line in run:
            block.append(line)
            if len(block) > MOST:
                rule = f"the sentence that begins here has more than {MOST:,} lines"
                raise InputError(f"{block[0][0]}: {rule}; end each sentence with a blank line")
        yield block


def conllu_rows(block: Sequence[Line]) -> list[ConlluRow]:
    """Return the rows of a sentence in CoNLL-U without its comments; words must count from 1."""
    rows = []
    for place, line in block:
        if line.startswith(COMMENT):
            continue
        cells = line.split("\t")
        found = _NUMBER.fullmatch(cells[0])
        if len(cells) != len(FIELDS) or found is None:
            raise InputError(f"{place} is not a CoNLL-U row: ten columns with tabs, the first one a number")
        first, last, empty = found.groups()
        rows.append(ConlluRow(place, cells, int(first), int(last or first), bool(empty)))
    words = [row for row in rows if row.is_word]
    for row in rows:
        if not row.empty and not row.is_word and not row.first <= row.last <= len(words):
            rule = f"but the sentence has {len(words)} words"
            raise InputError(f"{row.place} has the range {row.cells[0]}, {rule}")
    for number, row in enumerate(words, start=1):
        if row.first != number:
            rule = f"has the number {row.cells[0]} instead of {number}"
            raise InputError(f"{row.place} {rule}; words count from 1")
    return rows


def column_rows(block: Sequence[Line], width: int | None = None) -> list[tuple[Place, list[str]]]:
    """Return the cells of each word; all lines must have `width` columns, by default those of the first."""
    rows = []
    for place, line in block:
        if line.startswith(DOCUMENT):
            continue
        cells = cells_of(line)
        width = width or len(cells)
        if len(cells) != width or not cells[0].strip():
            columns = pluralize(len(cells), "column")
            rule = f"{columns} instead of {width}" if len(cells) != width else "no word in the first column"
            raise InputError(f"{place}: {rule}")
        rows.append((place, cells))
    return rows


def cells_of(line: str) -> list[str]:
    """Return the cells of a line, separated by tabs or, without one, by spaces."""
    return line.split("\t") if "\t" in line else line.split()


def is_conllu(lines: Sequence[str]) -> bool:
    """Whether lines are those of CoNLL-U: ten columns, and a number in the first; a few may be damaged."""
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith(COMMENT)]
    right = sum(len(row) == len(FIELDS) and bool(_NUMBER.fullmatch(row[0])) for row in rows)
    return bool(rows) and right >= MOSTLY * len(rows)


def is_columns(lines: Sequence[str]) -> bool:
    """Whether lines are words in columns: blank lines between blocks of two or more words on average, and the
    same number of columns in all of them; a few may be damaged.
    """
    if all(line.strip() for line in lines):
        return False
    rows = [line for line in lines if line.strip() and not line.startswith(DOCUMENT)]
    blocks = sum(1 for full, _ in groupby(lines, lambda line: bool(line.strip())) if full)
    widths = Counter(len(cells_of(line)) for line in rows)
    return len(rows) >= 2 * blocks and max(widths.values(), default=0) >= MOSTLY * len(rows) > 0

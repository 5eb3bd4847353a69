"""Sources of one or several fields, as people give them and as a tokenizer reads them.

People give the fields of a source as a tuple, or as one line with tabs between them: ("gehen", "V;PST;3").
What a tokenizer reads is one string with markers in it (`seqwright.data.fields`), as training read it.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from seqwright.data.fields import FIELD, Joined, has_fields, plain, split_parts
from seqwright.data.read_report import Pair
from seqwright.data.readers.columns import Role, parse_columns
from seqwright.data.readers.pairs import source_from_cells
from seqwright.data.text_display import amount
from seqwright.errors import InputError, ModelError

Source = str | tuple[str, ...]

ONE_TEXT: tuple[Role, ...] = ("text",)


def roles_of(columns: str | None) -> tuple[Role, ...]:
    """The fields of a source from `data.columns` of a configuration; a first column is text unless it says
    otherwise.
    """
    if columns is None:
        return ONE_TEXT
    first, *others = (column.role for column in parse_columns(columns).source)
    return ("text" if first == "unsaid" else first, *others)


def source_of(given: Source, roles: Sequence[Role]) -> str:
    """The string that a tokenizer reads. No field may be missing; one that is empty is given as "".

    A string is taken as it is if it was joined before, and if it can be no more than a text.
    """
    if isinstance(given, tuple) and all(isinstance(field, str) for field in given):
        return join_cells(given, roles)
    if not isinstance(given, str):
        raise InputError(
            f"{reprlib.repr(given)} is no source: give a text, a tuple of the texts of its fields, or a list "
            "of several sources"
        )
    if isinstance(given, Joined) or tuple(roles) == ONE_TEXT or has_fields(given):
        return given
    return source_of_line(given, roles)


def sources_of(given: Any, roles: Sequence[Role]) -> list[str]:
    """Of one source, or of several in whatever can be gone through."""
    several = isinstance(given, Iterable) and not isinstance(given, str | tuple | bytes)
    return [source_of(each, roles) for each in (given if several else [given])]


def paths_of(given: Any) -> list[str]:
    """The paths in what may be one path or several; none if it is something else."""
    several = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(several, Sequence) or not all(isinstance(path, str | os.PathLike) for path in several):
        return []
    return [os.fspath(path) for path in several]


def pairs_of(given: Any) -> Iterator[tuple[Source, str]]:
    """The pairs in whatever can be gone through; what is none is refused with its number."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise InputError(f"{reprlib.repr(given)} holds no pairs; give a list of (source, target)")
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given):
        raise InputError(f"{reprlib.repr(given)} is one pair; give a list of pairs")
    for number, pair in enumerate(given, start=1):
        two = isinstance(pair, Pair) or (isinstance(pair, tuple | list) and len(pair) == 2)
        if not two or not isinstance(pair[1], str):
            raise InputError(
                f"pair {number} is {reprlib.repr(pair)}; a pair is a source and a target, as in ('a', 'b')"
            )
        yield pair[0], pair[1]


def source_of_line(line: str, roles: Sequence[Role]) -> str:
    """The same for a line from outside, none of which passes for a marker."""
    if not line or line.isspace():
        return ""
    return join_cells([line] if len(roles) == 1 else line.split("\t"), roles)


def join_cells(cells: Sequence[str], roles: Sequence[Role]) -> str:
    """Blank altogether, they are an empty source."""
    if len(cells) != len(roles):
        raise InputError(
            f"{amount(len(cells), 'field')} where the model takes {len(roles)} ({', '.join(roles)}); put "
            "tabs between them, with nothing there for an empty one, and give several sources as a list"
        )
    if "unsaid" in roles:
        raise ModelError(
            "the run does not say whether the further fields of its sources are text or symbols; "
            "sign the columns in its config.json, as in 1,3+:2 or 1,3=:2"
        )
    if not any(cell.strip() for cell in cells):
        return ""
    return source_from_cells([plain(cell) for cell in cells], roles)


def line_of(source: str, roles: Sequence[Role]) -> str:
    """The inverse of `source_of`, for people: fields with tabs between them."""
    if tuple(roles) == ONE_TEXT:
        return source
    text, *rest = split_parts(source)
    marked = list(zip(rest[::2], rest[1::2], strict=True))  # a marker, and the text behind it
    cells = []
    for number, role in enumerate(roles):
        if role == "symbols":
            names = []
            while marked and marked[0][0] != FIELD:
                names.append(marked.pop(0)[0][1:])
            cells.append(";".join(names))
        elif number == 0:
            cells.append(text)
        else:
            cells.append(marked.pop(0)[1] if marked else "")
    return "\t".join(cell.replace("\t", " ") for cell in cells)

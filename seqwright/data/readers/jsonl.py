"""JSON lines: one object per line. Duplicate keys, NaN and Infinity are errors. And JSON documents, whole."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from seqwright.data.read_report import Place
from seqwright.data.readers.columns import unknown_name
from seqwright.data.readers.files import Input
from seqwright.data.text_display import excerpt, shorten_list
from seqwright.errors import InputError

MISSING = object()


class _NotStrict(ValueError):
    """Content that Python accepts, but JSON forbids or that would lose a value; `text` is its spelling."""

    def __init__(self, message: str, text: str):
        super().__init__(message)
        self.text = text


def parse_object(line: str, place: Place) -> dict[str, Any]:
    """Return the object on a line. An error names its column."""
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: not JSON at column {error.colno}: {error.msg}") from error
    except _NotStrict as error:
        column = line.rfind(error.text) + 1  # 0 if the line has it with escapes
        where = f"at column {column}" if column else "on this line"
        raise InputError(f"{place}: {error} {where}") from error
    except (RecursionError, ValueError) as error:
        reason = "objects or arrays nested too deeply"
        if not isinstance(error, RecursionError):
            reason = f"an integer of more than {sys.get_int_max_str_digits():,} digits"
        raise InputError(f"{place}: not usable: {reason}") from error
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a JSON object at column 1, not {_described(value)}")
    return value


def json_document(path: str) -> Any:
    """Return a file that is one JSON value."""
    try:
        return json.loads(b"".join(Input(path).blocks()))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a JSON document: {error}") from error


def value_under(value: dict[str, Any], name: str) -> Any:
    """Return the value of a key, or of a path such as `translation.en` if no key is equal, or MISSING."""
    if name in value:
        return value[name]
    for dot in re.finditer(r"\.", name):
        inner = value.get(name[: dot.start()])
        if isinstance(inner, dict) and (found := value_under(inner, name[dot.end() :])) is not MISSING:
            return found
    return MISSING


def names_in(value: dict[str, Any]) -> list[str]:
    """Return the names that `value_under` accepts: the keys, and for an object the keys inside it."""
    names = []
    for key, inner in value.items():
        names += [f"{key}.{each}" for each in inner] if isinstance(inner, dict) and inner else [key]
    return names


def cells_of(value: dict[str, Any], names: Sequence[str], place: Place) -> list[str]:
    """Return the texts under `names`; a list of texts becomes a cell of symbols."""
    cells = []
    for name in names:
        cell = value_under(value, name)
        if cell is MISSING:
            raise InputError(f"{place}: {unknown_name('key', name, names_in(value))}")
        if isinstance(cell, list) and all(isinstance(symbol, str) for symbol in cell):
            cell = ";".join(cell)
        if isinstance(cell, dict) and cell:
            keys = "key" if len(cell) == 1 else "keys"
            raise InputError(
                f"{place}: expected text under {name!r}, not an object with the {keys} {shorten_list(cell)}; "
                f"name one of them, as in {name}.{next(iter(cell))[:40]}"
            )
        if not isinstance(cell, str):
            raise InputError(f"{place}: expected text under {name!r}, not {_described(cell)}")
        cells.append(cell)
    return cells


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _NotStrict(f"duplicate key {excerpt(twice)}, the second", json.dumps(twice, ensure_ascii=False))
    return found


def _no_constant(name: str) -> NoReturn:
    raise _NotStrict(f"{name} is not JSON; write null or a number,", name)


def _described(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")

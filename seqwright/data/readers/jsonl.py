"""Lines of JSON: one object a line, strict where Python's reader is lenient."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from seqwright.config.registry import unknown
from seqwright.data.read_report import Place
from seqwright.errors import InputError


class _Refused(ValueError):
    """Something that Python reads and JSON forbids, or that would lose a value."""

    def __init__(self, what: str, text: str):
        super().__init__(what)
        self.text = text


def parse_object(line: str, place: Place) -> dict[str, Any]:
    """The object on a line; duplicate keys, NaN and Infinity are errors with their column."""
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: not JSON at column {error.colno}: {error.msg}") from error
    except _Refused as error:
        raise InputError(f"{place}: {error} at column {line.rfind(error.text) + 1}") from error
    except RecursionError as error:
        raise InputError(f"{place}: not usable at column 1: nested too deeply") from error
    except ValueError as error:  # an integer of more digits than Python takes
        raise InputError(f"{place}: not usable at column 1: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{place}: a JSON {_kind(value)} at column 1 where an object should be")
    return value


def value_under(value: dict[str, Any], name: str) -> Any:
    """The value under a key, or in objects one inside the other: `translation.en`. A key that has the dot
    itself comes first.
    """
    if name in value:
        return value[name]
    for dot in re.finditer(r"\.", name):
        inner = value.get(name[: dot.start()])
        if isinstance(inner, dict):
            try:
                return value_under(inner, name[dot.end() :])
            except KeyError:
                continue
    raise KeyError(name)


def names_in(value: dict[str, Any]) -> list[str]:
    """What can be asked for: the keys, and those of an object instead of its own."""
    return [name for key, inner in value.items() for name in _names_under(key, inner)]


def cells_of(value: dict[str, Any], names: Sequence[str], place: Place) -> list[str]:
    """The texts under `names`; a list of texts is taken as names of symbols."""
    cells = []
    for name in names:
        try:
            cell = value_under(value, name)
        except KeyError:
            raise InputError(f"{place}: {unknown('key', name, names_in(value))}") from None
        if isinstance(cell, list) and all(isinstance(symbol, str) for symbol in cell):
            cell = ";".join(cell)
        if isinstance(cell, dict) and cell:
            keys = "key" if len(cell) == 1 else "keys"
            raise InputError(
                f"{place}: {name!r} is an object with the {keys} {', '.join(cell)} where text should be; "
                f"name what is inside, as in {name}.{next(iter(cell))}"
            )
        if not isinstance(cell, str):
            raise InputError(f"{place}: {name!r} is {_article(_kind(cell))} where text should be")
        cells.append(cell)
    return cells


def _names_under(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield from (f"{key}.{inner}" for inner in value)
    else:
        yield key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"key {twice!r} comes twice, the second", json.dumps(twice, ensure_ascii=False))
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON; write null or a number,", name)


def _article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[0] in "ao" else f"a {kind}"


def _kind(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")

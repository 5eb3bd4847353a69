"""Types of options: bounds and help texts are in annotations; pydantic checks the values.

Validation is strict: True is not a number, and "3" is not one either. A list is accepted for a tuple.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Len, Lt

from seqwright.errors import Problem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter


@dataclass(frozen=True)
class Doc:
    """The help text of an option: `Annotated[int, Doc("Steps between two validations.")]`.

    none: what a default of None stands for, if it is neither "none" nor clear from the text.
    """

    text: str = ""
    none: str = "none"


Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
Share = Annotated[float, Ge(0), Lt(1)]
Positive = Annotated[float, Gt(0), Lt(math.inf)]
Seed = Annotated[int, Ge(0), Lt(2**63)]

NAMES = {int: "whole number", float: "number", str: "text"}
BARE: dict[Any, str] = {bool: "true or false", NoneType: "none", Any: "any value"}  # without an article
BOUNDS = {Ge: ("at least", "ge"), Gt: ("above", "gt"), Le: ("at most", "le"), Lt: ("below", "lt")}


def check(key: str, value: Any, hint: Any) -> Problem | None:
    """Return what is wrong with the value of an option that is annotated with `hint`."""
    try:
        convert(value, hint)
    except ValueError:
        return Problem(key, value, rule(hint, value))
    return None


def check_fields(options: DataclassInstance) -> list[Problem]:
    """Return the problems of a dataclass instance, field by field."""
    hints = field_hints(type(options))
    found = (check(each.name, getattr(options, each.name), hints[each.name]) for each in fields(options))
    return [problem for problem in found if problem]


def convert(value: Any, hint: Any) -> Any:
    """Return the value in the type of the annotation, or raise a ValueError."""
    adapter = _adapter(hint)
    if isinstance(value, list) and any(get_origin(each) is tuple for each in _members(hint)):
        value = tuple(value)
    return value if adapter is None else adapter.validate_python(value, strict=True)


@cache
def _adapter(hint: Any) -> TypeAdapter | None:
    """Return None for types that pydantic does not know: their values are not checked."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        return TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return None


@cache
def field_hints(table: type) -> dict[str, Any]:
    return get_type_hints(table, include_extras=True)


def rule(hint: Any, value: Any = None) -> str:
    """Return what a value must be: "it must be a whole number, at least 1"."""
    choices = [str(word) for each in _members(hint) if get_origin(each) is Literal for word in get_args(each)]
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5) if isinstance(value, str) else []
    words, bounds = in_words(hint, article="a "), limits(hint)
    text = words + (" " if bounds.startswith("from") else ", " if bounds else "") + bounds
    return f"it must be {text}" + (f"; did you mean {near[0]!r}?" if near else "")


def in_words(hint: Any, *, article: str = "") -> str:
    """Name a type: `int | None` is "whole number or none", with an article only "a whole number"."""
    members = _members(hint)
    spec = str in members and any(get_origin(each) in (dict, Mapping) for each in members)
    names = (
        f"{article}name" if spec and each is str else _name(each, article)
        for each in members
        if not (article and each is NoneType)
    )
    return " or ".join(dict.fromkeys(names))


def limits(hint: Any) -> str:
    """Return the bounds in an annotation in words, such as "above 0 and below 2"."""
    notes = list(dict.fromkeys(_notes(hint)))
    bounds = {type(note): getattr(note, BOUNDS[type(note)][1]) for note in notes if type(note) in BOUNDS}
    texts = {kind: f"{limit:,}" if limit >= 10_000 else f"{limit}" for kind, limit in bounds.items()}
    if Ge in bounds and Le in bounds:
        return f"from {texts[Ge]} to {texts[Le]}"
    words = ["finite" if bounds[kind] == math.inf else f"{BOUNDS[kind][0]} {texts[kind]}" for kind in bounds]
    for note in (note for note in notes if isinstance(note, Len)):
        words.append("not empty" if note.max_length is None else f"exactly {note.max_length} character")
    return " and ".join(words)


def help_text(hint: Any) -> str:
    return doc(hint).text


def doc(hint: Any) -> Doc:
    return next((note for note in _notes(hint) if isinstance(note, Doc)), Doc())


def _members(hint: Any) -> list[Any]:
    """Return the alternatives of a union, or the type itself, without annotations."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return _members(inner[0])
    return [m for each in inner for m in _members(each)] if get_origin(hint) in (Union, UnionType) else [hint]


def _notes(hint: Any) -> Iterator[Any]:
    for each in get_args(hint):
        if isinstance(each, Ge | Gt | Le | Lt | Len | Doc):
            yield each
        else:
            yield from _notes(each)


def _name(hint: Any, article: str) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin in (tuple, list, Sequence):
        count = f"{len(inner)} " if origin is tuple and Ellipsis not in inner else ""
        plural = "" if get_origin(inner[0]) is Literal else "s"
        return f"{article}list of {count}{in_words(inner[0])}{plural}"
    if origin in (dict, Mapping):
        return f"{article}table"
    return BARE.get(hint) or article + NAMES.get(hint, getattr(hint, "__name__", str(hint)))

"""Names of parts: a key in a configuration becomes a class, imported when it is asked for.

A registry looks into one home. In a module the parts are its public classes that derive from the base, and a
class `ScaledDot` has the name `scaled_dot` (or what it says in `key`); in a package each file is one part,
and the file name is the name. So a new part is one class in one place, and nothing else has to know.
`my.module:Class` reaches code outside of Seqwright.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import operator
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt

from seqwright.errors import ConfigError

Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
# the name of a bound's limit, how a value compares with it, and that in words
BOUNDS: dict[type, tuple[str, Callable[[Any, Any], bool], str]] = {
    Ge: ("ge", operator.ge, "at least"),
    Gt: ("gt", operator.gt, "above"),
    Le: ("le", operator.le, "at most"),
    Lt: ("lt", operator.lt, "below"),
}


class Registry:
    """The parts of one kind: `kind` for messages, `home` where they live, `base` what they derive from
    ("module:Class").
    """

    def __init__(self, kind: str, home: str, base: str):
        self.kind, self.home, self._base = kind, home, base

    @property
    def base(self) -> type:
        module, name = self._base.split(":")
        return getattr(importlib.import_module(module), name)

    def names(self) -> list[str]:
        return sorted(self._package_names() or self._classes(self.home))

    def get(self, name: str) -> type:
        """The class of that name; an unknown name is an error that names the nearest one."""
        if not isinstance(name, str):
            raise ConfigError(f"{self.kind} {name!r} is no name; there are: {', '.join(self.names())}")
        if ":" in name:
            return self._outside(name)
        package = self._package_names()
        if name in package:
            (found,) = self._classes(f"{self.home}.{name}").values()
            return found
        classes = {} if package else self._classes(self.home)
        if name in classes:
            return classes[name]
        raise ConfigError(unknown(self.kind, name, self.names()))

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """The options of a part: the keyword-only arguments of its constructor."""
        return options_of(self.get(name))

    def build(self, spec: str | Mapping[str, Any], **given: Any) -> Any:
        """Make a part from its name, or from a mapping with its name under `kind` and options beside it.

        What the surroundings know (`given`: sizes, say) goes to the parts that want it.
        """
        name, options = parse(self.kind, spec)
        part = self.get(name)
        known = options_of(part)
        check_options(f"{self.kind} {name}", part, options)
        wanted = {key: value for key, value in given.items() if key in known and key not in options}
        return part(**wanted, **options)

    def _package_names(self) -> list[str]:
        paths = getattr(importlib.import_module(self.home), "__path__", None)
        return [] if paths is None else [m.name for m in pkgutil.iter_modules(paths) if not m.ispkg]

    def _classes(self, module: str) -> dict[str, type]:
        base, loaded = self.base, importlib.import_module(module)
        return {
            vars(thing).get("key", snake_case(name)): thing
            for name, thing in vars(loaded).items()
            if inspect.isclass(thing)
            and issubclass(thing, base)
            and thing is not base
            and thing.__module__ == module
            and not name.startswith("_")
        }

    def _outside(self, name: str) -> type:
        module, _, attribute = name.partition(":")
        if not module or module.startswith("."):
            raise ConfigError(f"{self.kind} {name!r} cannot be imported: write it as my.module:Class")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"{self.kind} {name!r} cannot be imported: {error}") from error
        if not (inspect.isclass(found) and issubclass(found, self.base)):
            raise ConfigError(f"{self.kind} {name!r} is not a {self.base.__name__}")
        return found


def parse(kind: str, spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A spec is a name, or a mapping with the name under `kind` and the options beside it."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise ConfigError(f"{kind} is {spec!r}; it must be a name, or a table with the name under kind")
    options = dict(spec)
    if "kind" not in options:
        raise ConfigError(f'{kind} {options} does not say which: add kind = "..."')
    return options.pop("kind"), options


def options_of(part: type) -> dict[str, inspect.Parameter]:
    """The keyword-only arguments of a class, and those of the class that it passes its other arguments to
    (`passes_to`).
    """
    parameters = inspect.signature(part).parameters.values()
    own = {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    further = getattr(part, "passes_to", None)
    return own if further is None else {**options_of(further), **own}


def check_options(what: str, part: type, options: Mapping[str, Any]) -> None:
    """Refuses an option that the part does not have, a word that is none of those the option knows, and a
    value of another type or outside of its range.
    """
    known = options_of(part)
    for key, value in options.items():
        if key not in known:
            raise ConfigError(unknown(f"option of {what}", key, sorted(known)))
        hint = _hint(part, key)
        words = list(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else []
        if isinstance(value, str) and words and value not in words:
            raise ConfigError(unknown(f"{key} of {what}", value, words))
        if not _fits(value, hint):
            raise ConfigError(f"{key} of {what} is {value!r}; it must be {_named(hint)}")


def _hint(part: type, key: str) -> Any:
    """The type that an option is annotated with, its range included."""
    home = part
    while key not in inspect.signature(home).parameters:
        home = home.passes_to  # type: ignore[attr-defined]
    return typing.get_type_hints(home.__init__, include_extras=True).get(key, Any)  # type: ignore[misc]


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value can be of a type, as far as plain types tell, and in its range. True is no number."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _fits(value, inner[0]) and all(holds(value, limit) for limit, holds, _ in _bounds(inner[1:]))
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is typing.Literal:
        return value in inner
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(each, inner[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (bool, str, types.NoneType) else True


def _bounds(notes: Sequence[Any]) -> Iterator[tuple[Any, Callable[[Any, Any], bool], str]]:
    """The limits among the notes of an annotation."""
    for note in notes:
        if type(note) in BOUNDS:
            name, holds, words = BOUNDS[type(note)]
            yield getattr(note, name), holds, words


def _named(hint: Any) -> str:
    """A type in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        limits = " and ".join(f"{words} {limit}" for limit, _, words in _bounds(inner[1:]))
        return f"{_named(inner[0])} ({limits})" if limits else _named(inner[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_named(each) for each in inner if each is not types.NoneType)
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    names |= {Sequence: "a list of such", Mapping: "a table"}
    return names.get(origin or hint, str(hint))


def unknown(kind: str, name: str, known: list[str], meant: str | None = None) -> str:
    """One line: the wrong name, the one that is `meant` or the nearest right one, and all of them."""
    near = [meant] if meant else difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {kind} {name!r}; {hint}there are: {', '.join(known)}"


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()

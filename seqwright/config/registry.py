"""Registries: the name of a part in a configuration becomes a class, imported when it is needed.

The parts of a module are its public classes that derive from the base; the class `ScaledDot` has the name
`scaled_dot`, or the one in its attribute `key`. In a package each file is a part with the name of the file.
So a new part is one class in one place. `my.module:Class` names a part outside of Seqwright.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from seqwright.config.validation import Count as Count
from seqwright.config.validation import Doc as Doc
from seqwright.config.validation import Whole as Whole
from seqwright.config.validation import check
from seqwright.errors import ConfigError, Problem, brief

NAMED = 5  # wrong names that one error describes


class Registry:
    """The parts of one `kind`, in the module or package `home`; they derive from `base` ("module:Class").

    meant: other words for a part, which are no names of it, by the name that an error suggests.
    """

    def __init__(self, kind: str, home: str, base: str, meant: Mapping[str, str] | None = None):
        self.kind, self.home, self._base = kind, home, base
        self._meant = {word: name for name, words in (meant or {}).items() for word in words.split()}

    @property
    def base(self) -> type:
        return pkgutil.resolve_name(self._base)

    def names(self) -> list[str]:
        return sorted(self._package_names() or self._classes(self.home))

    def get(self, name: str) -> type:
        """Return the class with this name; the error for an unknown name suggests the nearest one."""
        if not isinstance(name, str):
            raise ConfigError(
                f"{self.kind} is {brief(name)}, not a name; use one of {', '.join(self.names())}"
            )
        if ":" in name:
            return self._outside(name)
        if name not in self.names():
            meant = self._meant.get(name.lower().replace("-", "_"))
            raise ConfigError(unknown(self.kind, name, self.names(), meant))
        if name in self._package_names():
            (found,) = self._classes(f"{self.home}.{name}").values()
            return found
        return self._classes(self.home)[name]

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """Return the options of a part: the keyword-only arguments of its constructor."""
        return options_of(self.get(name))

    def build(self, spec: str | Mapping[str, Any], *arguments: Any, **facts: Any) -> Any:
        """Build a part from its name, or from a table with its name under `kind` and its options.

        It receives the `arguments`, and those `facts` (sizes, vocabularies) that are among its options.
        """
        name, options = parse(self.kind, spec)
        part = self.get(name)
        check_options(f"{self.kind} {name}", part, options)
        known = options_of(part)
        given = {key: value for key, value in facts.items() if key in known} | options
        needed = (key for key, option in known.items() if option.default is inspect.Parameter.empty)
        if missing := [key for key in needed if key not in given]:
            needs = f"{self.kind} {name} needs {' and '.join(missing)}, which these data do not have"
            raise ConfigError(f"{needs}; use another {self.kind}")
        return part(*arguments, **given)

    def _package_names(self) -> list[str]:
        paths = getattr(importlib.import_module(self.home), "__path__", None)
        return [] if paths is None else [m.name for m in pkgutil.iter_modules(paths) if not m.ispkg]

    def _classes(self, module: str) -> dict[str, type]:
        return {
            vars(thing).get("key", snake_case(name)): thing
            for name, thing in vars(importlib.import_module(module)).items()
            if name[0] != "_" and inspect.isclass(thing) and thing.__module__ == module
            if issubclass(thing, self.base) and thing is not self.base
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
    """Return the name and the options of a part that is given as a name, or as a table with its `kind`."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise ConfigError(Problem(kind, spec, "it must be a name, or a table with the name under kind"))
    if "kind" not in spec:
        raise ConfigError(Problem(kind, dict(spec), 'it needs a name: add kind = "..."'))
    return spec["kind"], {key: value for key, value in spec.items() if key != "kind"}


def options_of(part: type) -> dict[str, inspect.Parameter]:
    """Return the keyword-only arguments of a class, and those of the class in its attribute `passes_to`."""
    parameters = inspect.signature(part).parameters.values()
    own = {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    further = getattr(part, "passes_to", None)
    return own if further is None else {**options_of(further), **own}


@cache
def hints_of(part: type) -> dict[str, Any]:
    """Return the annotation of each option."""
    if not options_of(part):
        return {}  # the other arguments of a task may have types that its module does not import
    further = getattr(part, "passes_to", None)
    hints = typing.get_type_hints(part.__init__, include_extras=True)  # type: ignore[misc]
    inherited = {} if further is None else hints_of(further)
    return {name: hints.get(name, inherited.get(name, Any)) for name in options_of(part)}


def check_options(what: str, part: type, options: Mapping[str, Any]) -> None:
    """Raise an error with every option that the part does not have, and every invalid value."""
    if not options:
        return
    hints, problems = hints_of(part), list[Problem | str]()
    wrong = [key for key in options if key not in hints]
    problems += unknown_each(f"option of {what}", wrong, sorted(hints))
    for key, value in options.items():
        if key in hints and (problem := check(f"{key} of {what}", value, hints[key])):
            problems.append(problem)
    if problems:
        raise ConfigError(*problems)


def unknown(kind: str, name: str, known: list[str], meant: str | None = None) -> str:
    """Return one line with the wrong name, the one that is `meant` or the nearest one, and all known ones."""
    near = [meant] if meant else nearest(name, known)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {kind} {brief(name)}; {hint}there are: {', '.join(known)}"


def unknown_each(kind: str, names: Sequence[str], known: list[str]) -> list[str]:
    """Return a line for each of the first wrong names; the known ones are listed once, at the end."""
    if not names:
        return []
    *before, last = names[:NAMED]
    hints = (f"; did you mean {near[0]!r}?" if (near := nearest(name, known)) else "" for name in before)
    lines = [f"unknown {kind} {brief(name)}{hint}" for name, hint in zip(before, hints, strict=True)]
    if len(names) > NAMED:
        lines.append(f"{len(names) - NAMED:,} more are unknown")
    return [*lines, unknown(kind, last, known)]


def nearest(name: str, known: list[str]) -> list[str]:
    """Return the known name that is most similar to a wrong one, or nothing."""
    return difflib.get_close_matches(name, known, n=1, cutoff=0.5)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()

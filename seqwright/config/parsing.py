"""From nested tables and `key=value` to a checked configuration. All problems are reported at once."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any

from seqwright.config.registry import unknown
from seqwright.config.tables import Config
from seqwright.config.validation import convert, field_hints, rule
from seqwright.errors import ConfigError, Problem

SHORT = {"horizon": "data", "lookback": "data", "rows": "data"}  # keys that are written without their table
DESCRIBES = {"model": {"preset", "kind", "encoder", "decoder"}}  # keys that make a table complete


def parse(table: Mapping[str, Any], open_keys: Callable[[], Iterable[str]] = tuple) -> Config:
    """Return the configuration, or raise one error with all problems. An unknown key may mean an open key."""
    config, problems = read(table, open_keys)
    if problems:
        raise ConfigError(*problems)
    return config


def read(
    table: Mapping[str, Any], open_keys: Callable[[], Iterable[str]] = tuple
) -> tuple[Config, list[str]]:
    """Return the configuration of all valid values, and the problems of the others."""
    reader = _Reader(open_keys)
    config: Config = reader.read(table, Config)
    problems = list(map(str, reader.problems))
    return config, [*problems, *_contradictions(config, complete=not problems)]


class _Reader:
    """Collects the problems of nested tables."""

    def __init__(self, open_keys: Callable[[], Iterable[str]]):
        self.problems: list[Problem | str] = []
        self._open_keys = open_keys

    @cached_property
    def _homes(self) -> dict[str, str]:
        """The last part of each key -> the key, for keys in the wrong table."""
        return {key.rpartition(".")[2]: key for key in (*self._open_keys(), *_keys(Config))}

    def read(self, table: Mapping[str, Any], kind: Any, path: str = "") -> Any:
        hints, values = field_hints(kind), dict[str, Any]()
        for key in [key for key in table if key not in hints]:
            known = [path + name for name in hints]
            self.problems.append(unknown("key", path + key, known, self._homes.get(key)))
        for each in fields(kind):
            if each.name not in table:
                continue
            key, value, hint = path + each.name, table[each.name], hints[each.name]
            if is_dataclass(hint) and isinstance(value, Mapping):
                values[each.name] = self.read(value, hint, f"{key}.")
            elif is_dataclass(hint):
                self.problems.append(Problem(key, value, "it must be a table"))
            else:
                open_table = isinstance(value, Mapping) and isinstance(each.default, str)
                if open_table and not value.keys() & DESCRIBES.get(each.name, {"kind"}):
                    value = {_name_key(each.name): each.default, **value}
                try:
                    values[each.name] = convert(value, hint)
                except ValueError:
                    self.problems.append(Problem(key, value, rule(hint, value)))
        return kind(**values)


def _keys(kind: Any, path: str = "") -> Iterator[str]:
    """Yield every key that is not a table."""
    for name, hint in field_hints(kind).items():
        yield from _keys(hint, f"{path}{name}.") if is_dataclass(hint) else [path + name]


def _name_key(table: str) -> str:
    return "preset" if table == "model" else "kind"


def _contradictions(config: Config, *, complete: bool) -> Iterator[str]:
    """Check rules about several keys. In an incomplete configuration the end may have been invalid."""
    training = config.training
    ends = [name for name in ("steps", "epochs", "minutes") if getattr(training, name) is not None]
    if len(ends) > 1 or (complete and not ends):
        yield f"training needs one of steps, epochs and minutes, not {' and '.join(ends) or 'none'}"
    if training.metric != "loss" and not training.decode:
        problem = f"training.metric is {training.metric!r}, which needs outputs, but training.decode is 0"
        yield f"{problem}; set training.decode above 0, or training.metric to loss"


def override(table: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Return the table with `a.b=value` set; a value is TOML, or a plain word where it is not."""
    result = _plain(dict(table))
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{assignment!r} is not key=value")
        *path, last = key.strip().split(".")
        inner = result
        for part in path:
            nested = inner.get(part)
            if nested is not None and not isinstance(nested, str | dict):
                raise ConfigError(f"{assignment!r}: {part} is {nested!r}, not a table; it has no {last}")
            inner[part] = {_name_key(part): nested} if isinstance(nested, str) else nested or {}
            inner = inner[part]
        inner[last] = _value(text.strip())
    for name in SHORT.keys() & result.keys():
        inner = result.setdefault(SHORT[name], {})
        if name in inner:
            raise ConfigError(f"{name} and {SHORT[name]}.{name} set the same option; give one of them")
        inner[name] = result.pop(name)
    return result


def _value(text: str) -> Any:
    if re.fullmatch(r"\d+(,\d+)+", text):  # 8640,2880,2880
        text = f"[{text}]"
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except (ValueError, RecursionError):  # not TOML, or a text of several lines that happen to be keys
        return text
    whole = isinstance(value, float) and value.is_integer() and "." not in text
    return int(value) if whole else _plain(value)  # 1e4 is a number of steps


def _plain(value: Any) -> Any:
    """Return a copy in the types of JSON; paths, and the dates and times of TOML, become texts."""
    return json.loads(json.dumps(value, default=str))

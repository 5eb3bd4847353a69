"""Configurations as TOML text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from seqwright.errors import ConfigError


def read_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; `name` is the name of the file in the error."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{name} is not TOML: {reason}") from error


def to_toml(table: Mapping[str, Any]) -> str:
    """Write nested tables as TOML, without the keys that are None."""
    return "\n".join(_lines(table, "")).strip() + "\n"


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in table.items():
        if value is not None and not isinstance(value, Mapping):
            yield f"{_key(key)} = {_literal(value)}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ("", f"[{path}{_key(key)}]")
            yield from _lines(value, f"{path}{_key(key)}.")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, Mapping):
        items = (f"{_key(key)} = {_literal(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(items) + "}"
    if isinstance(value, float):
        return repr(value)  # TOML writes inf and nan as Python does
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

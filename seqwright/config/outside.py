"""Code outside of Seqwright that a configuration names, as in `score = "my.module:Class"`.

A user may name any module. A run folder may come from another person, and importing a module runs its code: a
run folder may name only modules that this process has imported already, unless the user trusts it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from seqwright.errors import ConfigError, ModelError, brief

TABLES = ("task", "tokenizer", "model", "training")  # those that name parts
_trusting: ContextVar[bool] = ContextVar("trusting", default=False)


@contextmanager
def trusting_code(trusted: bool = True) -> Iterator[None]:
    """Accept every module that a run folder names inside the block, if `trusted`."""
    token = _trusting.set(trusted or _trusting.get())
    try:
        yield
    finally:
        _trusting.reset(token)


def outside_names(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of parts outside of Seqwright in a configuration: key -> `my.module:Class`."""
    found, waiting = dict[str, str](), [(key, table[key]) for key in TABLES if key in table]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str) and ":" in value:
            found[key] = value
        elif isinstance(value, Mapping):
            waiting += [(f"{key}.{name}", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in value]
    return found


def import_outside(requested: Mapping[str, Any]) -> None:
    """Import the modules that a user names; from then on a run folder may name them as well."""
    for key, name in outside_names(requested).items():
        module = name.partition(":")[0]
        try:
            importlib.import_module(module)
        except (ImportError, ValueError, TypeError) as error:  # not found, an empty name, a relative one
            raise ConfigError(f"{key} is {brief(name)}, which cannot be imported: {error}") from error


def refuse_outside(config: Mapping[str, Any], path: Path) -> None:
    """Raise ModelError, without importing anything, if the configuration of a run names unknown modules."""
    if _trusting.get():
        return
    for key, name in outside_names(config).items():
        if name.partition(":")[0] not in sys.modules:
            raise ModelError(
                f"{path} names code outside of Seqwright ({key} is {brief(name)}), and importing it runs it; "
                "if you trust that code, pass --trust-code, or in Python load(..., trusted=True)"
            )

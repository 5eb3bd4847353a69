"""Recipes: configurations that are chosen from the data, with a reason for each choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """One decision: what was chosen, the keys that it sets, and the reason."""

    what: str
    table: dict[str, Any]
    reason: str


@dataclass(frozen=True)
class Recipe:
    choices: tuple[Choice, ...]

    def over(self, choice: Choice) -> Recipe:
        """Return the recipe with `choice` in place of the choices for the same tables."""
        others = (own for own in self.choices if not own.table.keys() & choice.table.keys())
        return Recipe((choice, *others))

    def table(self) -> dict[str, Any]:
        """Return all choices as one configuration."""
        result: dict[str, Any] = {}
        for choice in self.choices:
            _merge(result, choice.table)
        return result


def _merge(into: dict[str, Any], table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value

"""Recipes: configurations that are chosen from the data, with a reason for each choice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
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
        return reduce(_merged, (choice.table for choice in self.choices), {})


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    tables = {key for key in below.keys() & above.keys() if isinstance(below[key], dict)}
    inner = {key: _merged(below[key], above[key]) for key in tables if isinstance(above[key], dict)}
    return {**below, **above, **inner}

"""Recipes: configurations that are chosen from the data, with a reason for each choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from seqwright.config.presets import PINNED

ENDS = ("minutes", "steps", "epochs")  # of a training; it has one of them


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
        return reduce(merged, (choice.table for choice in self.choices), {})


def times(count: float) -> str:
    """Return how often something is read, for a sentence."""
    if count >= 1.5:
        return f"about {count:.0f} times"
    return "about once" if count >= 0.75 else "less than once"


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables; values of `above` win. One end of a training replaces another, and a preset everything
    that another preset set.
    """
    result = dict(below)
    if any(end in above for end in ENDS):
        result = {key: value for key, value in result.items() if key not in ENDS}
    if above.get("preset", result.get("preset")) != result.get("preset"):
        result.pop(PINNED, None)
    for key, value in above.items():
        inner: Any = result.get(key)
        both = isinstance(inner, dict) and isinstance(value, Mapping)
        result[key] = merged(inner, value) if both else value
    return result

"""The part of the training data that is held out for validation, and for the test where there is no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqwright.config.recipe import Choice

FEW = 5_000  # examples, of which a tenth is held out


def share_of(examples: int, enough: int, most: float = 0.1) -> float:
    """Return the share that holds `enough` examples to tell scores apart, at most `most`; of few a tenth."""
    return 0.1 if examples < FEW else max(min(most, enough / examples), 1e-5)


def held_out(
    requested: Mapping[str, Any], share: float, of: str, reason: str | None = None
) -> tuple[Choice, ...]:
    """Return the choice to hold out this share of what `of` names, unless there is a file for validation;
    where there is none for the test, as much again is held out for it.
    """
    data = requested.get("data", {})
    if data.get("valid"):
        return ()
    tested = bool(data.get("test"))
    what = f"{100 * share:.2g} % of the {of} for validation" + (
        "" if tested else ", and as many for the test"
    )
    usual = "to choose the best weights" + ("" if tested else ", and for the final score")
    return (Choice(what, {"data": {"held_out": share}}, reason or usual),)

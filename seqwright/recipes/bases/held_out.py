"""How much of the training data is held out for validation and test, where no files are given for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqwright.config.recipe import Choice

FEW = 5_000  # examples, of which a tenth is held out


def share_of(examples: int, enough: int, most: float = 0.1) -> float:
    """Return the share that is `enough` examples to tell scores apart, at most `most`; a tenth if few."""
    return 0.1 if examples < FEW else max(min(most, enough / examples), 1e-5)


def held_out(
    requested: Mapping[str, Any], share: float, of: str, reason: str | None = None
) -> tuple[Choice, ...]:
    """Return the choice to hold out this share of the data, which `of` names, unless there is a validation
    file. Without a test file, as much again is held out for the test.
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

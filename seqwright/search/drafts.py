"""Drafts: outputs that grow token by token, so that a server can compute those of many requests together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from seqwright.search.generate import Emission
from seqwright.search.options import SamplingOptions, Start


class Draft(Protocol):
    """One output. It may take several searches, one after the other; `done` ends it even within one."""

    done: bool

    @property
    def text(self) -> str:
        """The output so far."""

    def take(self, emission: Emission) -> None:
        """Add a token."""

    def token_text(self, emission: Emission) -> str:
        """Return the text of a token by itself."""

    def result(self) -> Any:
        """Return the prediction of a draft that is done."""


@dataclass(frozen=True)
class Leg:
    """A search that continues drafts, one per row of its state."""

    state: Any
    start: Start
    options: SamplingOptions
    drafts: Sequence[Draft]

"""Replies: the outputs of a conversation, and what an evaluation adds to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seqwright.data.language_results import Surprise
from seqwright.data.results import Text


@dataclass(frozen=True, repr=False)
class Reply(Text):
    """A reply, generated or retrieved.

    surprise: the expected reply with its log-probability. ranks: the place of the expected reply, from 1,
    among so many candidates. Both are for an evaluation. fits: False if a retrieved reply is too unlikely to
    fit.
    """

    surprise: Surprise | None = None
    ranks: Mapping[int, int] = field(default_factory=dict)
    fits: bool = True

    def _output_json(self) -> dict[str, Any]:
        return {**super()._output_json(), "fits": self.fits}

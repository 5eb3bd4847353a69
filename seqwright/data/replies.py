"""Replies: the outputs of a conversation, and what an evaluation adds to them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from seqwright.data.language_results import Surprise
from seqwright.data.plan import item_seed
from seqwright.data.results import Text


def last_turn(line: str) -> str:
    """Return the last of the turns on a line, after a mark for those before it."""
    before, _, last = line.rstrip("\t").rpartition("\t")
    return f"… {last}" if before else last


@dataclass(frozen=True, repr=False)
class Reply(Text):
    """A reply, generated or retrieved.

    surprise: the expected reply with its log-probability. ranks: the place of the expected reply, from 1,
    among so many candidates; none where the training has too few replies. Both are for an evaluation. fits:
    False if a retrieved reply is too unlikely to fit.
    """

    surprise: Surprise | None = None
    ranks: Mapping[int, int] = field(default_factory=dict)
    fits: bool = True

    @classmethod
    def of(cls, text: Text) -> Reply:
        """Return a generated text as a reply."""
        return cls(**{each.name: getattr(text, each.name) for each in fields(text)})

    @property
    def output_tokens(self) -> int:
        return super().output_tokens or 1  # a retrieved reply is one step

    @property
    def shown_source(self) -> str:
        return last_turn(self.source)

    def _output_json(self) -> dict[str, Any]:
        return {**super()._output_json(), "fits": self.fits}


def enough(pool: Sequence[str], counts: Iterable[int]) -> tuple[int, ...]:
    """Return those numbers of candidates that a pool of different replies has, the right reply included."""
    return tuple(count for count in counts if count <= len(pool))


def wrong_replies(pool: Sequence[str], right: str, number: int, count: int) -> list[str]:
    """Draw so many replies of a pool other than the right one; the item's number decides which."""
    others = [reply for reply in pool if reply != right]
    return random.Random(item_seed(0, 0, number)).sample(others, count)

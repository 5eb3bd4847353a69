"""The messages between a dispatcher and its worker. One message holds everything since the one before."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from seqwright.data.task import Row
    from seqwright.search.drafts import Draft

_keys = itertools.count()


class Piece(NamedTuple):
    """A draft after one more token: its text so far, and the token with its log-probability."""

    text: str
    token: str
    log_prob: float


@dataclass(eq=False, slots=True)
class Ticket:
    """One input on its way through a worker.

    number: its place in its request, which seeds what is drawn. deadline, admitted: of time.monotonic(),
    which the processes of a machine share. streamed: each token is reported. key: names the ticket in
    messages. The worker adds its draft, if the output can grow token by token.
    """

    row: Row[Any]
    request: Any
    number: int
    deadline: float
    streamed: bool = False
    admitted: float = field(default_factory=time.monotonic)
    key: int = field(default_factory=_keys.__next__)
    draft: Draft | None = None
    begun: bool = False  # the draft has a token
    cancelled: bool = False

    @property
    def tokens(self) -> int:
        return self.row.length + 1

    @property
    def unwanted(self) -> bool:
        return self.cancelled or time.monotonic() > self.deadline


class Orders(NamedTuple):
    """Inputs that a worker is to compute, and the keys of those that it is to drop."""

    tickets: list[Ticket]
    cancelled: list[int]


@dataclass(slots=True)
class Report:
    """Results of a worker: tokens and outputs by the keys of their tickets, and values of metrics by name.

    An outcome is a prediction or an exception. running: inputs that are computed, if their number changed.
    rate: tokens of inputs per second, if it was measured.
    """

    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    outcomes: list[tuple[int, Any]] = field(default_factory=list)
    numbers: list[tuple[str, float]] = field(default_factory=list)
    running: int | None = None
    rate: float | None = None

    @property
    def empty(self) -> bool:
        return not (self.pieces or self.outcomes or self.numbers) and self.running is None


class WorkerError(RuntimeError):
    """A bug in a worker. It names the type of an exception, whose message may quote a request."""

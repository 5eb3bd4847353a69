"""Looks into one model: computed one at a time, in a thread of their own, while a few others wait.

A trace takes much memory, so there is one thread. It is a daemon, because parts of a look cannot be
interrupted: the end of the server does not wait for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar

from seqwright.serve.http import in_time
from seqwright.serve.limits import Limits, Refusal, closing

T = TypeVar("T")
Check = Callable[[], None]
FIRST_SECONDS = 1.0  # that a look is assumed to take before the first one


class Unwanted(Exception):
    """No client waits for the look."""


@dataclass(eq=False, slots=True)
class Look:
    """Work for the thread: a function that calls its argument from time to time."""

    work: Callable[[Check], Any]
    deadline: float
    outcome: Future[Any] = field(default_factory=Future)
    left: bool = False  # the client has its answer, or is gone

    def check(self) -> None:
        if self.left or time.monotonic() > self.deadline:
            raise Unwanted

    def settle(self, value: Any) -> None:
        """Set the outcome, or an exception, unless there is one already."""
        with suppress(InvalidStateError):
            if isinstance(value, Exception):
                self.outcome.set_exception(value)
            else:
                self.outcome.set_result(value)


class Looks:
    """The looks into the model `name`. A look counts until its thread has finished it."""

    def __init__(self, name: str, limits: Limits):
        self.name, self.limits = name, limits
        self._open: list[Look] = []  # that wait or are computed
        self._lock = threading.Lock()
        self._queue = SimpleQueue[Look | None]()
        self._thread: threading.Thread | None = None
        self._seconds = FIRST_SECONDS  # that the latest look took
        self._closed = False

    @property
    def busy(self) -> bool:
        return bool(self._open)

    async def run(self, work: Callable[[Check], T], deadline: float) -> T:
        """Return the result of some work, or refuse it. Its argument raises when no client waits any more."""
        look = Look(work, deadline)
        self._admit(look)
        try:
            found: T = await in_time(asyncio.wrap_future(look.outcome), deadline)
            return found
        finally:
            look.left = True

    def _admit(self, look: Look) -> None:
        with self._lock:
            if self._closed:
                raise closing()
            if len(self._open) >= self.limits.looks:
                delay = self._seconds * len(self._open)
                message = f"{len(self._open)} looks into {self.name} are not finished; try again later"
                raise Refusal(503, message, delay, "full")
            self._open.append(look)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"look {self.name}", daemon=True)
                self._thread.start()
        self._queue.put(look)

    def _run(self) -> None:
        while (look := self._queue.get()) is not None:
            began = time.monotonic()
            try:
                look.check()
                outcome: Any = look.work(look.check)
            except Exception as error:
                outcome = error
            self._seconds = time.monotonic() - began
            with self._lock:
                self._open.remove(look)
            look.settle(outcome)

    def refuse(self) -> None:
        """Refuse the looks that are not finished, and all others."""
        with self._lock:
            self._closed = True
            pending = list(self._open)
        for look in pending:
            look.left = True
            look.settle(closing())

    def close(self) -> None:
        """Refuse everything, and let the thread end after the look that it computes."""
        self.refuse()
        self._queue.put(None)

"""The dispatcher of a model: admits inputs to a bounded queue, sends them to the worker, hands out results.

The worker computes in a process of its own, so that HTTP and the computation do not share the lock of one
interpreter. Admission needs no answer from it: the dispatcher knows which inputs are not answered yet, and
how fast the worker is. Two threads use the pipe to the worker, so that the event loop never waits for it: one
sends, the other receives, and starts the worker again when it has died.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from seqwright.errors import ModelError
from seqwright.serve.limits import Limits, Refusal, closing
from seqwright.serve.messages import Orders, Piece, Report, Ticket
from seqwright.serve.metrics import Metrics, ModelMetrics

FIRST_RATE = 1000.0  # tokens per second that are assumed before the first batch
PAUSE = 0.5  # seconds until a worker that has died is started again
LONGEST_PAUSE = 60.0  # seconds; the pause doubles with each start that does not last
STEADY = 60.0  # seconds after which a start has lasted

logger = logging.getLogger("seqwright.serve")


class Host(Protocol):
    """The thread or process of a worker (`host.py`), and the pipe to it."""

    pipe: Connection

    def stop(self) -> None:
        """End the worker, which also closes its end of the pipe."""


class Entry(NamedTuple):
    """A ticket and its client: `done` receives a prediction or an exception, `grown` each token of a stream.

    Both are called in a thread of the dispatcher and must not block.
    """

    ticket: Ticket
    done: Callable[[Any], None]
    grown: Callable[[Piece], None] | None = None


class Dispatcher:
    """Queue of one model. All methods may be called from any thread.

    launch: starts a worker.
    """

    def __init__(self, name: str, launch: Callable[[], Host], limits: Limits, metrics: Metrics):
        self.name, self.limits = name, limits
        self.metrics = ModelMetrics(metrics, name)
        self.rate = FIRST_RATE  # tokens of inputs per second
        self.ready = True  # False from the death of a worker until the next one is loaded
        self._launch = launch
        self._held: dict[int, Entry] = {}  # by the keys of their tickets
        self._tokens = 0  # of the inputs held
        self._running = 0  # of the inputs held, those that are computed
        self._lock = threading.Lock()
        self._orders = SimpleQueue[Orders | None]()
        self._loaded, self._closed = threading.Event(), threading.Event()
        self._loading = 0.0  # seconds that the latest start took
        self._launching = threading.Lock()
        self.host = launch()
        self._threads = [
            threading.Thread(target=target, name=f"serve {name}", daemon=True)
            for target in (self._send, self._receive)
        ]
        for thread in self._threads:
            thread.start()

    def wait_until_loaded(self) -> None:
        """Wait for the first report of the worker; ModelError if it ends before."""
        self._loaded.wait()
        if not self.ready:
            raise ModelError(
                f"the process that computes {self.name} ended while it loaded the model, perhaps because "
                "memory ran out; free memory, or serve fewer models"
            )

    # Admission --------------------------------------------------------------------------------------

    def check_room(self, count: int) -> None:
        """Raise what `submit` would raise for so many inputs, before any work is done for them."""
        with self._lock:
            self._check_open()
            if self._held and len(self._held) + count > self.limits.requests:
                raise self._full()

    def submit(self, entries: Sequence[Entry]) -> None:
        """Admit all inputs, or raise a Refusal with the time after which it is worth trying again."""
        tickets = [entry.ticket for entry in entries]
        needed = sum(ticket.tokens for ticket in tickets)
        with self._lock:
            self._check_open()
            too_many = len(self._held) + len(tickets) > self.limits.requests
            if self._held and (too_many or self._tokens + needed > self.limits.tokens):
                raise self._full()
            delay = self._tokens / self.rate
            if tickets and time.monotonic() + delay > tickets[0].deadline:
                raise Refusal(503, "no answer is possible before the deadline; try again", delay, "deadline")
            self._held.update((entry.ticket.key, entry) for entry in entries)
            self._tokens += needed
            self._count()
        self._orders.put(Orders(tickets, []))
        self.metrics.record("tokens_in", needed)

    def cancel(self, tickets: Sequence[Ticket]) -> None:
        """Drop the tickets that are not answered yet."""
        with self._lock:
            keys = [ticket.key for ticket in tickets if ticket.key in self._held]
        if keys:
            self._orders.put(Orders([], keys))

    @property
    def crowded(self) -> bool:
        """Whether the queue is above its high-water mark, nine tenths of what it holds."""
        with self._lock:
            share = max(len(self._held) / self.limits.requests, self._tokens / self.limits.tokens)
        return share > 0.9

    def _count(self) -> None:
        """Set the gauges, whatever the worker computes meanwhile."""
        self.metrics.record("inflight", self._running)
        self.metrics.record("queue_depth", max(len(self._held) - self._running, 0))

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise closing()
        if not self.ready:
            raise self._lost()

    def _full(self) -> Refusal:
        delay = self._tokens / self.rate
        return Refusal(503, f"the queue of {self.name} is full; try again later", delay, "full")

    def _lost(self) -> Refusal:
        delay = PAUSE + self._loading
        return Refusal(503, f"{self.name} is being loaded again; send the request again", delay, "lost")

    # The pipe ---------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send orders until the end; those that come together are one message."""
        while (orders := self._orders.get()) is not None:
            tickets, cancelled = list(orders.tickets), list(orders.cancelled)
            with suppress(Empty):
                while (more := self._orders.get_nowait()) is not None:
                    tickets += more.tickets
                    cancelled += more.cancelled
                return
            # a worker that was started meanwhile must not compute what is answered with a refusal
            wanted = [ticket for ticket in tickets if ticket.key in self._held]
            with suppress(OSError):  # the worker has died, which the other thread handles
                self.host.pipe.send(Orders(wanted, cancelled))

    def _receive(self) -> None:
        """Hand out what the worker reports, and start it again when it has died, at a bounded rate."""
        pause, began = PAUSE, time.monotonic()
        while True:
            with suppress(EOFError, OSError):
                while True:
                    self._hand_out(self.host.pipe.recv(), began)
            if self._closed.is_set() or not self._refuse_all():
                return
            pause = PAUSE if time.monotonic() - began > STEADY else min(2 * pause, LONGEST_PAUSE)
            while not self._start_again(pause):
                pause = min(2 * pause, LONGEST_PAUSE)
            if self._closed.is_set():
                return
            began = time.monotonic()

    def _start_again(self, pause: float) -> bool:
        """Start a worker after a pause, unless the dispatcher is closed by then; return whether it worked."""
        self._closed.wait(pause)
        with self._launching:
            if self._closed.is_set():
                return True
            self.host.stop()
            try:
                self.host = self._launch()
            except (OSError, MemoryError) as error:  # of memory, processes or open files
                reason = type(error).__name__
                logger.error("the worker of %s cannot be started (%s); it is tried again", self.name, reason)
                return False
        return True

    def _hand_out(self, report: Report, began: float) -> None:
        if not (self._loaded.is_set() and self.ready):
            self._loading, self.ready = time.monotonic() - began, True
            self._loaded.set()
        if report.rate is not None:
            self.rate = report.rate
        for key, piece in report.pieces:
            entry = self._held.get(key)
            if entry is not None and entry.grown is not None:
                entry.grown(piece)
        with self._lock:
            answered = [(self._held.pop(key, None), outcome) for key, outcome in report.outcomes]
            self._tokens -= sum(entry.ticket.tokens for entry, _ in answered if entry is not None)
            if report.running is not None:
                self._running = report.running
            if answered or report.running is not None:
                self._count()
        for entry, outcome in answered:
            if entry is not None:
                entry.done(outcome)
        for name, value in report.numbers:
            self.metrics.record(name, value)

    def _refuse_all(self) -> bool:
        """Refuse what a worker that has died leaves behind; return whether it is to be started again."""
        with self._lock:
            self.ready = False
        self._drop_all(self._lost())
        if not self._loaded.is_set():  # it never worked: `wait_until_loaded` reports it
            self._loaded.set()
            return False
        self.metrics.record("restarts", 1)
        logger.error("the worker of %s has died; it is started again", self.name)
        return True

    def _drop_all(self, refusal: Refusal) -> None:
        with self._lock:
            dropped, self._held, self._tokens, self._running = self._held, {}, 0, 0
            self._count()
        for entry in dropped.values():
            entry.done(refusal)

    def refuse(self) -> None:
        """Refuse what is not answered, and everything that comes."""
        with self._lock:
            self._closed.set()
        self._drop_all(closing())

    def close(self) -> None:
        """Refuse what is not answered, and end the worker."""
        self.refuse()
        with self._launching:
            self.host.stop()
        self._orders.put(None)
        for thread in self._threads:
            thread.join()
        self.host.pipe.close()

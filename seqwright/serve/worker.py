"""The worker of a model: a thread that computes what waits, in batches, behind a bounded queue.

Batches. An idle worker does not wait for more inputs: a lone input starts at once, and what arrives meanwhile
is the next batch. Only after a batch of several inputs does it wait until as many are there again, for at
most `WINDOW` seconds, because their clients tend to return together. A batch holds inputs of similar length
that have the same options, always the oldest one, and at most `TOKENS` tokens, padding included.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqwright.data.plan import cut_by_tokens
from seqwright.data.task import Row
from seqwright.errors import SeqwrightError
from seqwright.prediction.predictor import TOKENS, Predictor
from seqwright.serve.limits import Limits, Refusal
from seqwright.serve.metrics import Metrics

WINDOW = 0.005  # seconds
FIRST_RATE = 1000.0  # tokens per second that are assumed before the first batch
MEMORY = 0.8  # share of the former rate in the next one


@dataclass(eq=False)
class Ticket:
    """One input on its way through a worker.

    number: its place in its request, which seeds what is drawn. done: called in the thread of the worker with
    a prediction or an exception; it must not block.
    """

    row: Row[Any]
    request: Any
    number: int
    deadline: float  # of time.monotonic()
    done: Callable[[Any], None]
    cancelled: bool = False  # set by anyone; the worker drops the input before its next step
    admitted: float = field(default_factory=time.monotonic)

    @property
    def tokens(self) -> int:
        return self.row.length + 1

    @property
    def unwanted(self) -> bool:
        return self.cancelled or time.monotonic() > self.deadline


class Worker:
    """Computes tickets for one model. `submit` may be called from any thread."""

    def __init__(self, name: str, predictor: Predictor, limits: Limits, metrics: Metrics):
        self.name, self.predictor, self.limits, self.metrics = name, predictor, limits, metrics
        self.rate = FIRST_RATE  # tokens of inputs per second
        self.waiting: list[Ticket] = []
        self.running: list[Ticket] = []
        self.closed = False
        self._changed = threading.Condition()
        self._latest = 1  # inputs of the latest batch
        self._thread = threading.Thread(target=self._run, name=f"serve {name}", daemon=True)
        self._thread.start()

    # The side of the server -------------------------------------------------------------------------

    def submit(self, tickets: Sequence[Ticket]) -> None:
        """Admit all tickets, or raise a Refusal with the time after which it is worth trying again."""
        needed = sum(ticket.tokens for ticket in tickets)
        with self._changed:
            held = [*self.waiting, *self.running]
            ahead = sum(ticket.tokens for ticket in held)
            delay = ahead / self.rate
            if self.closed:
                raise Refusal(503, "the server is shutting down; send the request again", 1, "closed")
            too_many = len(held) + len(tickets) > self.limits.requests
            if held and (too_many or ahead + needed > self.limits.tokens):
                raise Refusal(503, f"the queue of {self.name} is full; try again later", delay, "full")
            if tickets and time.monotonic() + delay > tickets[0].deadline:
                raise Refusal(503, "no answer is possible before the deadline; try again", delay, "deadline")
            self.waiting += tickets
            self._changed.notify()
        self.metrics.tokens_in.labels(self.name).inc(needed)

    @property
    def crowded(self) -> bool:
        """Whether the queue is above its high-water mark, nine tenths of what it holds."""
        with self._changed:
            held = [*self.waiting, *self.running]
        full = sum(ticket.tokens for ticket in held) / self.limits.tokens
        return max(len(held) / self.limits.requests, full) > 0.9

    def close(self) -> None:
        """Refuse what is not started, and end the thread after the current batch."""
        with self._changed:
            self.closed, dropped, self.waiting = True, self.waiting, []
            self._changed.notify()
        for ticket in dropped:
            ticket.done(Refusal(503, "the server is shutting down; send the request again", 1, "closed"))
        self._thread.join()

    # The thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while batch := self._next():
            began = time.monotonic()
            for ticket in batch:
                self.metrics.queue_wait.labels(self.name).observe(began - ticket.admitted)
            self._compute(batch)
            self._measure(batch, time.monotonic() - began)

    def _next(self) -> list[Ticket]:
        """Wait for tickets and return those of the next batch; none at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self.waiting or self.closed)
                if self._latest > 1:
                    self._changed.wait_for(lambda: len(self.waiting) >= self._latest or self.closed, WINDOW)
                self._drop_unwanted()
                if self.waiting or self.closed:
                    break
            batch = self._together()
            self.waiting = [ticket for ticket in self.waiting if ticket not in batch]
            self.running, self._latest = batch, len(batch)
            self._count()
            return batch

    def _drop_unwanted(self) -> None:
        unwanted = [ticket for ticket in self.waiting if ticket.unwanted]
        self.waiting = [ticket for ticket in self.waiting if not ticket.unwanted]
        self.cancel(unwanted)

    def cancel(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            self.metrics.cancelled.labels(self.name).inc()
            ticket.done(Refusal(503, "the deadline of the request is over; try again", 1, "deadline"))

    def _together(self) -> list[Ticket]:
        """Return the oldest ticket and those that are computed with it."""
        if not self.waiting:
            return []
        oldest = self.waiting[0]
        like = [ticket for ticket in self.waiting if ticket.request == oldest.request]
        width = self.predictor.task.width(oldest.request)
        lengths = [ticket.tokens * width for ticket in like]
        for numbers in cut_by_tokens(sorted(range(len(like)), key=lengths.__getitem__), lengths, TOKENS):
            batch = [like[number] for number in numbers]
            if oldest in batch:
                return batch
        return [oldest]

    def _compute(self, batch: Sequence[Ticket]) -> None:
        """Answer a batch. If it fails, each input is tried alone: one bad input must not fail the others."""
        try:
            outputs: Sequence[Any] = self.predictor.answer(
                [ticket.row for ticket in batch], batch[0].request, [ticket.number for ticket in batch]
            )
        except SeqwrightError as error:
            if len(batch) > 1:
                for ticket in batch:
                    self._compute([ticket])
                return
            outputs = [error]
        except Exception as error:  # a bug: the client gets a 500, and the worker serves the next batch
            outputs = [error] * len(batch)
        for ticket, output in zip(batch, outputs, strict=True):
            self.metrics.tokens_out.labels(self.name).inc(getattr(output, "output_tokens", 0))
            ticket.done(output)

    def _measure(self, batch: Sequence[Ticket], seconds: float) -> None:
        lengths = [ticket.tokens for ticket in batch]
        self.rate = MEMORY * self.rate + (1 - MEMORY) * sum(lengths) / max(seconds, 1e-6)
        self.metrics.batch_rows.labels(self.name).observe(len(batch))
        self.metrics.batch_pad.labels(self.name).observe(1 - sum(lengths) / (max(lengths) * len(lengths)))
        with self._changed:
            self.running = []
            self._count()

    def _count(self) -> None:
        self.metrics.queue_depth.labels(self.name).set(len(self.waiting))
        self.metrics.inflight.labels(self.name).set(len(self.running))

"""The worker of a model: a thread that computes what waits, in batches, behind a bounded queue.

Batches. An idle worker does not wait for more inputs: a lone input starts at once, and what arrives meanwhile
is the next batch. Only after a batch of several inputs does it wait until as many are there again, for at
most `WINDOW` seconds, because their clients tend to return together. A batch holds inputs of similar length
that have the same options, always the oldest one, and at most `TOKENS` tokens, padding included.

Drafts. An output that grows token by token, by greedy search or sampling, does not wait for a batch. It joins
the drafts that are being computed between two of their steps, up to `ROWS` of them, whatever its options.
Joining delays all of them, so drafts that wait join together: as soon as they are a `SHARE` of those that
grow, and at the latest after `PATIENCE` steps. Batches are computed between two steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from seqwright.data.plan import cut_by_tokens
from seqwright.data.task import Row
from seqwright.errors import SeqwrightError
from seqwright.prediction.predictor import TOKENS, Predictor
from seqwright.runtime import threads
from seqwright.search.drafts import Draft
from seqwright.search.generate import Cohort, Emission, Pool
from seqwright.serve.limits import Limits, Refusal
from seqwright.serve.metrics import Metrics, ModelMetrics

WINDOW = 0.005  # seconds
ROWS = 64  # drafts that grow together
SHARE = 0.25  # of the drafts that grow: if so many wait, they join
PATIENCE = 8  # steps for which a draft waits for others to join with
FIRST_RATE = 1000.0  # tokens per second that are assumed before the first batch
SPAN = 0.1  # seconds of steps in which the rate is measured
MEMORY = 0.8  # share of the former rate in the next one


class Piece(NamedTuple):
    """A draft after one more token: its text so far, and the token with its log-probability."""

    text: str
    token: str
    log_prob: float


@dataclass(eq=False)
class Ticket:
    """One input on its way through a worker.

    number: its place in its request, which seeds what is drawn. draft: its output, if it can grow token by
    token. done: called in the thread of the worker with a prediction or an exception; grown: with each
    token of a draft. Neither may block.
    """

    row: Row[Any]
    request: Any
    number: int
    deadline: float  # of time.monotonic()
    done: Callable[[Any], None]
    draft: Draft | None = None
    grown: Callable[[Piece], None] | None = None
    begun: bool = False  # its draft has a token
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
        self.name, self.predictor, self.limits = name, predictor, limits
        self.metrics = ModelMetrics(metrics, name)
        self.rate = FIRST_RATE  # tokens of inputs per second
        self.waiting: list[Ticket] = []
        self.running: list[Ticket] = []
        self.closed = False
        self._model: Any = predictor.model.eval()
        self._cores = predictor.threads or torch.get_num_threads()
        self._pool = Pool(self._step)
        self._growing: dict[Draft, Ticket] = {}
        self._drafts: dict[Cohort, Sequence[Draft]] = {}  # one for each row that the cohort started with
        self._changed = threading.Condition()
        self._latest = 1  # inputs of the latest batch
        self._passed = 0  # steps since drafts joined the growing ones
        self._busy, self._left = 0.0, 0  # seconds of steps, and input tokens of the drafts that left in them
        self._stepped = 0.0  # time of the latest step
        self._thread = threading.Thread(target=self._run, name=f"serve {name}", daemon=True)
        self._thread.start()

    # The side of the server -------------------------------------------------------------------------

    def check_room(self, count: int) -> None:
        """Raise what `submit` would raise for so many inputs, before any work is done for them."""
        with self._changed:
            held = len(self.waiting) + len(self.running)
            if held and held + count > self.limits.requests:
                raise self._full(sum(ticket.tokens for ticket in (*self.waiting, *self.running)))

    def _full(self, ahead: int) -> Refusal:
        """Return the refusal of a full queue of so many tokens."""
        return Refusal(503, f"the queue of {self.name} is full; try again later", ahead / self.rate, "full")

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
                raise self._full(ahead)
            if tickets and time.monotonic() + delay > tickets[0].deadline:
                raise Refusal(503, "no answer is possible before the deadline; try again", delay, "deadline")
            self.waiting += tickets
            self._changed.notify()
        self.metrics.tokens_in.inc(needed)

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
        while True:
            work = self._next()
            if work is None:
                return
            starting, batch = work
            began = time.monotonic()
            try:
                self._start(starting)
                if self._growing:
                    self._grow()
            except Exception as error:  # damaged weights, or a bug: the drafts were in one computation
                self._fail(error)
            self._measure_drafts(time.monotonic() - began)
            if batch:
                began = time.monotonic()
                self._compute(batch)
                self._measure(batch, time.monotonic() - began)

    def _next(self) -> tuple[list[Ticket], list[Ticket]] | None:
        """Return the drafts that start now, and the next batch. Wait while nothing grows; None at the end."""
        with self._changed:
            while not self._growing:
                self._changed.wait_for(lambda: self.waiting or self.closed)
                if self._latest > 1:
                    self._changed.wait_for(lambda: len(self.waiting) >= self._latest or self.closed, WINDOW)
                self._drop_unwanted()
                if self.waiting:
                    break
                if self.closed:
                    return None
            self._drop_unwanted()
            starting = self._joining([ticket for ticket in self.waiting if ticket.draft is not None])
            batch = self._together([ticket for ticket in self.waiting if ticket.draft is None])
            taken = {*starting, *batch}
            self.waiting = [ticket for ticket in self.waiting if ticket not in taken]
            self.running += [*starting, *batch]
            self._latest = len(batch) or 1
            self._count()
        for ticket in taken:
            self.metrics.queue_wait.observe(time.monotonic() - ticket.admitted)
        return starting, batch

    def _drop_unwanted(self) -> None:
        unwanted = [ticket for ticket in self.waiting if ticket.unwanted]
        self.waiting = [ticket for ticket in self.waiting if not ticket.unwanted]
        self.cancel(unwanted)

    def cancel(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            self.metrics.cancelled.inc()
            ticket.done(Refusal(503, "the deadline of the request is over; try again", 1, "deadline"))

    def _joining(self, waiting: list[Ticket]) -> list[Ticket]:
        """Return the drafts that start now, of those that wait."""
        growing = len(self._growing)
        ready = waiting[: max(ROWS - growing, 0)]
        self._passed += 1
        if len(ready) < SHARE * growing and self._passed < PATIENCE:
            return []
        self._passed = 0
        return ready

    def _together(self, waiting: Sequence[Ticket]) -> list[Ticket]:
        """Return the oldest ticket and those that are computed with it."""
        if not waiting:
            return []
        oldest = waiting[0]
        like = [ticket for ticket in waiting if ticket.request == oldest.request]
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
        self._finish(dict(zip(batch, outputs, strict=True)))

    def _finish(self, outcomes: Mapping[Ticket, Any]) -> None:
        """Hand out predictions, or exceptions."""
        self._forget(outcomes.keys())
        self.metrics.tokens_out.inc(sum(getattr(each, "output_tokens", 0) for each in outcomes.values()))
        for ticket, outcome in outcomes.items():
            ticket.done(outcome)

    def _forget(self, tickets: Collection[Ticket]) -> None:
        """Remove tickets from those that are computed."""
        with self._changed:
            self.running = [ticket for ticket in self.running if ticket not in tickets]
            self._count()

    # Drafts -----------------------------------------------------------------------------------------

    def _start(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            assert ticket.draft is not None
            self._growing[ticket.draft] = ticket
        self._begin([ticket.draft for ticket in tickets if ticket.draft is not None])

    def _begin(self, drafts: Sequence[Draft]) -> None:
        """Let drafts join those that grow; those that are done already leave."""
        self._leave([draft for draft in drafts if draft.done])
        drafts = [draft for draft in drafts if not draft.done]
        if not drafts:
            return
        predictor = self.predictor
        try:
            with self._computing(len(drafts)), torch.inference_mode():
                legs = predictor.task.legs(predictor.model, drafts)
                cohorts = [Cohort(self._step, leg.state, leg.start, leg.options) for leg in legs]
                self._pool.join(cohorts)
        except Exception as error:
            if len(drafts) > 1 and isinstance(error, SeqwrightError):
                for draft in drafts:
                    self._begin([draft])
                return
            self._finish({self._growing.pop(draft): error for draft in drafts})
            return
        for leg, cohort in zip(legs, cohorts, strict=True):
            self._drafts[cohort] = leg.drafts
            for emitted in cohort.given:
                self._take(leg.drafts, emitted)

    def _grow(self) -> None:
        """Drop drafts that nobody waits for, take one step, and continue drafts whose search is over."""
        unwanted: dict[Cohort, set[int]] = {}
        for cohort in self._pool.cohorts:
            drafts = self._drafts[cohort]
            rows = {row for row in cohort.rows if self._growing[drafts[row]].unwanted}
            if rows:
                gone = [self._growing.pop(drafts[row]) for row in rows]
                self._forget(gone)
                self.cancel(gone)
                unwanted[cohort] = rows
        if unwanted:
            self._pool.drop(unwanted)
        began = time.monotonic()
        with self._computing(len(self._pool)):
            found = self._pool.step() if self._pool else []
        self._observe_step(began, sum(len(emitted) for _, emitted in found))
        paused: list[Draft] = []
        for cohort, emitted in found:
            drafts = self._drafts[cohort]
            self._take(drafts, emitted)
            early = {each.row for each in emitted if drafts[each.row].done and each.finish_reason is None}
            if early:
                self._pool.drop({cohort: early})
            over = (each.row for each in emitted if each.finish_reason is not None)
            paused += [drafts[row] for row in (*over, *sorted(early))]
        self._drafts = {cohort: self._drafts[cohort] for cohort in self._pool.cohorts}
        self._begin(paused)

    def _step(self, tokens: Any, state: Any) -> Any:
        return self._model.step(tokens, state)

    @contextmanager
    def _computing(self, rows: int) -> Iterator[None]:
        """Compute alone inside the block. Of two cores, the event loop needs one while it serves several."""
        if len(self.running) == 1 or self._cores > 2:
            with self.predictor.computing(rows):
                yield
            return
        with self.predictor.computing(1), threads(1):
            yield

    def _fail(self, error: Exception) -> None:
        """End all drafts, and begin with an empty pool."""
        self._finish(dict.fromkeys(self._growing.values(), error))
        self._growing, self._drafts, self._pool = {}, {}, Pool(self._step)

    def _take(self, drafts: Sequence[Draft], emitted: Sequence[Emission]) -> None:
        for emission in emitted:
            draft = drafts[emission.row]
            draft.take(emission)
            ticket = self._growing[draft]
            if not ticket.begun:
                ticket.begun = True
                self.metrics.first_token.observe(time.monotonic() - ticket.admitted)
            if ticket.grown is not None:
                ticket.grown(Piece(draft.text, draft.token_text(emission), emission.log_prob))

    def _leave(self, drafts: Sequence[Draft]) -> None:
        """Hand out the outputs of drafts that are done."""
        if not drafts:
            return
        outcomes = {self._growing.pop(draft): draft.result() for draft in drafts}
        self._left += sum(ticket.tokens for ticket in outcomes)
        self._finish(outcomes)

    def _observe_step(self, began: float, rows: int) -> None:
        now = time.monotonic()
        if began - self._stepped < 1:
            self.metrics.next_token.observe(now - self._stepped)
        self._stepped = now
        self.metrics.batch_rows.observe(rows)

    def _measure_drafts(self, seconds: float) -> None:
        self._busy += seconds
        if self._left and self._busy > SPAN:
            self.rate = MEMORY * self.rate + (1 - MEMORY) * self._left / self._busy
            self._busy, self._left = 0.0, 0

    def _measure(self, batch: Sequence[Ticket], seconds: float) -> None:
        lengths = [ticket.tokens for ticket in batch]
        self.rate = MEMORY * self.rate + (1 - MEMORY) * sum(lengths) / max(seconds, 1e-6)
        self.metrics.batch_rows.observe(len(batch))
        self.metrics.batch_pad.observe(1 - sum(lengths) / (max(lengths) * len(lengths)))

    def _count(self) -> None:
        self.metrics.queue_depth.set(len(self.waiting))
        self.metrics.inflight.set(len(self.running))

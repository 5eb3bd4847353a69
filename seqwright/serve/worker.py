"""The worker of a model: computes the inputs that arrive over a pipe, in batches, and sends what comes out.

It reads the pipe between two computations, and between the steps of a search. It has no limits: the
dispatcher admits inputs (`dispatcher.py`). It has no thread either: one that received inputs would stop the
computation whenever it runs.

Batches. An idle worker does not wait for more inputs: a lone input starts at once, and what arrives meanwhile
is the next batch. Only after a batch of several inputs does it wait until as many are there again, for at
most `WINDOW` seconds, because their clients tend to return together. A batch holds inputs of similar length
that have the same options, always the oldest one, and at most `TOKENS` tokens, padding included. It ends
before its next step when no client waits for any of its inputs.

Drafts. An output that grows token by token, by greedy search or sampling, does not wait for a batch. It joins
the drafts that are being computed between two of their steps, up to `ROWS` of them, whatever its options.
Joining delays all of them, so drafts that wait join together: as soon as they are a `SHARE` of those that
grow, and at the latest after `PATIENCE` steps. Batches are computed between two steps.

Rate. The dispatcher refuses what cannot be done in time, by the tokens of inputs per second. A lone output
takes as long as many that run together, so the rate is that of as many rows as may run together: what ran
with fewer counts as if the others had run next to it.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from seqwright.data.plan import cut_by_tokens
from seqwright.errors import SeqwrightError
from seqwright.prediction.predictor import TOKENS, Predictor
from seqwright.runtime import threads
from seqwright.search.drafts import Draft
from seqwright.search.generate import Cohort, Emission, Pool
from seqwright.serve.dispatcher import FIRST_RATE
from seqwright.serve.limits import Refusal
from seqwright.serve.messages import Orders, Piece, Report, Ticket, WorkerError

WINDOW = 0.005  # seconds
LISTEN = 0.01  # seconds between two looks at the pipe within a batch
ROWS = 64  # drafts that grow together
SHARE = 0.25  # of the drafts that grow: if so many wait, they join
PATIENCE = 8  # steps for which a draft waits for others to join with
SPAN = 0.1  # seconds of steps in which the rate is measured
MEMORY = 0.8  # share of the former rate in the next one

logger = logging.getLogger("seqwright.serve")


class Unwanted(Exception):
    """No client waits for any input of the batch that is being computed."""


class Worker:
    """Computes tickets of one model."""

    def __init__(self, predictor: Predictor, pipe: Connection):
        self.predictor = predictor
        self.rate = FIRST_RATE  # tokens of inputs per second
        self.waiting: list[Ticket] = []
        self.running: list[Ticket] = []
        self._pipe = pipe
        self._report = Report()
        self._counted = 0  # inputs that ran in the latest report
        self._model: Any = predictor.model.eval()
        self._chosen = predictor.threads is not None
        self._cores = torch.get_num_threads()
        self._pool = Pool(self._step)
        self._growing: dict[Draft, Ticket] = {}
        self._drafts: dict[Cohort, Sequence[Draft]] = {}  # one for each row that the cohort started with
        self._latest = 1  # inputs of the latest batch
        self._listened = 0.0  # time of the latest look at the pipe
        self._passed = 0  # steps since drafts joined the growing ones
        self._busy, self._left = 0.0, 0  # seconds of steps, and input tokens of the drafts that left in them
        self._used = 0.0  # the same seconds, times the drafts that grew in them
        self._stepped = 0.0  # time of the latest step

    def run(self) -> None:
        """Compute until the other end of the pipe is closed."""
        with self._pipe, suppress(EOFError, OSError):
            self._pipe.send(self._report)  # the model is loaded
            while True:
                starting, batch = self._next()
                began, rows = time.monotonic(), len(self._growing) + len(starting)
                try:
                    if starting:
                        self._start(starting)
                    if self._growing:
                        self._grow()
                except Exception as error:  # damaged weights, or a bug: the drafts were in one computation
                    self._fail(error)
                self._measure_drafts(time.monotonic() - began, rows)
                if batch:
                    self._compute(batch)

    # Messages ---------------------------------------------------------------------------------------

    def _receive(self, seconds: float | None = 0) -> None:
        """Report what is done, and take what has arrived. Wait so long for it; None: until there is some."""
        self._send()
        self._listened = time.monotonic()
        while self._pipe.poll(seconds):
            orders: Orders = self._pipe.recv()
            for ticket in orders.tickets:
                self._accept(ticket)
            if cancelled := set(orders.cancelled):
                for ticket in (*self.waiting, *self.running):
                    ticket.cancelled |= ticket.key in cancelled
            seconds = 0

    def _accept(self, ticket: Ticket) -> None:
        task = self.predictor.task
        try:
            drafts = task.drafts(self._model, [ticket.row], ticket.request, [ticket.number])
        except Exception as error:
            self._finish({ticket: _sendable(error)})
            return
        ticket.draft = drafts[0] if drafts else None
        self.waiting.append(ticket)

    def _send(self) -> None:
        if len(self.running) != self._counted:
            self._counted = self._report.running = len(self.running)
        if not self._report.empty:
            report, self._report = self._report, Report()
            self._pipe.send(report)

    def _record(self, name: str, value: float) -> None:
        """Report a value of a metric."""
        self._report.numbers.append((name, value))

    def _set_rate(self, measured: float) -> None:
        self.rate = self._report.rate = MEMORY * self.rate + (1 - MEMORY) * measured

    # Batches ----------------------------------------------------------------------------------------

    def _next(self) -> tuple[list[Ticket], list[Ticket]]:
        """Return the drafts that start now, and the next batch. Wait while nothing grows."""
        self._receive()
        while not self._growing:
            while not self.waiting:
                self._receive(None)
            self._wait_for_others()
            self._drop_unwanted()
            if self.waiting:
                break
        self._drop_unwanted()
        starting = self._joining([ticket for ticket in self.waiting if ticket.draft is not None])
        batch = self._together([ticket for ticket in self.waiting if ticket.draft is None])
        taken = {*starting, *batch}
        self.waiting = [ticket for ticket in self.waiting if ticket not in taken]
        self.running += [*starting, *batch]
        self._latest = len(batch) or 1
        for ticket in taken:
            self._record("queue_wait", time.monotonic() - ticket.admitted)
        if batch:
            self._send()  # the count, before a computation that may take long
        return starting, batch

    def _wait_for_others(self) -> None:
        """Wait for as many inputs as the latest batch had, for at most `WINDOW`."""
        until = time.monotonic() + WINDOW
        while len(self.waiting) < self._latest and (left := until - time.monotonic()) > 0:
            self._receive(left)

    def _drop_unwanted(self) -> None:
        unwanted = [ticket for ticket in self.waiting if ticket.unwanted]
        self.waiting = [ticket for ticket in self.waiting if not ticket.unwanted]
        self._cancel(unwanted)

    def _cancel(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            self._record("cancelled", 1)
            refusal = Refusal(503, "the deadline of the request is over; try again", 1, "deadline")
            self._report.outcomes.append((ticket.key, refusal))

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
        rows, numbers = [ticket.row for ticket in batch], [ticket.number for ticket in batch]
        began = time.monotonic()
        try:
            outputs: Sequence[Any] = self.predictor.answer(
                rows, batch[0].request, numbers, partial(self._listen, batch)
            )
        except Unwanted:
            self._forget(batch)
            self._cancel(batch)
            return
        except SeqwrightError as error:
            if len(batch) > 1:
                for ticket in batch:
                    self._compute([ticket])
                return
            outputs = [error]
        except Exception as error:  # a bug: the client gets a 500, and the worker serves the next batch
            outputs = [_sendable(error)] * len(batch)
        self._finish(dict(zip(batch, outputs, strict=True)))
        self._measure(batch, time.monotonic() - began)

    def _listen(self, batch: Sequence[Ticket]) -> None:
        """Take what has arrived; raise `Unwanted` if no client waits for the batch any more."""
        if time.monotonic() - self._listened < LISTEN:
            return
        try:
            self._receive()
        except (EOFError, OSError) as error:  # the server has ended, which the next look finds again
            raise Unwanted from error
        if all(ticket.unwanted for ticket in batch):
            raise Unwanted

    def _finish(self, outcomes: Mapping[Ticket, Any]) -> None:
        """Hand out predictions, or exceptions."""
        self._forget(outcomes.keys())
        self._record("tokens_out", sum(getattr(each, "output_tokens", 0) for each in outcomes.values()))
        self._report.outcomes += [(ticket.key, outcome) for ticket, outcome in outcomes.items()]

    def _forget(self, tickets: Collection[Ticket]) -> None:
        """Remove tickets from those that are computed."""
        self.running = [ticket for ticket in self.running if ticket not in tickets]

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
            outcome = _sendable(error)
            self._finish({self._growing.pop(draft): outcome for draft in drafts})
            return
        for leg, cohort in zip(legs, cohorts, strict=True):
            self._drafts[cohort] = leg.drafts
            for emitted in cohort.given:
                self._take(leg.drafts, emitted)

    def _grow(self) -> None:
        """Drop drafts that no client waits for, take one step, and continue drafts whose search is over."""
        unwanted: dict[Cohort, set[int]] = {}
        for cohort in self._pool.cohorts:
            drafts = self._drafts[cohort]
            rows = {row for row in cohort.rows if self._growing[drafts[row]].unwanted}
            if rows:
                gone = [self._growing.pop(drafts[row]) for row in rows]
                self._forget(gone)
                self._cancel(gone)
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
        """Compute alone inside the block. Of two cores, the event loop needs one while it serves several, if
        the number of threads was not chosen.
        """
        if len(self.running) == 1 or self._cores > 2 or self._chosen:
            with self.predictor.computing(rows):
                yield
            return
        with self.predictor.computing(1), threads(1):
            yield

    def _fail(self, error: Exception) -> None:
        """End all drafts, and begin with an empty pool."""
        self._finish(dict.fromkeys(self._growing.values(), _sendable(error)))
        self._growing, self._drafts, self._pool = {}, {}, Pool(self._step)

    def _take(self, drafts: Sequence[Draft], emitted: Sequence[Emission]) -> None:
        for emission in emitted:
            draft = drafts[emission.row]
            draft.take(emission)
            ticket = self._growing[draft]
            if not ticket.begun:
                ticket.begun = True
                self._record("first_token", time.monotonic() - ticket.admitted)
            if ticket.streamed:
                piece = Piece(draft.text, draft.token_text(emission), emission.log_prob)
                self._report.pieces.append((ticket.key, piece))

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
            self._record("next_token", now - self._stepped)
        self._stepped = now
        self._record("batch_rows", rows)

    def _measure_drafts(self, seconds: float, rows: int) -> None:
        self._busy += seconds
        self._used += seconds * rows
        if self._left and self._busy > SPAN:
            self._set_rate(ROWS * self._left / self._used)
            self._busy, self._left, self._used = 0.0, 0, 0.0

    def _measure(self, batch: Sequence[Ticket], seconds: float) -> None:
        lengths = [ticket.tokens for ticket in batch]
        width = self.predictor.task.width(batch[0].request)
        rows = max(len(batch), min(ROWS, TOKENS // (max(lengths) * width)))  # that may be computed together
        self._set_rate(sum(lengths) * rows / len(batch) / max(seconds, 1e-6))
        self._record("batch_rows", len(batch))
        self._record("batch_pad", 1 - sum(lengths) / (max(lengths) * len(lengths)))


def _sendable(error: Exception) -> Exception:
    """Return an exception for the client. A bug is logged here, where its traceback is, without its message,
    which may quote the request.
    """
    if isinstance(error, SeqwrightError):
        return error
    places = "".join(traceback.format_tb(error.__traceback__))
    logger.error("worker: %s\n%s", type(error).__name__, places)
    return WorkerError(type(error).__name__)

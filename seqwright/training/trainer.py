"""The training loop, which can stop at any step and resume exactly.

Every step is a function of (data, configuration, seed, step): the plan gives the batch, the step seeds
dropout, and the learning rate depends on the share of the training that is done. So a checkpoint is tensors
and a few numbers.
"""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from seqwright.config import Config
from seqwright.data.plan import Batching, Cursor, Plan
from seqwright.errors import DivergedError, ModelError, SeqwrightError, WriteError
from seqwright.files import reached
from seqwright.models import Model
from seqwright.nn.inference_weights import invalidate_inference_weights
from seqwright.runs.checkpoint import Checkpoint
from seqwright.runs.folder import LONGEST, Run
from seqwright.training import diagnostics
from seqwright.training.averaging import Average
from seqwright.training.budget import Budget
from seqwright.training.interrupt import Interrupt, Interrupted
from seqwright.training.optimizer import build_optimizer
from seqwright.training.preparation import Prepared
from seqwright.training.schedule import SCHEDULES
from seqwright.training.validation import Judged, Validation, Validator
from seqwright.training.workers import Compute, LossSum, MicroBatch, Workers, micro_batches

BAD_STEPS, BAD_WINDOW = 10, 1000  # steps without a finite gradient, in a row, or in a window, that end it
LOG_SECONDS = 5.0
LOGGED = ("step", "loss", "rate", "tokens_per_second", "seconds")  # of a report
NOT_JUDGED = Judged(math.nan, "higher")
EARLY = 100  # the step of a first validation in a long training, which shows early outputs


@dataclass(frozen=True)
class Progress:
    """The state of a training that is not tensors."""

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    seconds: float = 0.0  # training time so far, with validations
    validated: int = 0  # the last validated step
    best: float | None = None
    best_error: float = 0.0  # its standard error
    best_step: int = 0
    kept_step: int = 0  # the step whose weights are the model
    worse: int = 0  # validations since the best one
    bad: tuple[int, ...] = ()  # the latest steps without a finite gradient
    finished: bool = False

    def after(self, step: int, judged: Judged) -> Progress:
        """The progress after a validation.

        The kept step is the latest one that is less than a standard error worse than the best: chance alone
        may explain the difference, and more training usually helps.
        """
        is_best = judged.beats(self.best)
        kept = is_best or judged.beats(self.best, self.best_error)
        seen = replace(self, validated=step, worse=0 if is_best else self.worse + 1)
        if is_best:
            seen = replace(seen, best=judged.value, best_error=judged.error, best_step=step)
        return replace(seen, kept_step=step) if kept else seen

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "cursor": self.cursor.to_json()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Progress:
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        known.setdefault("kept_step", fields.get("best_step", 0))  # older runs kept only the best
        known |= {"cursor": Cursor.from_json(fields["cursor"]), "bad": tuple(fields.get("bad", ()))}
        return cls(**known)


@dataclass(frozen=True)
class Report:
    """The news for a listener: after some steps, after a validation, or with findings alone."""

    step: int
    done: float
    loss: float
    rate: float
    tokens_per_second: float
    seconds: float
    seconds_left: float
    validation: Validation | None = None
    findings: tuple[str, ...] = ()


Listener = Callable[[Report], None]


class Observer(Protocol):
    """Looks at the model at every validation, without changing it."""

    def validated(self, model: Model, validation: Validation, step: int) -> None:
        """The model has its validated weights. An exception is reported and does not stop the training."""

    def rewind(self, step: int) -> None:
        """The training starts at this step: discard what was recorded after it."""


class Trainer:
    """Trains a model on prepared data into a run folder that the caller has locked."""

    def __init__(
        self,
        run: Run,
        config: Config,
        prepared: Prepared,
        model: Model,
        *,
        listener: Listener = lambda report: None,
        interrupt: Interrupt | None = None,
        observers: Sequence[Observer] = (),
        workers: int = 0,
    ):
        self.run, self.config, self.options = run, config, config.training
        self.prepared, self.task, self.model = prepared, prepared.task, model
        self.listener, self.observers, self.interrupt = listener, observers, interrupt or Interrupt()
        self.workers = Workers(model, build_compute(config, prepared, model), workers)
        self.learners = len(model.learners(self.options.accumulate))
        self.plan = Plan(prepared.lengths, Batching(tokens=self.options.tokens), config.seed)
        self.budget = Budget(self.options, self.plan, run.path("data", "budget.json"))
        self.schedule = SCHEDULES.build(self.options.schedule)
        self.optimizer = build_optimizer(self.options.optimizer, model)
        self.average = Average(model, self.options.average) if self.options.average else None
        self.validator = Validator(
            prepared.valid,
            prepared.task,
            self.options.metric,
            tokens=4 * self.options.tokens,
            decode=self.options.decode,
        )
        self.checkpoints = run.checkpoints(self.options.keep)
        self.progress = Progress()
        self._failed_saves = 0  # in a row
        self._meter = _Meter()

    # The loop --------------------------------------------------------------------------------------

    def train(self) -> Progress:
        """Train from the latest checkpoint, or from the start, to the end."""
        self._resume()
        if self.progress.finished:
            return self.progress
        for observer in self.observers:
            observer.rewind(self.progress.step)
        self._meter.start(self.progress.seconds)
        batches = self._batches()
        try:
            with self.workers:
                while not self._over():
                    self.interrupt.check()
                    self._step(*next(batches))
                    if self._validation_due():
                        self._validate()
                    if self._meter.since_save >= self.options.save_seconds * min(2**self._failed_saves, 16):
                        self._save()
        except Interrupted:
            self._save()
            raise
        self._finish()
        return self.progress

    def _over(self) -> bool:
        patience = self.options.patience
        return self.budget.over(self.progress.step) or (
            patience is not None and self.progress.worse >= patience
        )

    def _batches(self) -> Iterator[tuple[list[MicroBatch], Cursor]]:
        """The batches from here on, divided into micro-batches, each with the position after it."""
        for numbers, after in self.plan.walk(self.progress.cursor):
            seed, epoch = (self.config.seed, self.progress.step + 1), self.progress.cursor.epoch
            yield micro_batches(numbers, self.options.accumulate, epoch, seed, self.learners), after

    def _step(self, batches: list[MicroBatch], after: Cursor) -> None:
        step = self.progress.step + 1
        self.optimizer.zero_grad()
        loss, norm = self.workers.mean_gradient(batches, self.options.clip)
        if math.isfinite(loss.total) and math.isfinite(norm):
            self.optimizer.step(self.schedule.factor(step, self.budget.done(step)))
            invalidate_inference_weights(self.model)
            if self.average is not None:
                self.average.update(step)
            self._meter.add(loss)
        else:
            self._skip(step, batches, loss.total, norm)
        self.progress = replace(self.progress, step=step, cursor=after)
        if step == 1:
            self._warn(diagnostics.first_loss(loss.total / loss.count, self.task.chance_loss))
        reached("train:step")
        if self.budget.wants_estimate(step, self._meter.seconds):
            try:
                self.budget.estimate(step, self._meter.seconds)
            except WriteError as error:  # the next estimate writes it
                self._warn([f"the estimated number of steps was not saved: {error}"])
        if self._meter.since_log >= LOG_SECONDS:
            self._log_step(norm)

    # Validation and saving -------------------------------------------------------------------------

    def _validation_due(self) -> bool:
        step = self.progress.step
        if self.budget.over(step):
            return True
        if self.options.validate_every is not None:
            return step % self.options.validate_every == 0
        times, done = self.options.validations, self.budget.done(step)
        if step == EARLY and 2 * done * times < 1:
            return True
        return int(done * times) > int(self.budget.done(step - 1) * times)

    def _validate(self) -> None:
        step = self.progress.step
        with self.average.applied() if self.average is not None else nullcontext():
            validation = self.validator.validate(self.model, self.interrupt.check)
            self._notify_observers(validation)
        judged = validation.judged(self.options.metric)
        self.progress = self.progress.after(step, judged)
        findings = diagnostics.findings(validation, self.budget.done(step), step)
        kept = self.progress.kept_step == step
        record = {"step": step, **validation.record(), "kept": kept, "findings": findings}
        self.run.log({**record, "seconds": self._meter.seconds})
        reached("train:validated")
        self.listener(replace(self._report(), validation=validation, findings=tuple(findings)))
        self._save(judged)

    def _notify_observers(self, validation: Validation) -> None:
        """An observer that fails, on a part from outside or a full disk, does not stop the training."""
        step = self.progress.step
        for observer in self.observers:
            try:
                observer.validated(self.model, validation, step)
            except Exception as error:
                reason = str(error) or repr(error)
                bug = {} if isinstance(error, SeqwrightError) else {"traceback": traceback.format_exc()}
                self.run.log({"step": step, "untraced": reason, **bug})
                self.listener(replace(self._report(), findings=(f"no trace was recorded: {reason}",)))

    def _save(self, judged: Judged = NOT_JUDGED) -> None:
        """Save a checkpoint. A failure does not stop the training; the next attempt comes later."""
        self.progress = replace(self.progress, seconds=self._meter.seconds)
        step = self.progress.step
        value, better, _ = judged
        kept = math.isfinite(value) and self.progress.kept_step == step
        try:
            self.checkpoints.save(step, self._tensors(), self._state(), value, better, kept=kept)
            self._failed_saves = 0
        except WriteError as error:
            self._failed_saves += 1
            self.run.log({"step": step, "save_failed": str(error), "in_a_row": self._failed_saves})
            self._warn([f"checkpoint not saved ({self._failed_saves} in a row): {error}"])
        self._meter.saved()

    def _tensors(self) -> dict[str, dict[str, Tensor]]:
        parts = {"model": self.model.weights(), "optimizer": self.optimizer.tensors()}
        return parts if self.average is None else {**parts, "average": self.average.weights}

    def _state(self) -> dict[str, Any]:
        return {
            "progress": self.progress.to_json(),
            "data": self.prepared.train.fingerprint,
            "plan": self.plan.identity,
            "threads": torch.get_num_threads(),
        }

    # Start and end ---------------------------------------------------------------------------------

    def _resume(self) -> None:
        found = self.checkpoints.load()
        if found is None:
            self._save()  # finds a disk that cannot be written before the first step
            if self._failed_saves:
                raise WriteError(
                    f"no checkpoint can be written to {self.checkpoints.folder}; training did not start"
                )
            return
        self._check_same(found)
        self.model.take_weights(found.tensors["model"])
        self.optimizer.load(found.tensors["optimizer"])
        if self.average is not None:
            self.average.load(found.tensors["average"])
        self.progress = Progress.from_json(found.state["progress"])
        self.budget.resume(self.progress.step, self.progress.seconds)
        if self.progress.finished and self._over():
            return
        self.progress = replace(self.progress, finished=False)  # more steps may be requested now
        self.run.rewind_log(self.progress.step)
        if self.progress.step and self.progress.validated < self.progress.step and self._validation_due():
            self._meter.start(self.progress.seconds)
            self._validate()

    def _check_same(self, found: Checkpoint) -> None:
        """A position in the data is valid only for the same data in the same batches."""
        if found.state["data"] != self.prepared.train.fingerprint:
            raise ModelError(
                f"the training data are not those of {found.path}; restore the old data, or train into "
                "another folder"
            )
        if found.state["plan"] != self.plan.identity:
            raise ModelError(
                f"the batches are not those of {found.path}: {found.state['plan']} became "
                f"{self.plan.identity}; restore the old options, or train into another folder"
            )

    def _finish(self) -> None:
        """Export the weights of the kept step."""
        if self.progress.validated < self.progress.step:
            self._validate()
        best = self.checkpoints.best()
        part = "model" if self.average is None else "average"
        longest = {LONGEST: str(self.prepared.longest_input)}
        step, weights = self.progress.step, self._tensors()[part]  # used if no validation was finite
        if best is not None:
            kept = self.checkpoints.read(best, parts=[part])
            step, weights = kept.step, kept.tensors[part]
        self.run.save_weights(weights, {"step": str(step), **longest})
        reached("train:exported")
        self.progress = replace(self.progress, finished=True, kept_step=step)
        self._save()
        if self._failed_saves:
            raise WriteError(
                f"the last checkpoint was not saved to {self.checkpoints.folder}; free disk space and run "
                "the same command again"
            )

    # Reports ---------------------------------------------------------------------------------------

    def _skip(self, step: int, batches: list[MicroBatch], total: float, norm: float) -> None:
        """Log a step without an update; too many of them end the training."""
        bad = (*(b for b in self.progress.bad if b > step - BAD_WINDOW), step)
        self.progress = replace(self.progress, bad=bad)
        numbers = dict.fromkeys(i for batch in batches for i in batch.numbers)  # learners read the same ones
        places = [self.prepared.train.place(i) for i in numbers]
        self.run.log({"step": step, "skipped": {"loss": total, "gradient_norm": norm, "examples": places}})
        in_a_row = bad[-BAD_STEPS:] == tuple(range(step - BAD_STEPS + 1, step + 1))
        if in_a_row or len(bad) > BAD_STEPS:
            latest = self.checkpoints.load(verify=False)
            raise DivergedError(
                f"{len(bad)} of the last {BAD_WINDOW} steps had no finite gradient, the last at step {step}; "
                f"the last good checkpoint is {latest and latest.path}; lower training.optimizer.rate, "
                "or check the lines that metrics.jsonl names"
            )

    def _warn(self, findings: list[str]) -> None:
        if findings:
            self.run.log({"step": self.progress.step, "findings": findings})
            self.listener(replace(self._report(), findings=tuple(findings)))

    def _log_step(self, norm: float) -> None:
        report = self._report()
        logged = {name: getattr(report, name) for name in LOGGED}
        self.run.log({**logged, "gradient_norm": norm})
        self.listener(report)
        self._meter.reset()

    def _report(self) -> Report:
        step, seconds = self.progress.step, self._meter.seconds
        done = self.budget.done(step)
        left = seconds / done - seconds if done > 0 else math.nan
        rate = self.optimizer.rate * self.schedule.factor(max(step, 1), done)
        return Report(step, done, self._meter.loss, rate, self._meter.speed, seconds, left)


class _Meter:
    """Training time, and the speed and mean loss since the last log entry, by the monotonic clock."""

    def __init__(self) -> None:
        self.start(0.0)

    def start(self, seconds: float) -> None:
        """Earlier processes took `seconds`."""
        self._before, self._began = seconds, time.monotonic()
        self.saved()
        self.reset()

    def add(self, loss: LossSum) -> None:
        self._total += loss.total
        self._count += loss.count
        self._tokens += loss.tokens

    def reset(self) -> None:
        self._total, self._count, self._tokens, self._last_log = 0.0, 0, 0, time.monotonic()

    def saved(self) -> None:
        self._last_save = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    @property
    def since_save(self) -> float:
        return time.monotonic() - self._last_save

    @property
    def since_log(self) -> float:
        return time.monotonic() - self._last_log

    @property
    def loss(self) -> float:
        return self._total / self._count if self._count else math.nan

    @property
    def speed(self) -> float:
        return self._tokens / max(self.since_log, 1e-9)


def derived_seed(*parts: int) -> int:
    """Return an independent seed for one purpose, such as (run seed, step, micro-batch)."""
    digest = hashlib.blake2b(np.array(parts, dtype="<i8").tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def build_compute(config: Config, prepared: Prepared, model: Model) -> Compute:
    """Return the function that runs a micro-batch forward and backward."""
    learners = model.learners(config.training.accumulate)

    def compute(micro_batch: MicroBatch) -> LossSum:
        numbers = np.asarray(micro_batch.numbers)
        batch = prepared.task.batch(prepared.train, numbers, seed=config.seed, epoch=micro_batch.epoch)
        torch.manual_seed(derived_seed(*micro_batch.seed))
        loss = learners[micro_batch.learner].train().loss(batch, smoothing=config.training.smoothing)
        loss.objective.backward()
        tokens = 0 if micro_batch.learner else batch.tokens  # counted once for all learners
        return LossSum(loss.total.item(), loss.count, tokens)

    return compute

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from pydantic import BaseModel, PositiveInt, TypeAdapter, ValidationError, field_validator
from torch import Tensor

from seqwright.config import Config
from seqwright.config.validation import Whole
from seqwright.data.plan import Cursor, Plan, batching_of
from seqwright.errors import DivergedError, ModelError, SeqwrightError, WriteError, brief
from seqwright.files import reached
from seqwright.models import Model
from seqwright.nn.batch_norm import tracking_statistics
from seqwright.nn.inference_weights import invalidate_inference_weights
from seqwright.nn.loss import collected_terms
from seqwright.runs.checkpoint import Checkpoint
from seqwright.runs.folder import LONGEST, Run
from seqwright.training import diagnostics
from seqwright.training.averaging import Average
from seqwright.training.budget import Budget
from seqwright.training.interrupt import Interrupt, Interrupted
from seqwright.training.optimizer import OPTIMIZERS, Optimizer
from seqwright.training.preparation import Prepared
from seqwright.training.schedule import SCHEDULES
from seqwright.training.validation import Judged, Validation, Validator
from seqwright.training.workers import Compute, LossSum, MicroBatch, Workers, micro_batches

BAD_STEPS, BAD_WINDOW = 10, 1000  # steps without a finite gradient, in a row, or in a window, that end it
LOG_SECONDS = 5.0
NOT_JUDGED = Judged(math.nan, "higher")
EARLY = 100  # the step of a first validation in a long training, which shows early outputs


@dataclass(frozen=True)
class Progress:
    """The state of a training that is not tensors."""

    step: Whole = 0
    cursor: Cursor = field(default_factory=Cursor)
    seconds: float = 0.0  # training time so far, with validations
    validated: Whole = 0  # the last validated step
    best: float | None = None
    best_error: float = 0.0  # its standard error
    best_step: Whole = 0
    kept_step: Whole = 0  # the step whose weights are the model
    worse: Whole = 0  # validations since the best one
    bad: tuple[int, ...] = ()  # the latest steps without a finite gradient
    finished: bool = False

    def after(self, step: int, judged: Judged) -> Progress:
        """The progress after a validation.

        The kept step is the latest one that is less than a standard error worse than the best: chance alone
        may explain the difference, and more training usually helps.
        """
        seen = replace(self, validated=step, worse=self.worse + 1)
        if judged.beats(self.best):
            seen = replace(seen, worse=0, best=judged.value, best_error=judged.error, best_step=step)
        return replace(seen, kept_step=step) if judged.beats(self.best, self.best_error) else seen

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Progress:
        known = {"kept_step": fields.get("best_step", 0), **fields}  # older runs kept only the best
        return TypeAdapter(cls).validate_python({key: known[key] for key in known if hasattr(cls(), key)})


class State(BaseModel):
    """The contents of `state.json` in a checkpoint: what resuming needs besides the tensors."""

    progress: Progress
    data: str  # the fingerprint of the prepared data
    plan: dict[str, Any]  # what the order of the batches depends on
    threads: PositiveInt

    @field_validator("progress", mode="before")
    @classmethod
    def _progress(cls, value: Any) -> Any:
        return Progress.from_json(value) if isinstance(value, Mapping) else value

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> State:
        try:
            return cls.model_validate(checkpoint.state)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ModelError(f"{checkpoint.path} has a damaged state: {where}: {first['msg']}") from error


@dataclass(frozen=True)
class Report:
    """The state that a listener receives: after some steps, after a validation, or with findings alone."""

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
    """Observes the model at every validation, without changing it."""

    def validated(self, model: Model, validation: Validation, step: int) -> None:
        """Observe the validated weights. An exception is reported and does not stop the training."""

    def rewind(self, step: int) -> None:
        """Discard the records after this step, at which the training starts."""


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
        self.run, self.config = run, config
        self.options = options = config.training
        self.prepared, self.task, self.model = prepared, prepared.task, model
        self.listener, self.observers, self.interrupt = listener, observers, interrupt or Interrupt()
        self.workers = Workers(model, build_compute(config, prepared, model), workers)
        self.learners = len(model.learners(options.accumulate))
        self.plan = Plan(prepared.lengths, batching_of(options), config.seed)
        self.budget = Budget(options, self.plan, run.path("data", "budget.json"))
        self.schedule = SCHEDULES.build(options.schedule)
        self.optimizer: Optimizer = OPTIMIZERS.build(options.optimizer, model)
        self.average = Average(model, options.average) if options.average else None
        self.validator = Validator(
            prepared.valid, self.task, options.metric, tokens=4 * options.tokens, decode=options.decode
        )
        self.checkpoints = run.checkpoints(options.keep)
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
                if self.options.validate_start and self.progress.step == 0 and self.progress.best is None:
                    self._validate()
                while not self._over():
                    self.interrupt.check()
                    self._step(*next(batches))
                    if self._validation_due():
                        self._validate()
                    pause = self.options.save_seconds * min(2**self._failed_saves, 16)
                    if self._meter.seconds - self._meter.saved >= pause:
                        self._save()
        except Interrupted:
            self._save()
            raise
        self._finish()
        return self.progress

    def _over(self) -> bool:
        patience = self.options.patience or math.inf
        return self.budget.over(self.progress.step) or self.progress.worse >= patience

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
            self._meter.sum += loss
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
        if self._meter.seconds - self._meter.logged >= LOG_SECONDS:
            report, names = self._report(), ("step", "loss", "rate", "tokens_per_second", "seconds")
            self.run.log({name: getattr(report, name) for name in names} | {"gradient_norm": norm})
            self.listener(report)
            self._meter.reset()

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
        self.run.check_folder()  # before the observers write into it
        with self.average.applied() if self.average is not None else nullcontext():
            validation = self.validator.validate(self.model, self.interrupt.check)
            self._notify_observers(validation)
        judged = validation.judged(self.options.metric)
        self.progress = self.progress.after(step, judged)
        findings = diagnostics.findings(validation, self.budget.done(step), step)
        if self.options.metric == "loss":
            findings += diagnostics.overfitting(self._meter.recent, validation.loss, step)
        kept = self.progress.kept_step == step
        record = {"step": step, **validation.record(), "kept": kept, "findings": findings}
        self.run.log({**record, "seconds": self._meter.seconds})
        reached("train:validated")
        self.listener(replace(self._report(), validation=validation, findings=tuple(findings)))
        self._save(judged)

    def _notify_observers(self, validation: Validation) -> None:
        """Call the observers. One that fails, on an external part or a full disk, does not stop training."""
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
        """Save a checkpoint. A full disk does not stop the training: the next attempt comes later."""
        self.run.check_folder()
        self.progress = replace(self.progress, seconds=self._meter.seconds)
        step = self.progress.step
        value, better, _ = judged
        kept = math.isfinite(value) and self.progress.kept_step == step
        state = State(
            progress=self.progress,
            data=self.prepared.train.fingerprint,
            plan=self.plan.identity,
            threads=torch.get_num_threads(),
        )
        try:
            self.checkpoints.save(step, self._tensors(), state.model_dump(), value, better, kept=kept)
            self._failed_saves = 0
        except WriteError as error:
            self._failed_saves += 1
            self.run.log({"step": step, "save_failed": str(error), "in_a_row": self._failed_saves})
            self._warn([f"checkpoint not saved ({self._failed_saves} in a row): {error}"])
        self._meter.saved = self._meter.seconds

    def _tensors(self) -> dict[str, dict[str, Tensor]]:
        parts = {"model": self.model.weights(), "optimizer": self.optimizer.tensors()}
        return parts if self.average is None else {**parts, "average": self.average.weights}

    # Start and end ---------------------------------------------------------------------------------

    def _resume(self) -> None:
        found = self.checkpoints.load()
        if found is None:
            self._save()  # finds a disk that cannot be written before the first step
            if self._failed_saves:
                folder = self.checkpoints.folder
                raise WriteError(f"no checkpoint can be written to {folder}; training did not start")
            return
        state = State.of(found)
        self._check_same(found.path, state)
        self.model.take_weights(found.tensors["model"])
        self.optimizer.load(found.tensors["optimizer"])
        if self.average is not None:
            self.average.load(found.tensors["average"])
        self.progress = state.progress
        self.budget.resume(self.progress.step, self.progress.seconds)
        if self.progress.finished and self._over():
            return
        self.progress = replace(self.progress, finished=False)  # more steps may be requested now
        self.run.rewind_log(self.progress.step)
        if self.progress.step and self.progress.validated < self.progress.step and self._validation_due():
            self._meter.start(self.progress.seconds)
            self._validate()

    def _check_same(self, path: Path, state: State) -> None:
        """Raise unless data and batches are the same: a position in the data is valid only for them."""
        way_out = "or train in another folder"
        if state.data != self.prepared.train.fingerprint:
            raise ModelError(f"the training data are not those of {path}; restore them, {way_out}")
        if state.plan != self.plan.identity:
            raise ModelError(
                f"the batches are not those of {path}: {brief(state.plan)} became {self.plan.identity}; "
                f"restore the old options, {way_out}"
            )

    def _finish(self) -> None:
        """Export the weights of the kept step."""
        if self.progress.validated < self.progress.step:
            self._validate()
        best = self.checkpoints.best()
        part = "model" if self.average is None else "average"
        step, weights = self.progress.step, self._tensors()[part]  # used if no validation was finite
        if best is not None:
            kept = self.checkpoints.read(best, parts=[part])
            step, weights = kept.step, kept.tensors[part]
        self.run.save_weights(weights, {"step": str(step), LONGEST: str(self.prepared.longest_input)})
        reached("train:exported")
        self.progress = replace(self.progress, finished=True, kept_step=step)
        self._save()
        if self._failed_saves:
            folder = self.checkpoints.folder
            raise WriteError(f"the last checkpoint was not saved to {folder}; free space, then train again")

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

    def _report(self) -> Report:
        step, seconds = self.progress.step, self._meter.seconds
        done = self.budget.done(step)
        left = seconds / done - seconds if done > 0 else math.nan
        rate = self.optimizer.rate * self.schedule.factor(max(step, 1), done)
        speed = self._meter.sum.tokens / max(seconds - self._meter.logged, 1e-9)
        return Report(step, done, self._meter.loss, rate, speed, seconds, left)


class _Meter:
    """Training time in seconds, at the last checkpoint (`saved`) and log entry (`logged`); losses since."""

    def __init__(self) -> None:
        self.sum, self.before = LossSum(0.0, 0, 0), math.nan
        self.start(0.0)

    def start(self, seconds: float) -> None:
        """Start the clock; earlier processes took `seconds`."""
        self._began, self.saved = time.monotonic() - seconds, seconds
        self.reset()

    def reset(self) -> None:
        self.before = self.loss
        self.sum, self.logged = LossSum(0.0, 0, 0), self.seconds

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def loss(self) -> float:
        return self.sum.total / self.sum.count if self.sum.count else math.nan

    @property
    def recent(self) -> float:
        """The loss since the last log entry, or right after it the loss before."""
        return self.loss if self.sum.count else self.before


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
        first = micro_batch.seed[-1] == 0
        with collected_terms() as terms, tracking_statistics(first):
            loss = learners[micro_batch.learner].train().loss(batch, smoothing=config.training.smoothing)
        sum(terms, loss.objective).backward()
        tokens = 0 if micro_batch.learner else batch.tokens  # counted once for all learners
        return LossSum(loss.total.item(), loss.count, tokens)

    return compute

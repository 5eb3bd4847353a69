"""The training loop, and what one needs around it to stop anywhere and go on as if nothing had happened.

Everything that happens at a step is a function of (data, configuration, seed, step): the batch comes from the
plan, the randomness of dropout is seeded for the step, the learning rate is a function of the share that is
done. So a checkpoint is tensors and a few numbers.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.config import Config
from seqwright.config.registry import check_options, parse
from seqwright.data.batch import Batch
from seqwright.data.plan import Batching, Cursor, Plan, split
from seqwright.errors import DivergedError, ModelError, WriteError
from seqwright.files import reached
from seqwright.lens.trace.history import TRACES, TraceHistory
from seqwright.models import Model
from seqwright.nn.inference_weights import invalidate_inference_weights
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
from seqwright.training.workers import Compute, Outcome, Part, Workers

BAD_IN_A_ROW, BAD_SHARE, BAD_WINDOW = 10, 0.01, 1000  # steps without a finite gradient that end a training
LOG_SECONDS = 5.0
NOT_JUDGED = Judged(math.nan, "higher")
EARLY = 100  # the step of a first validation in a long training, so that one sees soon what comes out


@dataclass(frozen=True)
class Progress:
    """What a checkpoint says beside tensors."""

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    seconds: float = 0.0  # of training so far, validations included
    validated: int = 0  # the last step that was validated
    best: float | None = None
    best_error: float = 0.0  # its standard error
    best_step: int = 0
    kept_step: int = 0  # whose weights are the model: the latest that is no worse, but for chance
    worse: int = 0  # validations since the best one
    bad: tuple[int, ...] = ()  # the latest steps whose gradient was not finite
    finished: bool = False

    def after(self, step: int, judged: Judged) -> Progress:
        """When a validation has judged a step. The weights of the latest one are kept that is less than a
        standard error worse than the best: of scores that chance alone may have ordered the later one is
        taken, as more training mostly helps.
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
        known.setdefault("kept_step", fields.get("best_step", 0))  # of a time when only the best was kept
        return cls(
            **{**known, "cursor": Cursor.from_json(fields["cursor"]), "bad": tuple(fields.get("bad", ()))}
        )


@dataclass(frozen=True)
class Report:
    """What a listener gets to know after a step (`validation` None) or a validation."""

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
        helpers: int = 0,
    ):
        self.run, self.config, self.options = run, config, config.training
        self.prepared, self.task, self.model = prepared, prepared.task, model
        self.listener, self.interrupt = listener, interrupt or Interrupt()
        self.crew = Workers(model, computing(config, prepared, model), helpers)
        self.learners = len(model.learners(self.options.accumulate))
        self.plan = Plan(prepared.train.lengths, Batching(tokens=self.options.tokens), config.seed)
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
        self.moments = TraceHistory(run.path(TRACES), self.task, config.search, count=self.options.traces)
        self.checkpoints = run.checkpoints(self.options.keep)
        self.progress = Progress()
        self._unsaved = 0  # saves that failed in a row
        self._meter = _Meter()

    # The way of a training -------------------------------------------------------------------------

    def train(self) -> Progress:
        """From the latest checkpoint, or from the start, to the end."""
        self._resume()
        if self.progress.finished:
            return self.progress
        self.moments.rewind(self.progress.step)
        self._meter.start(self.progress.seconds)
        batches = self._batches()
        try:
            with self.crew:
                while not self._over():
                    self.interrupt.check()
                    self._step(*next(batches))
                    if self._validation_due():
                        self._validate()
                    self._save_if_due()
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

    def _batches(self) -> Iterator[tuple[list[Part], Cursor]]:
        """The batches from here on, each in its parts, with the position behind it."""
        for numbers, after in self.plan.walk(self.progress.cursor):
            seed = self.config.seed, self.progress.step + 1
            epoch, parts = self.progress.cursor.epoch, self.options.accumulate
            yield parts_of(numbers, parts, epoch, seed, self.learners), after

    def _step(self, parts: list[Part], after: Cursor) -> None:
        step = self.progress.step + 1
        self.optimizer.zero_grad()
        outcome, norm = gradients(self.crew, parts, self.options.clip)
        if math.isfinite(outcome.total) and math.isfinite(norm):
            self.optimizer.step(self.schedule.factor(step, self.budget.done(step)))
            invalidate_inference_weights(self.model)
            if self.average is not None:
                self.average.update(step)
            self._meter.add(outcome.total, outcome.count, outcome.tokens)
        else:
            self._skip(step, parts, outcome.total, norm)
        self.progress = replace(self.progress, step=step, cursor=after)
        if step == 1:
            self._say(diagnostics.first_loss(outcome.total / outcome.count, self.task.target.size))
        reached("train:step")
        if self.budget.wants_estimate(step, self._meter.seconds):
            self._estimate()
        if self._meter.due:
            self._log_step(norm)

    def _estimate(self) -> None:
        """How many steps are left in the minutes. A full disk stops no training: what could not be written
        is written with the next estimate.
        """
        try:
            self.budget.estimate(self.progress.step, self._meter.seconds)
        except WriteError as error:
            self._say([f"the estimate of the last step was not written: {error}"])

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
            self._trace(validation)
        judged = validation.judged(self.options.metric)
        self.progress = self.progress.after(step, judged)
        findings = diagnostics.findings(validation, self.budget.done(step), step)
        kept = self.progress.kept_step == step
        record = {"step": step, **validation.record(), "kept": kept, "findings": findings}
        self.run.log({**record, "seconds": self._meter.seconds})
        reached("train:validated")
        self.listener(replace(self._report(), validation=validation, findings=tuple(findings)))
        self._save(judged)

    def _trace(self, validation: Validation) -> None:
        """For the page that plays the training back. Whatever refuses to be looked into or written, a part
        from outside or a full disk, stops no training: the log says why there is no trace.
        """
        try:
            self.moments.keep(self.model, validation, self.progress.step)
        except Exception as error:
            self.run.log({"step": self.progress.step, "untraced": str(error) or repr(error)})

    def _save_if_due(self) -> None:
        if self._meter.since_save >= self.options.save_seconds * min(2**self._unsaved, 16):
            self._save()

    def _save(self, judged: Judged = NOT_JUDGED) -> None:
        """A checkpoint of now. A disk that refuses does not stop the training; the next try comes later."""
        self.progress = replace(self.progress, seconds=self._meter.seconds)
        step = self.progress.step
        value, better, _ = judged
        kept = math.isfinite(value) and self.progress.kept_step == step
        try:
            self.checkpoints.save(step, self._tensors(), self._state(), value, better, kept=kept)
            self._unsaved = 0
        except WriteError as error:
            self._unsaved += 1
            self.run.log({"step": self.progress.step, "save_failed": str(error), "in_a_row": self._unsaved})
            self._say([f"checkpoint not saved ({self._unsaved} in a row): {error}"])
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

    # Beginning and end -----------------------------------------------------------------------------

    def _resume(self) -> None:
        found = self.checkpoints.load()
        if found is None:
            self._save()  # so that a disk that cannot be written is found before the first hour, not after
            if self._unsaved:
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
        self.progress = replace(self.progress, finished=False)  # or more steps are wanted now
        self.run.rewind_log(self.progress.step)
        if self.progress.step and self.progress.validated < self.progress.step and self._validation_due():
            self._meter.start(self.progress.seconds)
            self._validate()

    def _check_same(self, found: Checkpoint) -> None:
        """A position in the data means something only for the same data, cut in the same way."""
        if found.state["data"] != self.prepared.train.fingerprint:
            raise ModelError(
                f"the training data are not those of {found.path}; put the old ones back, or "
                "train into another folder"
            )
        if found.state["plan"] != self.plan.identity:
            raise ModelError(
                f"the batches are not those of {found.path}: {found.state['plan']} became "
                f"{self.plan.identity}; "
                "put the old options back, or train into another folder"
            )

    def _finish(self) -> None:
        """The weights to use are those that a validation chose."""
        if self.progress.validated < self.progress.step:
            self._validate()
        best = self.checkpoints.best()
        part = "model" if self.average is None else "average"
        longest = {LONGEST: str(self.prepared.train.lengths.source.max())}
        step, weights = self.progress.step, self._tensors()[part]  # if no validation had a finite value
        if best is not None:
            kept = self.checkpoints.read(best, parts=[part])
            step, weights = kept.step, kept.tensors[part]
        self.run.save_weights(weights, {"step": str(step), **longest})
        reached("train:exported")
        self.progress = replace(self.progress, finished=True, kept_step=step)
        self._save()
        if self._unsaved:
            raise WriteError(
                f"the last checkpoint was not saved to {self.checkpoints.folder}; make room, run again"
            )

    # What is said ----------------------------------------------------------------------------------

    def _skip(self, step: int, parts: list[Part], total: float, norm: float) -> None:
        """A step without an update; too many of them end the training."""
        bad = (*(b for b in self.progress.bad if b > step - BAD_WINDOW), step)
        self.progress = replace(self.progress, bad=bad)
        numbers = dict.fromkeys(i for part in parts for i in part.numbers)  # some parts have the same
        places = [self.prepared.train.place(i) for i in numbers]
        self.run.log({"step": step, "skipped": {"loss": total, "gradient_norm": norm, "examples": places}})
        in_a_row = bad[-BAD_IN_A_ROW:] == tuple(range(step - BAD_IN_A_ROW + 1, step + 1))
        if in_a_row or len(bad) > max(BAD_IN_A_ROW, BAD_SHARE * BAD_WINDOW):
            latest = self.checkpoints.load(verify=False)
            raise DivergedError(
                f"{len(bad)} of the last {BAD_WINDOW} steps had no finite gradient, the last at step {step}; "
                f"the last good checkpoint is {latest and latest.path}; lower training.optimizer.rate, "
                "or look at the lines that metrics.jsonl names"
            )

    def _say(self, findings: list[str]) -> None:
        if findings:
            self.run.log({"step": self.progress.step, "findings": findings})
            self.listener(replace(self._report(), findings=tuple(findings)))

    def _log_step(self, norm: float) -> None:
        report = self._report()
        self.run.log(
            {
                "step": report.step,
                "loss": report.loss,
                "rate": report.rate,
                "gradient_norm": norm,
                "tokens_per_second": report.tokens_per_second,
                "seconds": report.seconds,
            }
        )
        self.listener(report)
        self._meter.reset()

    def _report(self) -> Report:
        step, seconds = self.progress.step, self._meter.seconds
        done = self.budget.done(step)
        left = seconds / done - seconds if done > 0 else math.nan
        rate = self.optimizer.rate * self.schedule.factor(max(step, 1), done)
        return Report(step, done, self._meter.loss, rate, self._meter.speed, seconds, left)


class _Meter:
    """Time and speed, by the monotonic clock."""

    def __init__(self) -> None:
        self._began = self._last_save = self._last_log = time.monotonic()
        self._before = self._total = 0.0
        self._count = self._tokens = 0

    def start(self, seconds: float) -> None:
        """`seconds` have passed in earlier processes."""
        self._before = seconds
        self._began = self._last_save = self._last_log = time.monotonic()

    def add(self, total: float, count: int, tokens: int) -> None:
        self._total, self._count, self._tokens = (
            self._total + total,
            self._count + count,
            self._tokens + tokens,
        )

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
    def due(self) -> bool:
        return time.monotonic() - self._last_log >= LOG_SECONDS

    @property
    def loss(self) -> float:
        return self._total / self._count if self._count else math.nan

    @property
    def speed(self) -> float:
        return self._tokens / max(time.monotonic() - self._last_log, 1e-9)


def derived_seed(*parts: int) -> int:
    """A seed for one purpose out of the seed of all."""
    digest = hashlib.blake2b(np.array(parts, dtype="<i8").tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def build_optimizer(spec: Any, model: nn.Module) -> Optimizer:
    name, options = parse("optimizer", spec)
    kind = OPTIMIZERS.get(name)
    check_options(f"optimizer {name}", kind, options)
    return kind(model, **options)


def parts_of(batch: np.ndarray, parts: int, epoch: int, seed: Sequence[int], learners: int = 1) -> list[Part]:
    """Of the examples with these numbers: some of them each, or all of them for each of several learners.
    Dropout is decided by the seed and the number of the part.
    """
    if learners > 1:
        return [Part(batch.tolist(), epoch, (*seed, number), number) for number in range(learners)]
    divided = [numbers.tolist() for numbers in split(batch, parts) if len(numbers)]
    return [Part(numbers, epoch, (*seed, number)) for number, numbers in enumerate(divided)]


def computing(config: Config, prepared: Prepared, model: Model) -> Compute:
    learners = model.learners(config.training.accumulate)

    def compute(part: Part) -> Outcome:
        numbers = np.asarray(part.numbers)
        batch = prepared.task.batch(prepared.train, numbers, seed=config.seed, epoch=part.epoch)
        torch.manual_seed(derived_seed(*part.seed))
        loss = learners[part.learner].train().loss(batch, smoothing=config.training.smoothing)
        loss.objective.backward()
        read = 0 if part.learner else _tokens(batch)  # once, however many read them
        return Outcome(loss.total.item(), loss.count, read)

    return compute


def gradients(crew: Workers, parts: Sequence[Part], clip: float | None) -> tuple[Outcome, float]:
    """Of the mean loss over all parts, clipped, and its norm before."""
    outcome = crew.gradients(parts)
    found = [parameter.grad for parameter in crew.parameters if parameter.grad is not None]
    torch._foreach_div_(found, outcome.count)
    return outcome, nn.utils.clip_grad_norm_(crew.parameters, clip or math.inf).item()


def _tokens(batch: Batch) -> int:
    """Of both sides, without padding."""
    lengths = batch.source.lengths
    return batch.count + (batch.source.ids.numel() if lengths is None else int(lengths.sum()))

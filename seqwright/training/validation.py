"""Validation: the loss, the outputs for some fixed inputs, and whether the model uses its input at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from seqwright.data.plan import Batching, Plan, evenly
from seqwright.data.store import Store
from seqwright.data.task import Item, Task, TaskBatch, group_items
from seqwright.data.tokenizer import UNK
from seqwright.evaluation.bootstrap import Measured
from seqwright.evaluation.metrics import METRICS, Better, Score
from seqwright.models import Model, eval_mode
from seqwright.nn.feedforward import recorded_usage

EXAMPLES, TOKENS = 2000, 12_000  # for the loss, at most, evenly spread: a validation has to be quick
LEAST = 400  # examples for the loss, however long they are
PROBES = 3  # of the decoded inputs are shown at every validation
TIE = 1e-6  # what a nat of loss counts next to a score: less than any difference of scores


class Judged(NamedTuple):
    """What a model is judged by: a value, which way is better, and its standard error."""

    value: float
    better: Better
    error: float = 0.0

    def beats(self, best: float | None, slack: float = 0.0) -> bool:
        """Whether it is better than the best so far, or with `slack` less than that much worse."""
        if not math.isfinite(self.value) or best is None:
            return math.isfinite(self.value)
        ahead = self.value - best if self.better == "higher" else best - self.value
        return ahead + slack > 0


class Probe(NamedTuple):
    """An item that is shown at every validation, with its input as a line."""

    line: str
    item: Item[Any, Any]


@dataclass(frozen=True)
class Validation:
    """The result of one validation. Losses are means per token, in nats.

    shuffled_loss: the loss with the inputs of other examples, which a model that ignores its input shares.
    unknown: the share of tokens that the tokenizers do not know. experts: the share of tokens that each
    expert of a mixture receives, by the name of the mixture.
    """

    loss: float
    shuffled_loss: float
    unknown: float
    measured: tuple[Measured, ...]
    items: tuple[Item[Any, Any], ...]
    inputs: tuple[str, ...]  # of the items, as lines
    experts: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def scores(self) -> tuple[Score, ...]:
        return tuple(each.score for each in self.measured)

    def judged(self, metric: str) -> Judged:
        """Judge by a metric of the outputs, or by the loss. Among equal scores the loss decides. The loss
        counts as exact: which of two models has the lower one on the same tokens hardly depends on chance.
        """
        if metric == "loss":
            return Judged(self.loss, "lower")
        name = METRICS.build(metric).name
        found = next(each for each in self.measured if each.metric.name == name)
        better, nudge = found.metric.better, TIE * self.loss if math.isfinite(self.loss) else 0.0
        error = found.error if math.isfinite(found.error) else 0.0
        return Judged(found.value() + (nudge if better == "lower" else -nudge), better, error)

    @property
    def probes(self) -> list[Probe]:
        """A few items, the same at every validation."""
        apart = max(len(self.items) // PROBES, 1)
        every = [Probe(*each) for each in zip(self.inputs, self.items, strict=True)]
        return every[apart // 2 :: apart][:PROBES]  # the first of a sorted file are rarely typical

    def record(self) -> dict[str, Any]:
        """Return the record of the log."""
        scores = {score.name: score.value for score in self.scores}
        probes = [
            {"source": line, "reference": item.references[0], "output": item.output.value}
            for line, item in self.probes
        ]
        found = {"valid_loss": self.loss, "shuffled_loss": self.shuffled_loss, **scores, "probes": probes}
        return found | ({"experts": dict(self.experts)} if self.experts else {})


class Validator:
    """Validates a model on a readable store, always on the same examples in the same order."""

    def __init__(self, store: Store, task: Task[Any, Any], metric: str, *, tokens: int, decode: int):
        """`metric` is computed in addition to the usual ones of the task."""
        self.store, self.task = store, task
        lengths = task.lengths(store)
        length = float(np.mean(lengths.counted + 1)) if len(store) else 1.0
        self.picked = evenly(len(store), min(EXAMPLES, max(int(TOKENS / length), LEAST)))
        batching = Batching(tokens=tokens, shuffle=False)
        self.epoch = Plan(lengths.select(self.picked), batching, seed=0).epoch(0)
        read = evenly(len(store), decode).tolist() if task.judging.fixed else range(len(store))
        examples, references, _ = group_items(task, (task.stored(store, i) for i in read))
        judge = task.judge(
            examples, references, metrics=() if metric == "loss" else (metric,), validation=True
        )
        self.metrics = judge.metrics
        chosen = evenly(len(examples), decode).tolist()
        self.items = [(examples[i], references[i]) for i in chosen]
        self.inputs = tuple(task.caption(example) for example, _ in self.items)

    def validate(self, model: Model, check: Callable[[], None] = lambda: None) -> Validation:
        """Validate; `check` is called between batches and may raise, to leave in the middle."""
        with eval_mode(model):
            with recorded_usage(model) as counts:
                loss, shuffled = self._losses(model, check)
            outputs = self.task.draft(model, self.items, check) if self.items else []
        references = [answers for _, answers in self.items]
        found = [(metric, [*map(metric.seen, outputs)]) for metric in self.metrics if outputs]
        measured = tuple(metric.measured(values, references) for metric, values in found)
        items = tuple(
            Item(example, tuple(answers), output)
            for (example, answers), output in zip(self.items, outputs, strict=True)
        )
        experts = {name: (each / each.sum()).tolist() for name, each in counts.items()}
        return Validation(loss, shuffled, self.unknown, measured, items, self.inputs, experts)

    @cached_property
    def unknown(self) -> float:
        """The share of <unk> in the columns of ids."""
        found = count = 0
        names = [column.name for column in self.task.columns(readable=False) if column.limit is not None]
        for numbers in self.epoch:
            for name in names:
                rows = self.store.column(name).gather(self.picked[numbers])
                found, count = found + int((rows.flat == UNK).sum()), count + len(rows.flat)
        return found / max(count, 1)

    def _losses(self, model: Model, check: Callable[[], None]) -> tuple[float, float]:
        """Return the mean loss over all, and that with shuffled inputs, estimated from every eighth batch."""
        total = count = higher = seen = 0.0
        with torch.inference_mode():
            for number, numbers in enumerate(self.epoch):
                check()
                batch: TaskBatch = self.task.batch(self.store, self.picked[numbers])
                loss = model.loss(batch)
                total, count = total + float(loss.total), count + loss.count
                if number % 8 == 0 and batch.rows > 1:
                    wrong = model.loss(batch.with_shuffled_inputs())
                    higher, seen = higher + float(wrong.total - loss.total), seen + wrong.count
        mean = total / max(count, 1)
        return mean, mean + higher / seen if seen else float("nan")

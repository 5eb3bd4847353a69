"""How good the model is by now: its loss, what it says for some fixed sources, and whether it looks at them
at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from seqwright.data.batch import Batch
from seqwright.data.plan import Batching, Plan
from seqwright.data.results import Text
from seqwright.data.store import Lengths, Store
from seqwright.data.tokenizer import UNK
from seqwright.evaluation.bootstrap import Measured
from seqwright.evaluation.metrics import METRICS, Better, Score
from seqwright.evaluation.text_outputs import Writing, as_written, build_metric, group_references, writing_of
from seqwright.models import Model
from seqwright.prediction.predictor import Predictor
from seqwright.search import BeamOptions
from seqwright.tasks.text_to_text import Translation

PAIRS, TOKENS = 2000, 12_000  # for the loss, at most, evenly picked: a validation has to be quick
TOGETHER = 64  # sources decoded at a time, of targets that are about as long
PROBES = 3  # of the decoded sources are shown at every validation
USUAL: dict[Writing, tuple[str, ...]] = {
    "text": ("bleu", "chrf"),
    "symbols": ("exact_match", "symbol_error_rate"),
    "characters": ("exact_match", "symbol_error_rate"),
}
TIE = 1e-6  # what a nat of loss counts beside a score: less than any difference of scores


@dataclass(frozen=True)
class Item:
    """A source, what may be said for it, and what was."""

    source: str
    references: tuple[str, ...]
    output: Text


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


@dataclass(frozen=True)
class Validation:
    """What one validation found. Losses are means per token, in nats."""

    loss: float
    shuffled_loss: (
        float  # with the sources of other sentences: what the model says without knowing its source
    )
    unknown: float  # the share of the tokens that the tokenizers do not know
    measured: tuple[Measured, ...]
    items: tuple[Item, ...]

    @property
    def scores(self) -> tuple[Score, ...]:
        return tuple(each.score for each in self.measured)

    def judged(self, metric: str) -> Judged:
        """By a metric of the outputs, or by the loss. Among equal scores the loss decides. The loss counts as
        exact: it hardly depends on chance which of two models has the lower one on the same tokens.
        """
        if metric == "loss":
            return Judged(self.loss, "lower")
        name = METRICS.build(metric).name
        found = next(each for each in self.measured if each.metric.name == name)
        better, nudge = found.metric.better, TIE * self.loss if math.isfinite(self.loss) else 0.0
        error = found.error if math.isfinite(found.error) else 0.0
        return Judged(found.value() + (nudge if better == "lower" else -nudge), better, error)

    @property
    def probes(self) -> tuple[Item, ...]:
        """A few items, the same at every validation."""
        apart = max(len(self.items) // PROBES, 1)
        return self.items[apart // 2 :: apart][:PROBES]  # the first of a sorted file are seldom typical

    def record(self) -> dict[str, Any]:
        """For the log."""
        scores = {score.name: score.value for score in self.scores}
        probes = [
            {"source": p.source, "reference": p.references[0], "output": p.output.text} for p in self.probes
        ]
        return {"valid_loss": self.loss, "shuffled_loss": self.shuffled_loss, **scores, "probes": probes}


class Validator:
    """Validates a model on a store with texts, always on the same sentences in the same order."""

    def __init__(self, store: Store, task: Translation, metric: str, *, tokens: int, decode: int):
        """`metric` is computed beside those that tell something for targets written like these."""
        self.store, self.task = store, task
        length = float(np.mean(store.lengths.target + 1)) if len(store) else 1.0
        self.picked = evenly(len(store), min(PAIRS, max(int(TOKENS / length), 1)))
        lengths = Lengths(*(side[self.picked] for side in store.lengths))
        self.epoch = Plan(lengths, Batching(tokens=tokens, shuffle=False), seed=0).epoch(0)
        texts = [store.texts(i) for i in range(len(store))]
        writing = writing_of(task.target.kind, [target for _, target in texts])
        sources, references = group_references(
            (source, as_written(target, writing)) for source, target in texts
        )
        chosen = evenly(len(sources), decode).tolist()
        self.sources, self.references = [sources[i] for i in chosen], [references[i] for i in chosen]
        self.longest = [max(len(task.target.encode(text)) for text in texts) for texts in self.references]
        names = dict.fromkeys([*USUAL[writing], *([] if metric == "loss" else [metric])])
        self.metrics = [build_metric(name, writing) for name in names]

    def validate(self, model: Model, check: Callable[[], None] = lambda: None) -> Validation:
        """`check` is called between batches and may raise, to leave in the middle."""
        was_training = model.training
        model.eval()
        try:
            loss, shuffled = self._losses(model, check)
            outputs = self._outputs(Predictor(model, self.task), check)
        finally:
            model.train(was_training)
        texts = [output.text for output in outputs]
        measured = tuple(metric.measured(texts, self.references) for metric in self.metrics) if texts else ()
        items = zip(self.sources, map(tuple, self.references), outputs, strict=True)
        return Validation(loss, shuffled, self.unknown, measured, tuple(Item(*item) for item in items))

    def _outputs(self, predictor: Predictor, check: Callable[[], None]) -> list[Text]:
        """By greedy search, and cut at about twice the length that is right: while a model finds no end yet,
        its outputs would take longer than its training.
        """
        found: dict[int, Text] = {}
        order = sorted(range(len(self.sources)), key=self.longest.__getitem__)
        for start in range(0, len(order), TOGETHER):
            places = order[start : start + TOGETHER]
            options = BeamOptions(size=1, max_length=2 * self.longest[places[-1]] + 10)
            sources = [self.sources[place] for place in places]
            found |= zip(places, predictor.stream(sources, options=options, check=check), strict=True)
        return [found[place] for place in range(len(order))]

    @cached_property
    def unknown(self) -> float:
        """The share of <unk> among the tokens of both sides."""
        found = count = 0
        for numbers in self.epoch:
            for rows in self.store.gather(self.picked[numbers]):
                found, count = found + int((rows.flat == UNK).sum()), count + len(rows.flat)
        return found / max(count, 1)

    def _losses(self, model: Model, check: Callable[[], None]) -> tuple[float, float]:
        """The mean loss over all, and that with the sources moved by one row; how much higher that is, every
        eighth batch tells.
        """
        total = count = higher = seen = 0.0
        with torch.inference_mode():
            for number, batch in enumerate(self._batches(check)):
                loss = model.loss(batch)
                total, count = total + float(loss.total), count + loss.count
                if number % 8 == 0 and batch.rows > 1:
                    wrong = model.loss(_with_other_sources(batch))
                    higher, seen = higher + float(wrong.total - loss.total), seen + wrong.count
        mean = total / max(count, 1)
        return mean, mean + higher / seen if seen else float("nan")

    def _batches(self, check: Callable[[], None]) -> Iterator[Batch]:
        for numbers in self.epoch:
            check()
            yield self.task.batch(self.store, self.picked[numbers])


def evenly(count: int, wanted: int) -> np.ndarray:
    """At most `wanted` of the numbers below `count`, from the first to the last."""
    return np.linspace(0, count - 1, min(count, wanted)).astype(np.int64)


def _with_other_sources(batch: Batch) -> Batch:
    rolled = {
        name: None if value is None else value.roll(1, 0)
        for name, value in (("ids", batch.source.ids), ("lengths", batch.source.lengths))
    }
    return Batch(type(batch.source)(**rolled), batch.target, batch.expected, batch.index)

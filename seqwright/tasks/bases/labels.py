"""The base of classifiers: answers, calibration and judging of inputs with one label each."""

from __future__ import annotations

import math
import reprlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from seqwright.data.calibration import fitted_temperature, log_softmax, threshold
from seqwright.data.labels import LABELS as LABELS
from seqwright.data.labels import Labels
from seqwright.data.results import Label, Reading
from seqwright.data.task import Item, Judge, Mistake, Row, Table, Task
from seqwright.data.text_display import shorten_list
from seqwright.errors import InputError
from seqwright.evaluation.class_table import class_table, confusion_table
from seqwright.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from seqwright.models import Model

E = TypeVar("E")
USUAL = ("accuracy", "macro_f1", "expected_calibration_error")


class LabelTask(Task[E, Label]):
    """A task whose examples have a `label` (None for an input without one) and a `place`.

    A subclass is a dataclass with a field `labels`; it says how inputs are encoded and scored.
    """

    labels: Labels
    usual_metrics: tuple[str, ...] = USUAL
    models = ("encoder_only",)

    @abstractmethod
    def scores(self, model: Any, rows: Sequence[Row[E]]) -> np.ndarray:
        """Return the scores of the labels, (N, labels) float64."""

    def reading(self, row: Row[E], limit: int) -> Reading:
        """Count the tokens of an input, of which `limit` are read."""
        return Reading()

    @classmethod
    def label(cls, example: Any) -> str:
        assert example.label is not None
        return example.label

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def counted(cls, examples: Callable[[], Iterable[E]]) -> Counter[str]:
        """Count the labels of the training split; a classifier needs at least two."""
        counts = Counter(cls.label(example) for example in examples())
        if len(counts) < 2:
            (only,) = counts or [""]
            noun = cls.nouns.example
            message = f"every {noun} has the label {only!r}; a classifier needs at least two labels"
            raise InputError(message)
        return counts

    def calibrated(self, model: Model, examples: Sequence[E]) -> Self:
        """Fit the temperature, then choose the probability below which answers are marked as unsure."""
        known = [example for example in examples if self.label(example) in self.labels.numbers]
        if not known:
            return self
        scores = self.scores(model, self.encode(known))
        right = np.array([self.labels.numbers[self.label(example)] for example in known])
        temperature = fitted_temperature(scores, right)
        unsure = threshold(scores / temperature, right)
        labels = replace(self.labels, temperature=temperature, unsure=unsure)
        return replace(self, labels=labels)  # type: ignore[type-var]

    def label_column(self, example: Any) -> dict[str, list[int]]:
        """Return the column of the label's number; none for an input without a label."""
        if example.label is None:
            return {}
        if example.label in self.labels.numbers:
            return {"label": [self.labels.numbers[example.label]]}
        where = f"{example.place}: " if example.place.file else ""  # examples in memory have no place
        noun = self.nouns.example
        raise InputError(
            f"{where}the label {reprlib.repr(example.label)} does not occur in the training data, whose "
            f"labels are {shorten_list(self.labels.names)}; remove the {noun}, or add such {noun}s to the "
            "training files"
        )

    def facts(self) -> Mapping[str, Any]:
        return {"classes": len(self.labels.counts), "class_counts": self.labels.counts}

    @property
    def chance_loss(self) -> float:
        return math.log(len(self.labels.names))

    # Answers ---------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float:
        return self.labels.unsure

    def answer(
        self, model: Model, rows: Sequence[Row[E]], request: Any, numbers: Sequence[int] = ()
    ) -> list[Label]:
        scores = self.scores(model, rows) / self.labels.temperature
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        chances, limit = powers / powers.sum(-1, keepdims=True), self.input_limit(model)
        return [self._answer(row, own, limit) for row, own in zip(rows, chances, strict=True)]

    def _answer(self, row: Row[E], chances: np.ndarray, limit: int) -> Label:
        order = np.argsort(-chances, kind="stable")
        probabilities = {self.labels.names[i]: float(chances[i]) for i in order.tolist()}
        best, probability = next(iter(probabilities.items()))
        unsure, source = probability < self.labels.unsure, self.to_line(row.example)
        return Label(best, probabilities, unsure, source=source, reading=self.reading(row, limit))

    def score(self, model: Model, examples: Sequence[E]) -> list[float]:
        """Return log p(label | input) of each example."""
        rows = self.encode(examples)
        scores = self.scores(model, rows) / self.labels.temperature
        logs = log_softmax(scores)
        return [float(log[row.columns["label"][0]]) for log, row in zip(logs, rows, strict=True)]

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: E) -> str:
        return self.label(example)

    def judge(
        self,
        examples: Sequence[E],
        references: Sequence[Sequence[str]],
        *,
        metrics: Sequence[Any] = (),
        validation: bool = False,
        **options: Any,
    ) -> Judge:
        usual = self.usual_metrics
        specs = dict.fromkeys((*usual, *metrics)) if validation else metrics or usual
        built = tuple(METRICS.build(spec) for spec in specs)
        settings = {"writing": "text"}
        if calibration := self.labels.calibration:
            settings["context"] = calibration
        return Judge(built, settings, {metric.name: metric.title for metric in built})

    def mistakes(self, judge: Judge, items: Sequence[Item[E, Label]]) -> list[Mistake]:
        """A wrong label is the worse, the surer the model is of it."""
        found = []
        for item in items:
            expected, label = item.references[0], item.output.label
            wrong = label not in item.references
            changes = ((expected, label),) if wrong else ()
            share = item.output.probability if wrong else 0.0
            found.append(Mistake(expected if wrong else label, int(wrong), share, changes))
        return found

    def tables(self, items: Sequence[Item[E, Label]]) -> dict[str, Table]:
        expected = [
            item.output.label if item.output.label in item.references else item.references[0]
            for item in items
        ]
        outputs = [item.output.label for item in items]
        return {"label": class_table(expected, outputs), "confusion": confusion_table(expected, outputs)}

    def baseline(self, example: E) -> str:
        """Always the most frequent label of the training data."""
        return self.labels.names[int(np.argmax(self.labels.counts))]

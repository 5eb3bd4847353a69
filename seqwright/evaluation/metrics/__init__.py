"""Metrics: scores of outputs against references, one file per metric.

A metric maps every item to a row of statistics, and the sum of rows to a score. Resampling items is therefore
resampling rows, and one bootstrap serves every metric, corpus-level BLEU included. An item may have several
references. Scores are percentages. Shapes: N items, F statistics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from seqwright.config.registry import Registry, snake_case
from seqwright.errors import InputError

if TYPE_CHECKING:
    from seqwright.data.results import Prediction
    from seqwright.evaluation.bootstrap import Measured

METRICS = Registry("metric", "seqwright.evaluation.metrics", "seqwright.evaluation.metrics:Metric")

FAMILIES = {"rouge": ("rouge_1", "rouge_2", "rouge_l")}  # names that stand for several metrics

Better = Literal["higher", "lower"]
T = TypeVar("T")  # an output: a text, a label, a list of tags, a number


@dataclass(frozen=True)
class Score:
    """A value and what is needed to compare it: `signature` states how it was computed."""

    name: str
    value: float
    signature: str
    better: Better


class Metric(ABC, Generic[T]):
    """Statistics per item, and the score of their sum.

    `label`, `unit`, `decimals` and `meaning` are for people; without a label it is the name with spaces.
    `target` is the right value of a metric where neither more nor less is better.
    """

    better: ClassVar[Better]
    target: ClassVar[float | None] = None
    label: ClassVar[str] = ""
    unit: ClassVar[str] = " %"
    decimals: ClassVar[int] = 1
    meaning: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return snake_case(type(self).__name__)

    @classmethod
    def direction(cls) -> str:
        """The values that are better, for people."""
        return f"{cls.better} is better" if cls.target is None else f"{cls.target:g} is right"

    @classmethod
    def places(cls, value: float) -> int:
        """Return the number of decimals with which a value is shown."""
        return cls.decimals

    @property
    def arrow(self) -> str:
        """The direction that is better."""
        if self.target is not None:
            return f"→ {self.target:g}"
        return "↑" if self.better == "higher" else "↓"

    @property
    def title(self) -> str:
        """The name for people."""
        return self.label or self.name.replace("_", " ")

    def seen(self, prediction: Prediction) -> T:
        """Return what the metric reads of a prediction: its plain answer."""
        return prediction.value

    @property
    def reads_answers(self) -> bool:
        """Whether a plain answer, such as a baseline, is enough."""
        return type(self).seen is Metric.seen

    @abstractmethod
    def statistics(self, outputs: Sequence[T], references: Sequence[Sequence[T]]) -> np.ndarray:
        """Return one row per item (N, F)."""

    def total(self, rows: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
        """Return the sum of rows (F,), each counted so many times (N,); a sum of sums is that of all rows."""
        return rows.sum(0) if times is None else times @ rows

    @abstractmethod
    def value(self, totals: np.ndarray) -> float:
        """Return the score of a set of items from the sum of their rows (F,)."""

    def signature(self, references: Sequence[Sequence[T]]) -> str:
        """Return what must be equal for two scores to be comparable."""
        return f"refs:{reference_count(references)}"

    def score(self, outputs: Sequence[T], references: Sequence[Sequence[T]]) -> Score:
        return self.measured(outputs, references).score

    def measured(self, outputs: Sequence[T], references: Sequence[Sequence[T]]) -> Measured:
        """Return the statistics of these items: they give the score of any subset, and its interval."""
        from seqwright.evaluation.bootstrap import Measured

        if len(outputs) != len(references):
            raise InputError(f"{len(outputs)} outputs for {len(references)} items; pass one output per item")
        if not outputs:
            raise InputError("nothing to score; pass at least one item")
        for number, given in enumerate(references, 1):
            if not given or isinstance(given, str):
                raise InputError(f"item {number} has the references {given!r}; pass a list of at least one")
        return Measured(self, self.statistics(outputs, references), self.signature(references))


def built_in(name: str) -> type[Metric[Any]] | None:
    """Return the class of a built-in metric, None for any other name: nothing else is imported."""
    return METRICS.get(name) if name in METRICS.names() else None


def reference_count(references: Sequence[Sequence[object]]) -> str:
    """The number of references per item as sacreBLEU writes it: `var` if it varies."""
    counts = {len(given) for given in references}
    return str(counts.pop()) if len(counts) == 1 else "var"

"""Accuracy of the five most probable labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from seqwright.evaluation.metrics.bases import Share

MOST = 5


class Top5(Share[Any]):
    """Items whose right label is among the five most probable ones, over items."""

    better = "higher"
    label = "top-5 accuracy"
    meaning = "of the items have the right label among the five most probable ones"

    @property
    def name(self) -> str:
        return "top_5"

    def seen(self, prediction: Any) -> tuple[str, ...]:
        return tuple(islice(prediction.probabilities, MOST))

    def counts(self, output: Any, references: Sequence[Any]) -> bool:
        return any(label in references for label in output)

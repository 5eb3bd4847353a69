"""Confidence intervals and significance of any metric, by resampling items (Efron 1979)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqwright.evaluation.metrics import Metric, Score, T


@dataclass(frozen=True)
class Interval:
    """The range that holds a score with probability `level`, if the items are a sample of many."""

    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same items. `difference` is second − first, `p_value` that of no difference."""

    first: Score
    second: Score
    difference: float
    interval: Interval
    p_value: float


@dataclass(frozen=True, eq=False)
class Measured:
    """The statistics of one system's outputs (N, F): any subset of the items can be scored from them."""

    metric: Metric[Any]
    rows: np.ndarray
    signature: str

    @property
    def score(self) -> Score:
        return Score(self.metric.name, self.value(), self.signature, self.metric.better)

    def value(self, items: Sequence[int] | None = None) -> float:
        """Return the score of these items, by default of all."""
        rows = self.rows if items is None else self.rows[list(items)]
        return self.metric.value(self.metric.total(rows))

    def interval(self, *, samples: int = 1000, level: float = 0.95, seed: int = 0) -> Interval:
        """Return the middle `level` of the scores of resampled sets of items (for BLEU: Koehn 2004)."""
        (totals,) = _resample([self], samples, seed)
        return _middle(np.array([self.metric.value(row) for row in totals]), level)

    @property
    def error(self) -> float:
        """The standard error of the score by the jackknife (Tukey 1958); 0 for a single item."""
        count, total = len(self.rows), self.metric.total
        if count < 2:
            return 0.0
        totals, alone = total(self.rows), (self.rows[i : i + 1] for i in range(count))
        values = np.array([self.metric.value(totals - total(row)) for row in alone])
        return math.sqrt((count - 1) * values.var())

    def against(
        self, other: Measured, *, samples: int = 1000, level: float = 0.95, seed: int = 0
    ) -> Comparison:
        """Compare this system (first) with another (second) on the same resampled items (Koehn 2004).

        The p-value is that of the shifted bootstrap (Riezler and Maxwell 2005): hits are resamples whose
        difference is as far from the mean as the observed one is from zero; p = (hits + 1) / (samples + 1).
        """
        totals = _resample([self, other], samples, seed)
        values = [np.array([self.metric.value(row) for row in part]) for part in totals]
        differences, observed = values[1] - values[0], other.value() - self.value()
        hits = np.abs(differences - differences.mean()) >= abs(observed)
        p_value = (int(hits.sum()) + 1) / (samples + 1)
        return Comparison(self.score, other.score, observed, _middle(differences, level), p_value)


def confidence_interval(
    metric: Metric[T], outputs: Sequence[T], references: Sequence[Sequence[T]], **options: Any
) -> Interval:
    """Return the interval of the score of outputs; the options are those of `Measured.interval`."""
    return metric.measured(outputs, references).interval(**options)


def paired_bootstrap(
    metric: Metric[T],
    first: Sequence[T],
    second: Sequence[T],
    references: Sequence[Sequence[T]],
    **options: Any,
) -> Comparison:
    """Compare the outputs of two systems; the options are those of `Measured.against`."""
    return metric.measured(first, references).against(metric.measured(second, references), **options)


def _resample(systems: Sequence[Measured], samples: int, seed: int) -> list[list[np.ndarray]]:
    """Sum the rows of N items drawn with replacement, the same items for all systems: (F,) each."""
    count = len(systems[0].rows)
    random = np.random.default_rng(seed)
    totals: list[list[np.ndarray]] = [[] for _ in systems]
    for _ in range(samples):
        times = np.bincount(random.integers(count, size=count), minlength=count).astype(np.float64)
        for system, found in zip(systems, totals, strict=True):
            found.append(system.metric.total(system.rows, times))
    return totals


def _middle(values: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)

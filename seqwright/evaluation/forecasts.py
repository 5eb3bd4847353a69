"""Judging forecasts: the worst windows, and groups of windows by their time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqwright.data.series.results import Forecast
from seqwright.data.series.windows import Window
from seqwright.data.task import Bucket, Item, Mistake

SPANS = 5  # of time, by which an evaluation is divided


def forecast_mistakes(items: Sequence[Item[Window, Forecast]]) -> list[Mistake]:
    """Rank windows by their squared error e in scaled units: a share of e / (1 + e)."""
    found = []
    for item in items:
        expected, output = item.references[0], item.output
        error = float(np.nanmean(((output.mean - expected.values) / expected.scale) ** 2))
        error = error if math.isfinite(error) else 0.0
        found.append(Mistake(expected, 1, error / (1 + error), ()))
    return found


def buckets_by_time(items: Sequence[Item[Window, Forecast]]) -> tuple[Bucket, ...]:
    """Group windows by the time of the forecast; nothing where there are few."""
    ticks = np.array([item.output.first for item in items])
    if len(np.unique(ticks)) < 2 * SPANS:
        return ()
    cuts = np.linspace(ticks.min(), ticks.max() + 1, SPANS + 1)
    spans = np.searchsorted(cuts, ticks, side="right") - 1
    groups = [np.flatnonzero(spans == span) for span in range(SPANS)]
    return tuple(
        Bucket(f"{items[int(group[0])].output.times[0][:16]} …", tuple(group.tolist()))
        for group in groups
        if len(group)
    )

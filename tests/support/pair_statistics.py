"""Statistics of a list of pairs."""

from __future__ import annotations

from collections.abc import Iterable

from seqwright.data.checks.statistics import Statistics, StatisticsBuilder
from seqwright.data.read_report import Pair


def pair_statistics(pairs: Iterable[Pair]) -> Statistics:
    builder = StatisticsBuilder()
    for source, target, place in pairs:
        builder.add((source, target), place)
    return builder.build()

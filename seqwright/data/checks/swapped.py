"""Pairs with swapped sides: German among the English sources, and English among the German targets."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise

from seqwright.data.read_report import TextRow

SAMPLE = 2000
SAMPLED_CHARACTERS = 200
MARGIN = 10.0  # nats: the swapped reading must be e^10 times as likely

Bigrams = Counter[tuple[str, str]]


class Reservoir:
    """A uniform sample of a stream (Vitter 1985, algorithm R), the same for the same stream."""

    def __init__(self, size: int = SAMPLE):
        self.size, self.rows = size, list[TextRow]()
        self._seen = 0
        self._random = random.Random(0)

    def add(self, row: TextRow) -> None:
        self._seen += 1
        if len(self.rows) < self.size:
            self.rows.append(row)
        elif (index := int(self._random.random() * self._seen)) < self.size:
            self.rows[index] = row


def find_swapped(rows: list[TextRow]) -> list[TextRow]:
    """Return the rows that are likelier with their two texts swapped, by character bigrams.

    The model of a row comes from all others: with its own target in it, a near copy would seem swapped.
    """
    sides = [(_bigrams(left), _bigrams(right)) for (left, right), _ in rows]
    counts: tuple[Bigrams, Bigrams] = (Counter(), Counter())
    for left, right in sides:
        counts[0].update(left)
        counts[1].update(right)
    totals = counts[0].total(), counts[1].total()

    def support(own: Bigrams, other: Bigrams, home: int, away: int) -> float:
        """Return log P(own | home without own) − log P(own | away without other), smoothed by one half."""
        home_total, away_total = totals[home] - own.total() + 1, totals[away] - other.total() + 1
        total = 0.0
        for pair, count in own.items():
            at_home = math.log((counts[home][pair] - count + 0.5) / home_total)
            total += count * (at_home - math.log((counts[away][pair] - other[pair] + 0.5) / away_total))
        return total

    supports = [support(left, right, 0, 1) + support(right, left, 1, 0) for left, right in sides]
    found = [row for row, value in zip(rows, supports, strict=True) if value < -MARGIN]
    return sorted(found, key=lambda row: row.place)


def _bigrams(text: str) -> Bigrams:
    return Counter(pairwise(f" {text[:SAMPLED_CHARACTERS]} "))

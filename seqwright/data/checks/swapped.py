"""Pairs whose sides read as if exchanged: German among the English, and English among the German."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise

from seqwright.data.read_report import Pair

SAMPLE = 2000
SAMPLED_CHARACTERS = 200
MARGIN = 10.0
"""In nats: the exchanged reading must be e^10 times as likely."""

Bigrams = Counter[tuple[str, str]]


class Reservoir:
    """A uniform sample of a stream (Vitter 1985, algorithm R), the same for the same stream."""

    def __init__(self, size: int = SAMPLE):
        self.size, self.pairs = size, list[Pair]()
        self._seen = 0
        self._random = random.Random(0)

    def add(self, pair: Pair) -> None:
        self._seen += 1
        if len(self.pairs) < self.size:
            self.pairs.append(pair)
        elif (place := int(self._random.random() * self._seen)) < self.size:
            self.pairs[place] = pair


def exchanged(pairs: list[Pair]) -> list[Pair]:
    """Those that character bigrams find likelier the other way round, each pair judged by all the others:
    judged by its own target, a near copy would seem exchanged.
    """
    sides = [(_bigrams(source), _bigrams(target)) for source, target, _ in pairs]
    left, right = _Language(), _Language()
    for source, target in sides:
        left.add(source)
        right.add(target)
    found = [
        pair
        for pair, (source, target) in zip(pairs, sides, strict=True)
        if _support(source, target, left, right) + _support(target, source, right, left) < -MARGIN
    ]
    return sorted(found, key=lambda pair: pair.place)


def _bigrams(text: str) -> Bigrams:
    return Counter(pairwise(f" {text[:SAMPLED_CHARACTERS]} "))


class _Language:
    """The bigrams of one side of all pairs, and how many they are: their sum takes long."""

    def __init__(self) -> None:
        self.counts: Bigrams = Counter()
        self.total = 0

    def add(self, text: Bigrams) -> None:
        self.counts.update(text)
        self.total += text.total()


def _support(own: Bigrams, other: Bigrams, home: _Language, away: _Language) -> float:
    """log P(own | home without own) − log P(own | away without the other side), smoothed by one half."""
    home_total, away_total = home.total - own.total() + 1, away.total - other.total() + 1
    return sum(
        count
        * (
            math.log((home.counts[pair] - count + 0.5) / home_total)
            - math.log((away.counts[pair] - other[pair] + 0.5) / away_total)
        )
        for pair, count in own.items()
    )

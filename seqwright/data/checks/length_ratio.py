"""How long the sides of pairs are for each other, and which pairs are unlike the rest in that."""

from __future__ import annotations

import math
from collections import Counter

from seqwright.data.read_report import EXAMPLES_KEPT, PLACES_KEPT, Count, Pair

LONG_ENOUGH = 50
LENGTH_RATIO = 9
GRAIN = 100  # steps of a nat in which ratios are counted
RELATED, ENOUGH = 0.3, 100  # the least correlation of lengths that depend on each other, over so many pairs


class Proportions:
    """Takes pairs one by one; memory is bounded by the number of different ratios. A ratio is
    log(target / source), of code points.
    """

    def __init__(self) -> None:
        self.pairs = 0
        self._ratios: Counter[int] = Counter()
        self._long: Counter[int] = Counter()
        self._first: dict[int, list[tuple[int, Pair]]] = {}  # long pairs of a ratio, with their numbers
        self._sums = (0.0,) * 5  # of x, y, x², y² and xy, where x and y are log(1 + length)

    def add(self, pair: Pair) -> None:
        left, right = len(pair.source), len(pair.target)
        ratio = round(GRAIN * math.log(right / left))
        self._ratios[ratio] += 1
        if max(left, right) > LONG_ENOUGH:
            self._long[ratio] += 1
            first = self._first.setdefault(ratio, [])
            if len(first) < PLACES_KEPT:
                first.append((self.pairs, pair))
        x, y = math.log1p(left), math.log1p(right)
        a, b, c, d, e = self._sums
        self._sums = (a + x, b + y, c + x * x, d + y * y, e + x * y)
        self.pairs += 1

    @property
    def related(self) -> bool:
        """Whether the lengths of the sides depend on each other, as far as can be seen."""
        x, y, xx, yy, xy = (total / max(self.pairs, 1) for total in self._sums)
        spread = math.sqrt(max(xx - x * x, 0.0) * max(yy - y * y, 0.0))
        return self.pairs < ENOUGH or spread < 1e-9 or (xy - x * y) / spread >= RELATED

    def lopsided(self) -> Count:
        """Long pairs whose ratio is far from that of most: figures and their names are never alike in length,
        and nothing is wrong with them.
        """
        usual, limit = self._median(), GRAIN * math.log(LENGTH_RATIO)
        far = [ratio for ratio in self._long if abs(ratio - usual) > limit]
        found = [pair for _, pair in sorted(each for ratio in far for each in self._first[ratio])]
        places = [pair.place for pair in found[:PLACES_KEPT]]
        return Count(sum(self._long[ratio] for ratio in far), places, found[:EXAMPLES_KEPT])

    def _median(self) -> int:
        seen = 0
        for ratio in sorted(self._ratios):
            seen += self._ratios[ratio]
            if 2 * seen >= self.pairs:
                return ratio
        return 0

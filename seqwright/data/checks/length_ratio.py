"""Length ratios of two columns, and the pairs whose ratio is unusual."""

from __future__ import annotations

import math
from collections import Counter

from seqwright.data.read_report import PLACES_KEPT, Occurrences, TextRow

LONG_ENOUGH = 50
LENGTH_RATIO = 9
BINS = 100  # of the ratios, per nat
RELATED, ENOUGH = 0.3, 100  # lengths with a lower correlation over so many pairs do not depend on each other


class LengthRatios:
    """Counts of log(right / left) in code points; the number of distinct ratios bounds the memory."""

    def __init__(self) -> None:
        self.pairs = 0
        self._ratios: Counter[int] = Counter()
        self._long: Counter[int] = Counter()
        self._first: dict[int, list[tuple[int, TextRow]]] = {}  # ratio -> number and texts of long pairs
        self._sums = (0.0,) * 5  # of x, y, x², y² and xy, where x and y are log(1 + length)

    def add(self, row: TextRow) -> None:
        left, right = len(row.texts[0]), len(row.texts[1])
        ratio = round(BINS * math.log((right or 1) / (left or 1)))
        self._ratios[ratio] += 1
        if max(left, right) > LONG_ENOUGH:
            self._long[ratio] += 1
            first = self._first.setdefault(ratio, [])
            if len(first) < PLACES_KEPT:
                first.append((self.pairs, row))
        x, y = math.log1p(left), math.log1p(right)
        a, b, c, d, e = self._sums
        self._sums = (a + x, b + y, c + x * x, d + y * y, e + x * y)
        self.pairs += 1

    @property
    def related(self) -> bool:
        """Whether the lengths of the two columns depend on each other; True if there are too few pairs."""
        x, y, xx, yy, xy = (total / max(self.pairs, 1) for total in self._sums)
        spread = math.sqrt(max(xx - x * x, 0.0) * max(yy - y * y, 0.0))
        return self.pairs < ENOUGH or spread < 1e-9 or (xy - x * y) / spread >= RELATED

    def outliers(self) -> Occurrences:
        """Return the long pairs whose ratio is far from the median; names of numbers are always longer."""
        usual, limit = quantile(self._ratios, 0.5), BINS * math.log(LENGTH_RATIO)
        far = [ratio for ratio in self._long if abs(ratio - usual) > limit]
        rows = [row for _, row in sorted(each for ratio in far for each in self._first[ratio])]
        return Occurrences.starting_with(rows, sum(self._long[ratio] for ratio in far))


def quantile(counts: Counter[int], share: float) -> int:
    """Return the smallest value that at least this share of all values do not exceed."""
    seen = 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= share * counts.total():
            return value
    return 0

"""Alignment of two columns by their lengths: translations of long lines are long (Gale & Church 1993)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LineLengths = NDArray[np.int64]


def first_shift(left: LineLengths, right: LineLengths) -> int:
    """Return the row at which columns of unequal length get out of step, for one gap of missing rows.

    With d more rows on the left, row i of the right belongs to row i before the gap and to row i + d after
    it. The gap is where the sum of the length differences |log l_i − log r_i − median| is the smallest.
    """
    if len(left) < len(right):
        left, right = right, left
    if not len(right):
        return 0
    gap = len(left) - len(right)
    a, b = np.log1p(left.astype(float)), np.log1p(right.astype(float))
    before, after = a[: len(b)] - b, a[gap:] - b
    middle = float(np.median(before[: max(1, len(before) // 10)]))
    before, after = np.abs(before - middle), np.abs(after - middle)
    # costs of a gap before row 0, 1, …, up to a constant
    costs = np.concatenate([[0.0], np.cumsum(before - after)])
    return int(costs.argmin())


def lag_in_window(left: LineLengths, right: LineLengths, most: int = 3, margin: float = 0.3) -> int:
    """Return the shift (rows, ±most) with which lengths agree much better than without; 0 if there is none.

    Agreement is the correlation of log lengths. For n independent rows it has a standard error of about 1/√n,
    so a margin of 0.3 in a window of 500 rows excludes chance.
    """
    a, b = np.log1p(left.astype(float)), np.log1p(right.astype(float))
    best_lag, best = 0, _correlation(a, b) + margin
    for lag in (lag for size in range(1, most + 1) for lag in (size, -size)):
        shifted = _correlation(a[lag:], b[:-lag]) if lag > 0 else _correlation(a[:lag], b[-lag:])
        if shifted > best:
            best_lag, best = lag, shifted
    return best_lag


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 3 or not a.std() or not b.std():
        return 0.0
    return float(((a - a.mean()) * (b - b.mean())).mean() / (a.std() * b.std()))

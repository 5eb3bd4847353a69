"""Forecasts that need no training: the last value, the last season, and linear maps by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from seqwright.data.series.scaling import filled

FITTED = 60_000  # windows from which the linear maps are fitted, at most
BLOCK = 4096  # windows in one product of matrices, about
RIDGE = 3e-2  # of the linear maps, in units of the mean square of their inputs; tuned on the ETT data sets


def baseline_forecasts(
    past: np.ndarray, maps: Mapping[str, np.ndarray], horizon: int, season: int
) -> dict[str, np.ndarray]:
    """past (N, L, C), linear maps (L, H) by name -> the forecast of each baseline (N, H, C)."""
    repeated = np.broadcast_to(past[:, -1:], (len(past), horizon, past.shape[2]))
    naive = past[:, -season:][:, np.arange(horizon) % season]
    found = {"repeat_last": repeated, "seasonal_naive": naive}
    for name, weights in maps.items():
        level = _level(name, past)
        found[name] = np.einsum("nlc,lh->nhc", past - level, weights, optimize=True) + level
    return found


def linear_maps(columns: Sequence[np.ndarray], lookback: int, horizon: int) -> dict[str, np.ndarray]:
    """Fit maps from the past to the future by least squares with a small ridge: the optima of NLinear, which
    measures both against the last value, and of DLinear (Zeng et al. 2023), which does not: its maps of trend
    and rest, which are themselves linear in the past, add up to one. columns: scaled values (steps,), NaN
    where missing -> (lookback, horizon) by name.
    """
    found = {}
    for name in ("nlinear", "dlinear"):
        square, product = np.zeros((lookback, lookback)), np.zeros((lookback, horizon))
        for windows in _blocks(columns, lookback + horizon):
            measured = windows - _level(name, windows[:, :lookback])
            past, future = measured[:, :lookback], measured[:, lookback:]
            square += past.T @ past
            product += past.T @ future
        ridge = RIDGE * np.trace(square) / lookback
        found[name] = np.linalg.solve(square + max(ridge, 1e-9) * np.eye(lookback), product)
    return found


def _level(name: str, past: np.ndarray) -> np.ndarray | float:
    """Return what a linear baseline measures a window against."""
    return past[:, -1:] if name == "nlinear" else 0.0


def _blocks(columns: Sequence[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Yield windows of so many steps, evenly spread if there are very many; short columns share a block."""
    total = sum(max(len(column) - size + 1, 0) for column in columns)
    apart = max(math.ceil(total / FITTED), 1)
    waiting: list[np.ndarray] = []
    for column in columns:
        if len(column) < size:
            continue
        known = filled(column[:, None])[:, 0]
        windows = np.lib.stride_tricks.sliding_window_view(known, size)[::apart]
        for block in np.array_split(windows, max(len(windows) // BLOCK, 1)):
            waiting.append(block)
            if sum(map(len, waiting)) >= BLOCK:
                yield np.concatenate(waiting)
                waiting = []
    if waiting:
        yield np.concatenate(waiting)

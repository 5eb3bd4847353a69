"""Forecasts that need no training: the last value, the last season, and a linear map by least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqwright.data.series.scaling import filled

BASELINES = ("repeat_last", "seasonal_naive", "nlinear")
FITTED = 60_000  # windows from which the linear map is fitted, at most
RIDGE = 3e-2  # of the linear map, in units of the mean square of its inputs; tuned on the ETT data sets


def baseline_forecasts(past: np.ndarray, weights: np.ndarray, season: int) -> dict[str, np.ndarray]:
    """past (N, L, C), weights (L, H) -> the forecast of each baseline (N, H, C)."""
    last, steps = past[:, -1:], np.arange(weights.shape[1]) % season
    linear = np.einsum("nlc,lh->nhc", past - last, weights, optimize=True) + last
    repeated = np.broadcast_to(last, linear.shape)
    return dict(zip(BASELINES, (repeated, past[:, -season:][:, steps], linear), strict=True))


def linear_map(columns: Sequence[np.ndarray], lookback: int, horizon: int) -> np.ndarray:
    """Fit the map from the past to the future, both measured against the last value, by least squares: the
    optimum of NLinear (Zeng et al. 2023) with a small ridge. columns: scaled values (steps,), NaN where
    missing -> (lookback, horizon).
    """
    square, product, seen = np.zeros((lookback, lookback)), np.zeros((lookback, horizon)), 0
    total = sum(max(len(column) - lookback - horizon + 1, 0) for column in columns)
    apart = max(math.ceil(total / FITTED), 1)
    for column in map(filled, columns):
        if len(column) < lookback + horizon:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(column, lookback + horizon)[::apart]
        for block in np.array_split(windows, max(len(windows) // 4096, 1)):
            past, future = block[:, :lookback], block[:, lookback:]
            last = past[:, -1:]
            square += (past - last).T @ (past - last)
            product += (past - last).T @ (future - last)
            seen += len(block)
    if not seen:
        return np.zeros((lookback, horizon))
    ridge = RIDGE * np.trace(square) / lookback
    return np.linalg.solve(square + max(ridge, 1e-9) * np.eye(lookback), product)

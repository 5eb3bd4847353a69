"""Arithmetic on the values of series: missing ones, scales, and rows by channel."""

from __future__ import annotations

import numpy as np


def by_channel(values: np.ndarray) -> np.ndarray:
    """(W, T, C) -> (W · C, T) float32."""
    return np.ascontiguousarray(values.transpose(0, 2, 1), dtype=np.float32).reshape(-1, values.shape[1])


def filled_past(past: np.ndarray) -> np.ndarray:
    """Fill missing values with the last one before them, or the first one after; (W, L, C)."""
    return past if not np.isnan(past).any() else np.apply_along_axis(filled, 1, past)


def filled(column: np.ndarray) -> np.ndarray:
    missing = np.isnan(column)
    if not missing.any():
        return column
    if missing.all():
        return np.zeros_like(column)
    last = np.maximum.accumulate(np.where(missing, -1, np.arange(len(column))))
    return column[np.where(last < 0, int(np.flatnonzero(~missing)[0]), last)]


def deviation(values: np.ndarray) -> np.ndarray:
    """The standard deviation of each column; 1 for a column that does not vary."""
    with np.errstate(all="ignore"):
        found = np.nan_to_num(np.nanstd(values, axis=0)) if len(values) else np.ones(values.shape[1])
    return np.where(found > 0, found, 1.0)


def scales_of(values: np.ndarray, season: int) -> np.ndarray:
    """Return mean, deviation and seasonal error of each column (3, channels); values (steps, channels)."""
    if not len(values):
        return np.stack([np.zeros(values.shape[1]), *[np.ones(values.shape[1])] * 2])
    scale = deviation(values)
    season = min(season, max(len(values) - 1, 1))
    real = ~np.isnan(values)
    center = np.where(real, values, 0.0).sum(0) / np.maximum(real.sum(0), 1)
    apart = np.abs(values[season:] - values[:-season])
    known = ~np.isnan(apart)
    naive = np.where(known, apart, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    return np.stack([center, scale, np.where(naive > 0, naive, scale)])

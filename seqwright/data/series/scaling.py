"""Arithmetic on the values of series: missing ones, scales, and rows by channel."""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-9  # of the largest value: a smaller deviation is that of a constant


def by_channel(values: np.ndarray) -> np.ndarray:
    """(W, T, C) -> (W · C, T) float32."""
    return np.ascontiguousarray(values.transpose(0, 2, 1), dtype=np.float32).reshape(-1, values.shape[1])


def filled(values: np.ndarray) -> np.ndarray:
    """Fill missing values with the last one before them, or the first one after; with 0 where none is known.
    (..., T, C).
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    steps = np.arange(values.shape[-2])[:, None]
    last = np.maximum.accumulate(np.where(missing, -1, steps), axis=-2)
    first = missing.argmin(axis=-2, keepdims=True)
    found = np.take_along_axis(values, np.where(last < 0, first, last), axis=-2)
    return np.where(missing.all(axis=-2, keepdims=True), 0.0, found)


def deviation(values: np.ndarray) -> np.ndarray:
    """The standard deviation of each column; 1 for a column that varies by no more than rounding."""
    if not len(values):
        return np.ones(values.shape[1])
    with np.errstate(all="ignore"):
        found = np.nan_to_num(np.nanstd(values, axis=0))
    return np.where(found > ROUNDING * np.fmax.reduce(np.abs(values)), found, 1.0)


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

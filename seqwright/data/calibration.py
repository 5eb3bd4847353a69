"""Calibration of a classifier on validation data: a temperature, and a threshold of confidence.

Shapes: N examples, C classes.
"""

from __future__ import annotations

import numpy as np

RANGE = (0.05, 20.0)  # of a temperature
LEAST = 0.1  # share of the examples that stay above the threshold
ENOUGH = 20  # wrong answers, from which a threshold can be chosen


def log_loss(scores: np.ndarray, right: np.ndarray, temperature: float) -> float:
    """Return the mean −log p of the right classes: scores (N, C), right (N,)."""
    scaled = scores / temperature
    chosen = np.take_along_axis(scaled, right[:, None], 1)[:, 0]
    return float(np.mean(np.logaddexp.reduce(scaled, axis=1) - chosen))


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Return log-probabilities along the last axis; faster than `logaddexp.reduce`."""
    shifted: np.ndarray = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def fitted_temperature(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the temperature with the lowest log-loss (Guo et al. 2017, 4.2), by golden-section search.

    The loss has one minimum in the logarithm of the temperature.
    """
    golden = (5**0.5 - 1) / 2
    low, high = np.log(RANGE)
    for _ in range(40):
        left, right_end = high - golden * (high - low), low + golden * (high - low)
        if log_loss(scores, right, float(np.exp(left))) <= log_loss(scores, right, float(np.exp(right_end))):
            high = right_end
        else:
            low = left
    return float(np.exp((low + high) / 2))


def threshold(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the lowest probability of the best class above which the error rate is at most half of that of
    all examples; 0 if the errors are too few, or if too few examples would be left.
    """
    chances = np.exp(scores.max(1) - np.logaddexp.reduce(scores, axis=1))
    wrong = scores.argmax(1) != right
    if wrong.sum() < ENOUGH:
        return 0.0
    order = np.argsort(-chances, kind="stable")
    rates = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(rates <= wrong.mean() / 2)
    if not len(kept) or kept[-1] + 1 < LEAST * len(order):
        return 0.0
    return float(chances[order[kept[-1]]])

"""The trace of a forecast as text for a terminal: lines of blocks, one below the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.data.series.results import blocks

if TYPE_CHECKING:
    from seqwright.lens.series.document import ForecastTrace

WIDTH = 60  # characters of the past
ROWS = 6  # parts of the forecast, at most
CHANNELS = 4


def summary(trace: ForecastTrace) -> str:
    """The past and the forecast of each channel, and under them the weights of the last layer."""
    document = trace.document
    lookback, times = document["lookback"], document["times"]
    lines = [
        f"{trace.text}: {document['horizon']} steps after {lookback} of one {document['frequency']}, "
        f"{times[0]} to {times[-1]}"
    ]
    kind = next(iter(document["kinds"]))
    layer = trace.layers(kind) - 1
    entry, weights = trace.entry(kind, layer), np.abs(trace.weights(kind, layer)).mean(1)
    shown = document["channels"][:CHANNELS]
    for channel, own in zip(shown, weights, strict=False):
        lines += ["", *_drawn(channel, own, entry, document)]
    if (more := len(document["channels"]) - len(shown)) > 0:
        lines += ["", f"… {more} more columns: write a page with -o page.html"]
    lines += ["", f"under each past: {document['kinds'][kind]['title'].lower()}, one line for a part of the"]
    lines[-1] += " forecast" + (f", layer {layer}, mean of its heads" if entry["heads"] > 1 else "")
    reasons = {document["absent"][each] for each in ("forecast", "channels") if each in document["absent"]}
    return "\n".join([*lines, *sorted(reasons)])


def _drawn(
    channel: dict[str, Any], weights: np.ndarray, entry: dict[str, Any], document: dict[str, Any]
) -> list[str]:
    past, mean = (np.array(channel[name], dtype=float) for name in ("past", "mean"))
    width = min(WIDTH, len(past))
    after = max(round(width * len(mean) / len(past)), 1)
    drawn = blocks(np.concatenate([past, mean]), width + after) if len(past) else ""
    name = channel["name"][:12]
    lines = [f"{name:12} {drawn[:width]}│{drawn[width:]} {mean[0]:.4g} … {mean[-1]:.4g}"]
    times, lookback = document["times"], document["lookback"]
    for row in np.unique(np.linspace(0, len(weights) - 1, ROWS).astype(int)).tolist():
        steps = np.zeros(lookback)
        for (start, stop), weight in zip(entry["columns"], weights[row], strict=True):
            steps[start:stop] = np.maximum(steps[start:stop], weight)
        first, last = entry["rows"][row]
        most = entry["columns"][int(weights[row].argmax())][0]
        label = f"{first + 1}–{last}" if last > first + 1 else f"{last}"
        lines.append(f"{label:>12} {_peaks(steps, width)}│ most at {times[most]}")
    return lines


def _peaks(steps: np.ndarray, width: int) -> str:
    """Draw the largest weight of each share of the steps as a block; the highest block is the largest."""
    largest = np.array([part.max() for part in np.array_split(steps, width)])
    top = largest.max() or 1.0
    return "".join(" ▁▂▃▄▅▆▇█"[round(8 * each / top)] for each in largest.tolist())

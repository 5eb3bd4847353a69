"""The pictures of an evaluation, as data for the report: forecasts, the error by step, and a back-test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.data.plan import evenly
from seqwright.data.series.results import Forecast, Trajectory
from seqwright.data.series.windows import Window
from seqwright.data.task import Item
from seqwright.lens.series.attention import patch_attention

if TYPE_CHECKING:
    from seqwright.data.batch import Past

TYPICAL = 3  # forecasts in the report, next to the worst one
DRAWN = 1200  # steps of a back-test in the report

Items = Sequence[Item[Window, Forecast]]


def forecast_pictures(
    model: Any,
    items: Items,
    baselines: Mapping[str, Sequence[Trajectory]],
    lookback: int,
    source_of: Callable[[Window], Past],
) -> dict[str, Any]:
    """Typical and bad forecasts, the error by step, and forecasts one after the other along the time.

    source_of: the input that the model receives for a window.
    """
    truths = np.stack([item.references[0].values for item in items])
    scale = np.stack([item.references[0].scale for item in items])[:, None]

    def errors(outputs: Iterable[np.ndarray]) -> np.ndarray:  # (N, H, C)
        return np.abs(np.stack(list(outputs)) - truths) / scale

    own = errors(item.output.mean for item in items)
    by_step = {"model": np.nanmean(own, axis=(0, 2)).tolist()}
    for name, found in baselines.items():
        by_step[name] = np.nanmean(errors(each.values for each in found), axis=(0, 2)).tolist()
    by_window = np.nan_to_num(np.nanmean(own, axis=1))  # (N, C)
    shown = [
        (int(np.argsort(by_window[:, channel], kind="stable")[len(items) // 2]), channel, "typical")
        for channel in evenly(by_window.shape[1], TYPICAL).tolist()
    ]
    worst, channel = np.unravel_index(int(by_window.argmax()), by_window.shape)
    shown.append((int(worst), int(channel), "worst"))
    forecasts = []
    for number, channel, kind in shown:
        picture = _picture(items[number], channel, kind, lookback)
        below = _attention(model, source_of(items[number].example), channel, lookback, len(picture["past"]))
        forecasts.append({**picture, **below})
    return {
        "forecasts": forecasts,
        "by_step": by_step,
        "backtest": _backtest(items),
    }


def _title(forecast: Forecast, channel: int) -> str:
    name = forecast.channels[channel]
    return f"{forecast.series}, {name}" if forecast.series else name


def _picture(item: Item[Window, Forecast], channel: int, kind: str, lookback: int) -> dict[str, Any]:
    window, output = item.example, item.output
    horizon = len(output.mean)
    past = window.past(min(lookback, max(2 * horizon, 24)))[:, channel]
    lines = {"mean": output.mean, "low": output.low, "high": output.high}
    return {
        "title": f"{_title(output, channel)} from {window.when}: {kind}",
        "first": output.frequency.label(window.tick - len(past)),
        "last": output.frequency.label(window.tick + horizon - 1),
        "past": past.tolist(),
        "truth": item.references[0].values[:, channel].tolist(),
        **{key: line[:, channel].tolist() for key, line in lines.items()},
    }


def _attention(model: Any, source: Past, channel: int, lookback: int, steps: int) -> dict[str, Any]:
    """Return the weights of the patches that begin in the last `steps` of the past, for each patch of the
    forecast, and where the first of them begins; nothing for a model without patches.
    """
    found = patch_attention(model, source)
    if found is None:
        return {}
    stride, rows = model.network.stride, found[channel]
    first = max(math.ceil((lookback - steps) / stride), 0)
    weights = {"rows": rows[:, first:].tolist(), "stride": stride, "patch": model.network.patch}
    return {"attention": {**weights, "first": first * stride - (lookback - steps)}}


def _backtest(items: Items) -> dict[str, Any]:
    """Lay forecasts that do not overlap along the time, for the first series and the last channel."""
    own = [item for item in items if item.output.series == items[0].output.series]
    horizon = len(own[0].output.mean)
    chosen: list[Item[Window, Forecast]] = []
    for item in own:
        if not chosen or item.output.first >= chosen[-1].output.first + horizon:
            chosen.append(item)
    first, last = chosen[0].output, chosen[-1].output
    steps = np.arange(first.first, last.first + horizon)
    lines = {key: np.full(len(steps), np.nan) for key in ("truth", "mean", "low", "high")}
    for item in chosen:
        begin = item.output.first - first.first
        found = (item.references[0].values, item.output.mean, item.output.low, item.output.high)
        for line, numbers in zip(lines.values(), found, strict=True):
            line[begin : begin + horizon] = numbers[:, -1]
    apart = max(math.ceil(len(steps) / DRAWN), 1)
    return {
        "title": _title(first, -1),
        "first": first.times[0],
        "last": last.times[-1],
        "past": [],
        **{key: line[::apart].tolist() for key, line in lines.items()},
    }

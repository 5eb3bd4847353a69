"""Build the trace of one forecast: its numbers, and every weight from the past to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqwright.config.registry import snake_case
from seqwright.data.batch import Past
from seqwright.data.series.results import LEVEL, Forecast
from seqwright.data.text_display import pluralize
from seqwright.lens.series.attention import Span, Weights, attention_weights, spans
from seqwright.lens.series.document import FORMAT, WHAT, ForecastTrace
from seqwright.lens.series.maps import base_map, forecast_map, is_linear
from seqwright.lens.trace.identity import program_and_run, weights_of
from seqwright.lens.trace.packing import pack, pooled, quantize
from seqwright.models import Model, evaluating
from seqwright.models.forecaster import Forecaster

CHANNELS = 16  # in a trace, at most
CELLS = 3_000_000  # attention weights, at most
ROWS, COLUMNS = 96, 672  # of one matrix, at most; more are merged
SIZE = 3_000_000  # characters for attention weights
DIGITS = 7
KEPT = np.uint32(0xFFFF_F000)  # bits of a derivative: an error of 1 in 4,096 that compresses well


@dataclass(frozen=True)
class ForecastReadout:
    """One forecast as `look` traces it. source: the past of each channel, a row each. past (lookback, C) and
    truth (horizon, C) in the units of the data, NaN where unknown; times: of both.
    """

    source: Past
    forecast: Forecast
    text: str
    past: np.ndarray
    truth: np.ndarray
    times: Sequence[str]


def look_at_forecast(
    model: Model,
    readout: ForecastReadout,
    *,
    config: Mapping[str, Any] | None = None,
    step: int | None = None,
) -> ForecastTrace:
    """Return the trace of one forecast. config and step describe the model."""
    assert isinstance(model, Forecaster)
    absent: dict[str, str] = {}
    source = _first_channels(readout.source, CHANNELS)
    attention, reason = attention_weights(model, source)
    if reason:
        absent |= dict.fromkeys(("forecast", "output", "past"), reason)
    attention = [_merged(one) for one in attention]
    cells = sum(one.weights.size for one in attention)
    count = max(len(source.values) * CELLS // max(cells, CELLS), 1)
    source = _first_channels(source, count)
    if (given := len(readout.source.values)) > count:
        absent["channels"] = f"the series has {pluralize(given, 'column')}; the first {count} are shown"
    entries = [*_attention_entries(attention, count), *_map_entries(model, source, absent)]
    forecast, there = readout.forecast, {entry["kind"] for entry in entries}
    return ForecastTrace(
        {
            "format": FORMAT,
            "what": WHAT,
            **program_and_run(config),
            "model": {"network": snake_case(type(model.network).__name__), **weights_of(model), "step": step},
            "text": readout.text,
            "series": forecast.series,
            "frequency": forecast.frequency.name,
            "level": LEVEL,
            "lookback": model.lookback,
            "horizon": model.horizon,
            "times": list(readout.times),
            "channels": _channels(model, readout, source),
            "kinds": {kind: axes for kind, axes in _kinds(model).items() if kind in there},
            "weights": entries,
            "absent": absent,
        }
    )


def _first_channels(source: Past, count: int) -> Past:
    values, features, ids = source.values[:count], source.features, source.ids
    return replace(
        source,
        values=values,
        apart=len(values),
        features=None if features is None else features[:count],
        ids=None if ids is None else ids[:count],
    )


def _kinds(model: Forecaster) -> dict[str, dict[str, Any]]:
    mapped = "Linear map" if is_linear(model) else "Sensitivity"
    found = {
        "forecast": ("Attention", "forecast", False),
        "output": ("Output layer", "forecast", False),
        "past": ("Attention inside the past", "past", False),
        "map": (mapped, "forecast", True),
        "linear": ("Linear part", "forecast", True),
    }
    return {
        kind: {"title": title, "rows": rows, "signed": signed}
        for kind, (title, rows, signed) in found.items()
    }


def _merged(one: Weights) -> Weights:
    """Weights with at most so many rows and columns: neighbours are one row (their mean), or one column
    (their sum).
    """
    block = math.ceil(len(one.rows) / ROWS), math.ceil(len(one.columns) / COLUMNS)
    channels, heads, *shape = one.weights.shape
    found = pooled(one.weights.reshape(-1, *shape), block)
    return one._replace(
        weights=found.reshape(channels, heads, *found.shape[1:]),
        rows=_joined(one.rows, block[0]),
        columns=_joined(one.columns, block[1]),
    )


def _joined(every: Sequence[Span], block: int) -> tuple[Span, ...]:
    parts = [every[first : first + block] for first in range(0, len(every), block)]
    return tuple((part[0][0], part[-1][1]) for part in parts)


def _attention_entries(found: Sequence[Weights], count: int) -> list[dict[str, Any]]:
    """The weights of every layer, for the first `count` channels."""
    stored = quantize([one.weights[:count].reshape(-1, *one.weights.shape[2:]) for one in found], SIZE)
    return [
        {
            "kind": one.kind,
            "layer": one.layer,
            "heads": one.weights.shape[1],
            "rows": list(map(list, one.rows)),
            "columns": list(map(list, one.columns)),
            **weights._asdict(),
        }
        for one, weights in zip(found, stored, strict=True)
    ]


def _map_entries(model: Forecaster, source: Past, absent: dict[str, str]) -> list[dict[str, Any]]:
    """The derivatives of the forecast by the past; those of a linear model and of a linear part hold for all
    channels.
    """
    block = math.ceil(model.horizon / ROWS)
    linear, base = is_linear(model), base_map(model)
    derivatives = forecast_map(model, _first_channels(source, 1) if linear else source, block)
    entries = [_map_entry("map", derivatives, model, block)]
    if base is None:
        absent["linear"] = "the whole model is linear" if linear else "the model has no fixed linear part"
        return entries
    parts = np.stack([base[first : first + block].mean(0) for first in range(0, len(base), block)])
    return [*entries, _map_entry("linear", parts[None], model, block)]


def _map_entry(kind: str, weights: np.ndarray, model: Forecaster, block: int) -> dict[str, Any]:
    short = (weights.astype(np.float32).view(np.uint32) & KEPT).view(np.float32)
    return {
        "kind": kind,
        "layer": 0,
        "heads": 1,
        "rows": list(map(list, spans(model.horizon, block))),
        "columns": list(map(list, spans(model.lookback))),
        "levels": None,
        "scales": None,
        "weights": pack(short),
    }


def _channels(model: Forecaster, readout: ForecastReadout, source: Past) -> list[dict[str, Any]]:
    """The numbers of each channel in the units of the data."""
    forecast, past, truth = readout.forecast, readout.past, readout.truth
    linear = _linear_part(model, forecast, source)
    return [
        {
            "name": forecast.channels[number],
            "past": _numbers(past[:, number]),
            **{name: _numbers(getattr(forecast, name)[:, number]) for name in ("mean", "low", "high")},
            "truth": None if np.isnan(truth[:, number]).all() else _numbers(truth[:, number]),
            "linear": None if linear is None else _numbers(linear[:, number]),
        }
        for number in range(len(source.values))
    ]


def _linear_part(model: Forecaster, forecast: Forecast, source: Past) -> np.ndarray | None:
    """The forecast of the linear part alone (horizon, channels), in the units of the data."""
    if (weights := base_map(model)) is None:
        return None
    with evaluating(model):
        whole = model.predictions(source)[..., 0].double().numpy()
    alone = source.values.double().numpy() @ weights.T.astype(np.float64)
    count = len(source.values)
    return forecast.mean[:, :count] + (alone - whole).T * forecast.scale[:count]


def _numbers(column: np.ndarray) -> list[float | None]:
    return [float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None for x in column.tolist()]

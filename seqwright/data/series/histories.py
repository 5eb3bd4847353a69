"""Histories as a user gives them to a model: JSON objects with start and target, or arrays."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqwright.data.series.calendar import Frequency
from seqwright.data.series.times import time_format
from seqwright.data.series.windows import Series, Window
from seqwright.data.text_display import excerpt
from seqwright.errors import InputError
from seqwright.files import strict

DIGITS = 7  # of numbers in a line


def history_of(given: Any, frequency: Frequency, channels: tuple[str, ...], known: Sequence[str]) -> Window:
    """Return the forecast after a history: an array (steps, channels), or a table with a target."""
    table = given if isinstance(given, Mapping) else {"target": given}
    target = table.get("target")
    if isinstance(target, Mapping):
        if missing := [name for name in channels if name not in target]:
            raise InputError(f"the history has no {missing[0]!r}; the model reads {', '.join(channels)}")
        target = np.array([target[name] for name in channels], dtype=float).T
    try:
        values = np.array(target, dtype=float).reshape(-1, len(channels))
        width, given_known = len(known), table.get("known", ()) if known else ()
        covariates = np.array(given_known, dtype=float).reshape(-1 if width else 0, width)
    except (TypeError, ValueError):
        raise InputError(
            f"a history needs a target of numbers, {len(channels)} for each step ({', '.join(channels)})"
        ) from None
    steps = max(len(values), len(covariates)) if known else len(values)
    every = np.full((steps, len(known)), np.nan)
    every[: len(covariates)] = covariates
    padded = np.full((steps, len(channels)), np.nan)
    padded[: len(values)] = np.where(np.isfinite(values), values, np.nan)
    name, lines = str(table.get("series", "")), np.zeros(steps, np.int64)
    start = tick_of(table.get("start"), frequency)
    series = Series(name, frequency, channels, start, padded, every, lines)
    return Window(series, len(values), len(values), len(values))


def history_in_line(
    line: str, frequency: Frequency, channels: tuple[str, ...], known: Sequence[str]
) -> Window:
    """Return the forecast after the history in a line of JSON."""
    try:
        table = json.loads(line)
    except ValueError as error:
        raise InputError(f'{reprlib.repr(line)} is not JSON; write {{"start": …, "target": […]}}') from error
    return history_of(table, frequency, channels, known)._replace(line=line)


def tick_of(start: Any, frequency: Frequency) -> int:
    """Return the tick of a time as people write it; 0 for none."""
    if start is None:
        return 0
    text = str(start)
    try:
        moment = _moment(text, frequency)
        frequency.check_steps(np.array([moment]))
    except ValueError as error:
        raise InputError(f"start: {error}") from None
    return int(frequency.ticks(np.array([moment]))[0])


def _moment(text: str, frequency: Frequency) -> int:
    if frequency.unit != "number":
        return time_format([text], integers=False).parse(text)
    if not re.fullmatch(r"[+-]?\d+", text.strip()):
        raise ValueError(f"{excerpt(text)} is not the number of a step")
    return int(text)


def line_of(window: Window, lookback: int, horizon: int) -> str:
    """Return the history that a forecast reads, with what is known in advance, as a line of JSON."""
    if window.line:
        return window.line
    series, past = window.series, window.past(lookback)
    columns = {
        name: [None if math.isnan(x) else float(f"{x:.{DIGITS}g}") for x in column]
        for name, column in zip(series.channels, past.T.tolist(), strict=True)
    }
    target: Any = columns if len(columns) > 1 else columns[series.channels[0]]
    table = {"start": series.frequency.label(window.tick - len(past)), "target": target}
    if series.known.shape[1]:
        covariates = series.known[window.at - len(past) : window.at + horizon]
        table["known"] = strict(covariates.tolist())
    return json.dumps({**table, **({"series": series.name} if series.name else {})})

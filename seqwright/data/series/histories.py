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
from seqwright.data.series.times import check_zone, time_format
from seqwright.data.series.windows import Series, Window
from seqwright.data.text_display import excerpt, pluralize
from seqwright.errors import InputError
from seqwright.files import strict

DIGITS = 7  # of numbers in a line


def history_of(
    given: Any, frequency: Frequency, channels: tuple[str, ...], known: Sequence[str], times: str = ""
) -> Window:
    """Return the forecast after a history: an array (steps, channels), or a table with a target. times: the
    name of the format of the training data.
    """
    table = given if isinstance(given, Mapping) else {"target": given}
    values = _numbers("target", table.get("target"), channels)
    if not len(values):
        raise InputError("the target of a history is empty; give at least one step")
    given_known = table.get("known") if known else None
    covariates = _numbers("known", () if given_known is None else given_known, known)
    steps = max(len(values), len(covariates))
    every = np.full((steps, len(known)), np.nan)
    every[: len(covariates)] = covariates
    padded = np.full((steps, len(channels)), np.nan)
    padded[: len(values)] = values
    name, lines = str(table.get("series", "")), np.zeros(steps, np.int64)
    start = tick_of(table.get("start"), frequency, times)
    if "end" in table:
        between = tick_of(table["end"], frequency, times, key="end") - start + 1
        if between != steps:
            raise InputError(
                f"the history has {pluralize(steps, 'step')}, but from start to end there are {between:,} of "
                f"{frequency.length}; give each step once and in order, with null for a missing number"
            )
    series = Series(name, frequency, channels, start, padded, every, lines)
    return Window(series, len(values), len(values), len(values))


def _numbers(key: str, given: Any, columns: Sequence[str]) -> np.ndarray:
    """Return the numbers under a key (steps, columns), given by step or by the name of the column; NaN for
    missing and infinite ones.
    """
    by_name = isinstance(given, Mapping)
    if by_name and (missing := [name for name in columns if name not in given]):
        raise InputError(f"the history has no {missing[0]!r}; the model reads {', '.join(columns)}")
    try:
        if given is None:
            raise ValueError("no numbers")
        found = np.array([given[name] for name in columns] if by_name else given, dtype=float)
        found = (found.T if by_name else found).reshape(-1 if columns else 0, len(columns))
    except (TypeError, ValueError, OverflowError):
        wanted = f"{len(columns)} for each step ({', '.join(columns)})"
        raise InputError(
            f"a history needs a {key} of numbers, {wanted}, not {reprlib.repr(given)}; correct it"
        ) from None
    return np.where(np.isfinite(found), found, np.nan)


def history_in_line(
    line: str, frequency: Frequency, channels: tuple[str, ...], known: Sequence[str], times: str = ""
) -> Window:
    """Return the forecast after the history in a line of JSON."""
    try:
        table = json.loads(line)
    except ValueError as error:
        raise InputError(f'{reprlib.repr(line)} is not JSON; write {{"start": …, "target": […]}}') from error
    return history_of(table, frequency, channels, known, times)._replace(line=line)


def tick_of(given: Any, frequency: Frequency, times: str = "", key: str = "start") -> int:
    """Return the tick of a time as people write it; 0 for none. An error names its key."""
    if given is None:
        return 0
    text = str(given)
    try:
        moment = _moment(text, frequency, times)
        frequency.check_steps(np.array([moment]))
    except ValueError as error:
        raise InputError(f"{key}: {error}") from None
    return int(frequency.ticks(np.array([moment]))[0])


def _moment(text: str, frequency: Frequency, times: str) -> int:
    if frequency.unit != "number":
        days = bool(times) and frequency.of_days
        found = time_format([text], integers=bool(times), known=times, days=days)
        if found.whole:
            raise ValueError(f"{excerpt(text)} is a number, not a time")
        if times and not frequency.of_days:
            check_zone(times, found.name)
        return found.parse(text.strip())
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
        raise ValueError(f"{excerpt(text)} is not the number of a step")
    return int(text)


def line_of(window: Window, lookback: int, horizon: int) -> str:
    """Return the history that a forecast reads, with what is known in advance, as a line of JSON. A history
    has at least one step: that of the first step of a series is one without values.
    """
    if window.line:
        return window.line
    series, past = window.series, window.past(lookback)
    if not len(past):
        past = np.full((1, len(series.channels)), np.nan)
    columns = {
        name: [None if math.isnan(x) else float(f"{x:.{DIGITS}g}") for x in column]
        for name, column in zip(series.channels, past.T.tolist(), strict=True)
    }
    target: Any = columns if len(columns) > 1 else columns[series.channels[0]]
    table = {"start": series.frequency.label(window.tick - len(past)), "target": target}
    if series.known.shape[1]:
        stop = min(horizon, len(series) - window.at)
        table["known"] = strict(window.covariates(-len(past), stop).tolist())
    return json.dumps({**table, **({"series": series.name} if series.name else {})})

"""A configuration for time series, chosen by their frequency and length, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from seqwright.config.recipe import ENDS, Choice, Recipe
from seqwright.data.readers.series import SeriesFiles
from seqwright.data.series.sizes import WindowSizes, window_sizes
from seqwright.data.survey import Survey
from seqwright.data.text_display import percent, pluralize
from seqwright.errors import InputError

HELD_OUT = 0.15
WINDOWS = 64  # of a batch, where a window has few channels
NUMBERS = 60_000  # predicted in a batch, at most
MINUTES = 4.0
CORES = 2
RATES = {"tiny-forecaster": 3e-4, "nlinear": 2e-3, "dlinear": 2e-3}
OTHERS = 1e-3  # the rate of other models
UNTRAINED = ("repeat_last", "seasonal_naive")


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    reader = survey.corpus.reader(survey.corpus.data.train)
    assert isinstance(reader, SeriesFiles)
    data = survey.corpus.data
    divided = "rows" in requested.get("data", {}) or data.valid
    held_out = [] if divided else [_held_out(bool(data.test))]
    parts = reader if divided else replace(reader, data=replace(data, held_out=HELD_OUT))
    longest = max(map(len, reader.table.series))
    sizes = window_sizes(reader.table.series[0].frequency, min(parts.cuts[0], longest), data)
    _check_parts(parts, sizes.horizon)
    channels = len(reader.table.series[0].channels)
    preset = requested.get("model", {}).get("preset", "tiny-forecaster")
    time = [] if requested.get("training", {}).keys() & set(ENDS) else [_time(preset)]
    return Recipe(
        (
            *_series(reader),
            *_windows(reader, sizes, data.horizon, data.lookback),
            *([] if "preset" in requested.get("model", {}) else [_model()]),
            _batch(sizes.horizon * channels, RATES.get(preset, OTHERS)),
            *time,
            _validation(),
            *held_out,
        )
    )


def _check_parts(reader: SeriesFiles, horizon: int) -> None:
    """Refuse a horizon that is longer than a part of the split."""
    lengths = [stop - begin for begin, stop in pairwise((0, *reader.cuts))]
    for part, length in zip(("training", "validation", "test"), lengths, strict=False):
        if length < horizon:
            raise InputError(
                f"{reader.name}: the {part} part has {pluralize(length, 'step')}, fewer than the horizon of "
                f"{horizon}; lower horizon, or set data.rows"
            )


def _series(reader: SeriesFiles) -> list[Choice]:
    """Keep the column that separates the series, if no header names it: a history may hold only one."""
    if not (ids := reader.table.ids):
        return []
    what, table = f"series by {', '.join(ids)}", {"data": {"series_id": list(ids)}}
    return [Choice(what, table, "its values tell lines of the same time apart; data.series_id changes it")]


def _windows(
    reader: SeriesFiles, sizes: WindowSizes, horizon: int | None, lookback: int | None
) -> list[Choice]:
    frequency = reader.table.series[0].frequency
    season = f"a season of {sizes.season} steps of {frequency.length}" if sizes.season > 1 else "no season"
    choices = []
    if horizon is None:
        table = {"data": {"horizon": sizes.horizon}}
        choices.append(Choice(f"horizon {sizes.horizon}", table, f"{season}; horizon=N changes it"))
    if lookback is None:
        what, table = f"lookback {sizes.lookback}", {"data": {"lookback": sizes.lookback}}
        choices.append(Choice(what, table, f"{season}; longer ones help only where there are more data"))
    return choices


def _model() -> Choice:
    return Choice(
        "model tiny-forecaster",
        {"model": {"preset": "tiny-forecaster"}},
        "the best linear forecast, and attention over patches (Nie et al. 2023) for what it misses",
    )


def _batch(numbers: int, rate: float) -> Choice:
    windows = max(min(WINDOWS, NUMBERS // numbers), 8)
    optimizer = {"kind": "adamw", "rate": rate, "decay": 0.05}
    table = {"tokens": windows * numbers, "accumulate": CORES, "optimizer": optimizer, "smoothing": 0.0}
    what = f"{windows} windows per batch, in {CORES} parts for up to {CORES} cores, rate {rate:g}"
    small = "small steps: the model begins at the best linear forecast"
    return Choice(what, {"training": table}, small if rate < OTHERS else "usual for this model")


def _time(preset: str) -> Choice:
    if preset in UNTRAINED:
        return Choice("one step", {"training": {"steps": 1}}, f"{preset} has nothing to learn")
    reason = "usual for a small model of series; --minutes changes it"
    return Choice(f"{MINUTES:g} minutes of training", {"training": {"minutes": MINUTES}}, reason)


def _validation() -> Choice:
    options = {"metric": "loss", "validations": 20, "validate_start": True, "decode": 30, "traces": 0}
    table = {"training": options}
    reason = "the steps after the training part decide which weights are kept"
    return Choice("20 validations, by the squared error", table, reason)


def _held_out(tested: bool) -> Choice:
    again = "" if tested else ", and the last ones for the test"
    what = f"{percent(HELD_OUT)} of the time steps for validation{again}"
    return Choice(
        what, {"data": {"held_out": HELD_OUT}}, "in time order, so that nothing of the future leaks"
    )

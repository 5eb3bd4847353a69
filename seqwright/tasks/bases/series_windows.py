"""The base of tasks on time series: windows as the inputs of a model, scaled by the training part.

A store of the training part holds its steps and nothing else, so no scaler, window or covariate can see the
future; windows are gathered from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from seqwright.data.plan import RowLengths, item_seed
from seqwright.data.results import Prediction
from seqwright.data.series.calendar import FEATURES, Frequency
from seqwright.data.series.index import SeriesIndex, series_index
from seqwright.data.series.scaling import by_channel, filled, scales_of
from seqwright.data.series.windows import Series, Window
from seqwright.data.split import text_hash
from seqwright.data.store import ColumnSpec, Store
from seqwright.data.task import Row, Task

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch, Past

P = TypeVar("P", bound=Prediction)


class Scales(NamedTuple):
    """Of each channel of a series (channels,): mean, deviation, and the mean error of the last season."""

    center: np.ndarray
    scale: np.ndarray
    naive: np.ndarray


@dataclass(frozen=True, eq=False)
class SeriesTask(Task[Window, P]):
    """A task on series of one frequency and one set of channels.

    scales: center, scale and naive of each series and channel (3, series, channels). covariates: mean and
    deviation of those known in advance (2, covariates).
    """

    horizon: int
    lookback: int
    season: int
    frequency: Frequency
    channels: tuple[str, ...]
    names: tuple[str, ...]
    calendar: bool
    known: tuple[str, ...]
    scales: np.ndarray
    covariates: np.ndarray

    # A store of windows ------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        return {
            "lookback": self.lookback,
            "horizon": self.horizon,
            "season": self.season,
            "features": FEATURES * self.calendar + len(self.known),
            "series": len(self.names) * len(self.channels),
        }

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = (ColumnSpec("key", "<i8"), ColumnSpec("values", "<f8"), ColumnSpec("known", "<f8"))
        return (*columns, ColumnSpec.text("name")) if readable else columns

    def encode(self, examples: Sequence[Window]) -> list[Row[Window]]:
        """The row of a step has its values; the first one of a part also those before it that are read."""
        rows = []
        for _, group in groupby(examples, lambda example: id(example.series)):
            windows = list(group)
            series, key = windows[0].series, text_hash(windows[0].series.name) >> 1
            low, high = min(window.at for window in windows), max(window.at for window in windows) + 1
            # one more: the step after the end of a series has no values
            values, known = ([*each[low:high].tolist(), []] for each in (series.values, series.known))
            for window in windows:
                at = window.at
                columns = {"key": [key, series.start + at], "name": ""}
                if at == window.begin:
                    read = slice(max(at - self.lookback, 0), at + 1)
                    columns["values"] = series.values[read].ravel().tolist()
                    columns["known"] = series.known[read].ravel().tolist()
                    columns["name"] = series.name
                else:
                    columns["values"], columns["known"] = values[at - low], known[at - low]
                rows.append(Row(window, columns, 1))
        return rows

    def stored(self, store: Store, number: int) -> Window:
        index = series_index(store, len(self.channels))
        segment = int(index.segments[number])
        series = index.series.get(segment)
        if series is None:
            series = index.series[segment] = self._stored_series(store, index, segment)
        first = int(index.firsts[segment])
        before = int(index.places[first] - index.begins[segment])
        return Window(series, before + number - first, before, len(series))

    def _stored_series(self, store: Store, index: SeriesIndex, segment: int) -> Series:
        first = int(index.firsts[segment])
        rows = slice(int(index.begins[segment]), int(index.ends[segment]))
        before = int(index.places[first]) - rows.start
        tick = int(store.column("key").row(first)[1])
        known = store.column("known").flat.reshape(len(index.table), -1)[rows]
        name, lines = store.column("name").text(first), np.zeros(rows.stop - rows.start, np.int64)
        return Series(name, self.frequency, self.channels, tick - before, index.table[rows], known, lines)

    def lengths(self, store: Store) -> RowLengths:
        counted = np.full(len(store), len(self.channels) * self.horizon - 1, np.int32)
        return RowLengths(np.zeros_like(counted), counted)

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> HeadBatch:
        """Return the windows that begin at these steps, each channel a row. A step that is too near to an end
        of its series stands for another one, drawn at random.
        """
        import torch

        from seqwright.data.batch import HeadBatch

        index = series_index(store, len(self.channels))
        usable = index.usable(self.lookback, self.horizon)
        chosen = numbers.copy()
        for place in np.flatnonzero(~usable.mask[numbers]).tolist():
            drawn = item_seed(seed, epoch or 0, int(numbers[place])) % len(usable.rows)
            chosen[place] = usable.rows[drawn]
        segments, places = index.segments[chosen], index.places[chosen]
        begins, ends = index.begins[segments][:, None], index.ends[segments][:, None]
        wanted = places[:, None] + np.arange(-self.lookback, self.horizon)
        steps = np.clip(wanted, begins, ends - 1)  # a short history repeats its first value
        values = index.table[steps]  # (W, L + H, C)
        values[wanted >= ends] = np.nan
        series = self._series_numbers(store, index)[segments]
        center, scale, _ = self._scales_in(series, values[:, : self.lookback])
        values = (values - center[:, None]) / scale[:, None]
        past, future = filled(values[:, : self.lookback]), values[:, self.lookback :]
        features = None
        if self.calendar or self.known:
            ticks = store.column("key").flat.reshape(-1, 2)[chosen, 1]
            known = store.column("known").flat.reshape(len(index.table), -1)[steps]
            features = self._features(ticks, known)
        source = self._source(past, series, features, self.horizon)
        expected = torch.from_numpy(by_channel(future))
        return HeadBatch(source, expected, numbers, int((~expected.isnan()).sum()))

    def _series_numbers(self, store: Store, index: SeriesIndex) -> np.ndarray:
        """The number of the series of each segment; −1 for one that is not in training."""
        if index.numbers is None:
            numbers = {text_hash(name) >> 1: number for number, name in enumerate(self.names)}
            keys = store.column("key").flat.reshape(-1, 2)[index.firsts, 0]
            index.numbers = np.array([numbers.get(key, -1) for key in keys.tolist()])
        return index.numbers

    def _scales_in(self, series: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Return the scales of windows (3, W, C); those of an unknown series come from its past (W, L, C)."""
        found = self.scales[:, series]
        for place in np.flatnonzero(series < 0).tolist():
            found[:, place] = scales_of(past[place], self.season)
        return found

    def _features(self, ticks: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return what is known in advance: ticks (W,) of first steps, known (W, T, K) -> (W, T, features)."""
        parts = []
        if self.calendar:
            every = ticks[:, None] + np.arange(known.shape[1]) - self.lookback
            parts.append(self.frequency.features(every.ravel()).reshape(*every.shape, FEATURES))
        if self.known:
            parts.append(np.nan_to_num((known - self.covariates[0]) / self.covariates[1]))
        return np.concatenate(parts, axis=-1).astype(np.float32)

    def _source(
        self, past: np.ndarray, series: np.ndarray, features: np.ndarray | None, horizon: int
    ) -> Past:
        """Return the input of a model: past (W, L, C), series (W,), −1 for an unknown one."""
        import torch

        from seqwright.data.batch import Past

        count = len(self.channels)
        ids = torch.from_numpy((series[:, None] * count + np.arange(count)).clip(min=0).ravel())
        repeated = None if features is None else torch.from_numpy(features).repeat_interleave(count, 0)
        return Past(torch.from_numpy(by_channel(past)), horizon, count, repeated, ids)

    def _given(self, windows: Sequence[Window], past: np.ndarray, ahead: int = 0) -> Past:
        """Return the input of a model for forecasts that begin `ahead` steps after those of the windows."""
        series = np.array([self._numbers.get(window.series.name, -1) for window in windows])
        features = None
        if self.calendar or self.known:
            known = np.stack([self._known(window, ahead) for window in windows])
            features = self._features(np.array([window.tick + ahead for window in windows]), known)
        return self._source(past, series, features, self.horizon)

    def _known(self, window: Window, ahead: int) -> np.ndarray:
        """Return the covariates of the steps that a forecast reads and covers (L + H, K), or NaN."""
        return window.covariates(ahead - self.lookback, ahead + self.horizon)

    def _unknown(self, window: Window, horizon: int) -> dict[str, int]:
        """Count the steps of a forecast for which each covariate is missing, where there are any."""
        counts = np.isnan(window.covariates(0, horizon)).sum(0).tolist()
        return {name: count for name, count in zip(self.known, counts, strict=True) if count}

    def _past(self, windows: Sequence[Window]) -> np.ndarray:
        """Return scaled histories (N, L, C). A short one repeats its first value; an empty one is 0."""
        found = np.zeros((len(windows), self.lookback, len(self.channels)))
        for own, window in zip(found, windows, strict=True):
            past = self._scaled(window, window.past(self.lookback))
            if len(past):
                own[:] = past[0]
                own[self.lookback - len(past) :] = past
        return filled(found)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def _scales_of(self, window: Window) -> Scales:
        """Return the scales of a series; those of an unknown one come from its history."""
        number = self._numbers.get(window.series.name)
        if number is None and len(self.names) == 1:
            number = 0
        return Scales(
            *(
                self.scales[:, number]
                if number is not None
                else scales_of(window.past(window.at), self.season)
            )
        )

    def _scaled(self, window: Window, values: np.ndarray) -> np.ndarray:
        center, scale, _ = self._scales_of(window)
        return (values - center) / scale

"""Time series: the next steps of each column, with intervals, from the steps before them.

Every step is an example: the forecast that begins there. A training store holds the steps of the training
part and nothing else, so no scaler, window or covariate can see the future; windows are gathered from it.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from seqwright.config import Config, DataConfig, SearchConfig
from seqwright.config.validation import Count, check
from seqwright.data.glance import Glance
from seqwright.data.plan import RowLengths, evenly, item_seed
from seqwright.data.readers.series import SeriesFiles, open_series
from seqwright.data.readers.series_sheets import claims_series
from seqwright.data.series.calendar import FEATURES, Frequency
from seqwright.data.series.index import SeriesIndex, series_index
from seqwright.data.series.results import LEVEL, Forecast, Trajectory, chart, forecast_csv
from seqwright.data.series.scaling import by_channel, deviation, filled, filled_past, scales_of
from seqwright.data.series.sizes import window_sizes
from seqwright.data.series.times import time_format
from seqwright.data.series.windows import Series, Window
from seqwright.data.split import SplitRule, text_hash
from seqwright.data.store import ColumnSpec, Store
from seqwright.data.task import (
    Bucket,
    Check,
    Claim,
    Item,
    Judge,
    Kind,
    Learning,
    Mistake,
    Nouns,
    Role,
    Row,
    Task,
    Usage,
)
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.metrics import METRICS
from seqwright.files import atomic_file, read_bytes, read_json, strict, write_json

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch, Past
    from seqwright.lens.series.build import ForecastReadout
    from seqwright.models.forecaster import Forecaster

FACTS, ARRAYS = "series.json", "series.safetensors"
USUAL = ("mse", "mae", "mase", "smape", f"coverage_{LEVEL}", "interval_width")
BASELINES = ("repeat_last", "seasonal_naive", "nlinear")
NUMBERS = 1 << 19  # predicted together
SCORED, WINDOWS = 30_000_000, 20_000  # numbers and windows of an evaluation, at most; every n-th of more
FITTED = 60_000  # windows from which the linear baseline is fitted, at most
CALIBRATED = 2000  # windows from which intervals are calibrated, at most
RIDGE = 3e-2  # of the linear baseline, in units of the mean square of its inputs; tuned on the ETT data sets
SPANS = 5  # of time, by which an evaluation is divided
DIGITS = 7  # of numbers in a line
TYPICAL = 3  # forecasts in the report, next to the worst one
DRAWN = 1200  # steps of a back-test in the report


HISTORY: Mapping[str, Any] = {  # the JSON schema of an input
    "type": "object",
    "properties": {
        "target": {"description": "Numbers: of each step, or of each step in every column."},
        "start": {"type": ["string", "number"], "description": "The time of the first step."},
        "series": {"type": "string"},
        "known": {"description": "Columns that are known in advance."},
    },
    "required": ["target"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Request:
    """The number of steps to predict."""

    horizon: int


class Scales(NamedTuple):
    """Of each channel of a series (channels,): mean, deviation, and the mean error of the last season."""

    center: np.ndarray
    scale: np.ndarray
    naive: np.ndarray


@dataclass(frozen=True, eq=False)
class Forecasting(Task[Window, Forecast]):
    """Series of one frequency and one set of channels, scaled by their training part.

    scales: center, scale and naive of each series and channel (3, series, channels). weights: the linear
    baseline (lookback, horizon). covariates: mean and deviation of those known in advance (2, covariates).
    spreads: by forecaster, the margin of its intervals in scaled units (horizon, channels), found on
    validation data.
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
    weights: np.ndarray
    covariates: np.ndarray
    spreads: Mapping[str, np.ndarray]

    roles = (Role("time", Kind.TIME), Role("value", Kind.NUMBER, needed="train"))
    models = ("forecaster",)
    nouns = Nouns("step", group="step")
    learning = Learning(SplitRule.BY_TIME)
    usage = Usage(file="whole", traced=models, schema=HISTORY)
    sample_facts: ClassVar[Mapping[str, Any]] = {
        "lookback": 16, "horizon": 4, "season": 2, "features": 0, "series": 1,
    }  # fmt: skip

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        if (evidence := claims_series(glance)) is None:
            return None
        return Claim(2 if glance.shape == "jsonl" else 7, f"{glance.name}: {evidence}")

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> SeriesFiles:
        return open_series(paths, data)

    @classmethod
    def group(cls, example: Window) -> str:
        return f"{example.series.name}\0{example.tick}"

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """A wave whose length is not a season of the calendar, with a little noise."""
        draw = random.Random(seed)
        first = np.datetime64("2024-01-01")
        return [
            {"time": str(first + day), "value": f"{math.sin(day / 2) + draw.gauss(0, 0.05):.4f}"}
            for day in range(360)
        ]

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls, config: Config, examples: Callable[[], Iterable[Window]], start: Forecasting | None = None
    ) -> Forecasting:
        spans: dict[str, list[Any]] = {}  # of each series: itself, its first and its last training step
        for example in examples():
            span = spans.setdefault(example.series.name, [example.series, example.at, example.at])
            span[2] = example.at
        parts = [(series, first, last + 1) for series, first, last in spans.values()]
        series = parts[0][0]
        steps = max(stop - first for _, first, stop in parts)
        chosen = window_sizes(series.frequency, steps, config.data)
        if steps < chosen.horizon + 2:
            raise InputError(
                f"the longest series has {steps:,} steps for training; a horizon of {chosen.horizon} needs "
                f"at least {chosen.horizon + 2}: {'lower horizon, or ' if chosen.horizon > 1 else ''}add data"
            )
        values = [s.values[first:stop] for s, first, stop in parts]
        covariates = np.concatenate([s.known[first:stop] for s, first, stop in parts])
        scales = np.stack([scales_of(each, chosen.season) for each in values], axis=1)
        found = cls(
            chosen.horizon,
            chosen.lookback,
            chosen.season,
            series.frequency,
            series.channels,
            tuple(s.name for s, _, _ in parts),
            config.data.calendar,
            config.data.known,
            scales,
            np.zeros((0, 0)),
            np.stack([np.nanmean(covariates, 0), deviation(covariates)])
            if covariates.size
            else np.zeros((2, 0)),
            {},
        )
        return replace(found, weights=found._linear_weights(values))

    def _linear_weights(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Fit the map from the past to the future, both measured against the last value, by least squares:
        the optimum of NLinear (Zeng et al. 2023) with a small ridge.
        """
        lookback, horizon = self.lookback, self.horizon
        square, product, seen = np.zeros((lookback, lookback)), np.zeros((lookback, horizon)), 0
        columns = [
            filled((own - center) / scale)
            for each, center, scale in zip(values, *self.scales[:2], strict=True)
            for own, center, scale in zip(each.T, center, scale, strict=True)
        ]
        total = sum(max(len(column) - lookback - horizon + 1, 0) for column in columns)
        apart = max(math.ceil(total / FITTED), 1)
        for column in columns:
            if len(column) < lookback + horizon:
                continue
            windows = np.lib.stride_tricks.sliding_window_view(column, lookback + horizon)[::apart]
            for block in np.array_split(windows, max(len(windows) // 4096, 1)):
                past, future = block[:, :lookback], block[:, lookback:]
                last = past[:, -1:]
                square += (past - last).T @ (past - last)
                product += (past - last).T @ (future - last)
                seen += len(block)
        if not seen:
            return np.zeros((lookback, horizon))
        ridge = RIDGE * np.trace(square) / lookback
        return np.linalg.solve(square + max(ridge, 1e-9) * np.eye(lookback), product)

    @classmethod
    def load(cls, folder: Path, config: Config) -> Forecasting:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        facts = read_json(folder / FACTS)
        try:
            arrays = load(read_bytes(folder / ARRAYS))
            spreads = {
                name.removeprefix("spread."): arrays[name] for name in arrays if name.startswith("spread.")
            }
            return cls(
                **{name: facts[name] for name in ("horizon", "lookback", "season", "calendar")},
                frequency=Frequency(**facts["frequency"]),
                channels=tuple(facts["channels"]),
                names=tuple(facts["series"]),
                known=tuple(facts["known"]),
                scales=arrays["scales"],
                weights=arrays["weights"],
                covariates=arrays["covariates"],
                spreads=spreads,
            )
        except (KeyError, TypeError, SafetensorError) as error:
            raise ModelError(
                f"{folder / FACTS} and {ARRAYS} do not belong together ({error}); restore them"
            ) from error

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save

        write_json(folder / FACTS, self._facts)
        spreads = {f"spread.{name}": np.ascontiguousarray(spread) for name, spread in self.spreads.items()}
        with atomic_file(folder / ARRAYS) as file:
            file.write(save({**{k: np.ascontiguousarray(v) for k, v in self._arrays.items()}, **spreads}))

    @property
    def _facts(self) -> dict[str, Any]:
        return {
            "horizon": self.horizon,
            "lookback": self.lookback,
            "season": self.season,
            "frequency": asdict(self.frequency),
            "channels": list(self.channels),
            "series": list(self.names),
            "calendar": self.calendar,
            "known": list(self.known),
        }

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        return {"scales": self.scales, "weights": self.weights, "covariates": self.covariates}

    @property
    def fingerprint(self) -> str:
        content = hashlib.sha256(json.dumps(self._facts).encode())
        for array in self._arrays.values():
            content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()

    @property
    def summary(self) -> str:
        return f"{self.lookback} steps of {self.frequency.length} → the next {self.horizon}"

    def calibrated(self, model: Forecaster, examples: Sequence[Window]) -> Forecasting:
        """Choose the margins of intervals so that they hold 80 % of the validation outcomes at each step and
        channel (split conformal prediction, Vovk et al. 2005; of quantiles, Romano et al. 2019).
        """
        usable = [window for window in examples if self._complete(window)]
        if not usable:
            return self
        chosen = [usable[i] for i in evenly(len(usable), CALIBRATED).tolist()]
        truths = np.stack([self._scaled(each, each.future(self.horizon)) for each in chosen])  # (N, H, C)
        spreads = {}
        for name, (mean, low, high) in self._every_forecast(model, chosen).items():
            outside = np.fmax(low - truths, truths - high) if name == "model" else np.abs(truths - mean)
            spreads[name] = np.nanquantile(outside, LEVEL / 100, axis=0)
        return replace(self, spreads=spreads)

    def _every_forecast(
        self, model: Forecaster | None, windows: Sequence[Window]
    ) -> dict[str, list[np.ndarray]]:
        """Return mean, low and high in scaled units (N, H, C) of the model, if there is one, and of each
        baseline, without the margins of their intervals.
        """
        found = {}
        if model is not None:
            found["model"] = self._predicted(model, windows, self.horizon)
        past = self._past(windows)
        for name, mean in self._baseline_means(past).items():
            found[name] = [mean] * 3
        return found

    def _baseline_means(self, past: np.ndarray) -> dict[str, np.ndarray]:
        """past (N, L, C) -> the forecast of each baseline (N, H, C)."""
        last, steps = past[:, -1:], np.arange(self.horizon) % self.season
        linear = np.einsum("nlc,lh->nhc", past - last, self.weights, optimize=True) + last
        repeated = np.broadcast_to(last, linear.shape)
        return dict(zip(BASELINES, (repeated, past[:, -self.season :][:, steps], linear), strict=True))

    # Examples as numbers ---------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        return {
            "lookback": self.lookback,
            "horizon": self.horizon,
            "season": self.season,
            "features": FEATURES * self.calendar + len(self.known),
            "series": len(self.names) * len(self.channels),
            "least_squares": self.weights.astype(np.float32),
        }

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = (ColumnSpec("key", "<i8"), ColumnSpec("values", "<f8"), ColumnSpec("known", "<f8"))
        return (*columns, ColumnSpec.text("name")) if readable else columns

    def encode(self, examples: Sequence[Window]) -> list[Row[Window]]:
        """The row of a step has its values; the first one of a part also those before it that are read."""
        rows, keys = [], dict[str, int]()
        for example in examples:
            series, at = example.series, example.at
            first = at == example.begin
            since = max(at - self.lookback, 0) if first else at
            key = keys.get(series.name)
            if key is None:
                key = keys[series.name] = text_hash(series.name) >> 1
            columns = {
                "key": [key, example.tick],
                "values": series.values[since : at + 1].ravel().tolist(),
                "known": series.known[since : at + 1].ravel().tolist(),
                "name": series.name if first else "",
            }
            rows.append(Row(example, columns, 1))
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
        past, future = filled_past(values[:, : self.lookback]), values[:, self.lookback :]
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

    # Answers ---------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Window]:
        one = isinstance(given, str | Window | Mapping | np.ndarray) or not isinstance(given, Iterable)
        for each in [given] if one else given:
            if isinstance(each, Window):
                self._check_series(each.series)
                yield each.masked()
            elif isinstance(each, str):
                yield self.from_line(each)
            elif isinstance(each, Mapping | np.ndarray):
                yield self._history(each)
            else:
                raise InputError(
                    f"{reprlib.repr(each)} is not a history; give an array of (steps, columns), or a table "
                    "with start and target"
                )

    def whole_inputs(self, reader: SeriesFiles) -> list[Window]:
        """Return the forecast after the end of each series; columns that the model does not know are left."""
        return self._with_own_columns(reader).latest()

    def looked_at(self, reader: SeriesFiles, text: str | None) -> Window:
        """Return the forecast that `look` shows: that of a JSON line; the one that begins at a time of the
        data, such as `2024-05-31` or `SERIES, from 2024-05-31`; without a text, the last one whose truth is
        known.
        """
        if text is not None and text.lstrip().startswith("{"):
            return self.from_line(text)
        reader = self._with_own_columns(reader)
        every = {series.name: series for series in reader.table.series}
        name, _, when = (text or "").rpartition(", from ")
        if text in every:
            name, when = text, ""
        if name and name not in every:
            raise InputError(
                f"there is no series {name!r}, only {shorten_list(list(every))}; name one of them"
            )
        series = every[name] if name else next(iter(every.values()))
        when = when.removeprefix("from ").strip()
        last = max(len(series) - self.horizon, 0)
        at = last if not when else self._tick({"start": when}) - series.start
        if not 0 < at <= len(series):
            labels = [self.frequency.label(series.start + step) for step in (1, len(series))]
            raise InputError(f"no forecast begins at {when}; choose a time from {labels[0]} to {labels[1]}")
        return Window(series, at, at, len(series))

    def readout(self, model: Forecaster, example: Window) -> ForecastReadout:
        from seqwright.lens.series.build import ForecastReadout

        (forecast,) = self.answer(model, self.encode([example]), None)
        own = example.past(self.lookback)
        past = np.full((self.lookback, len(self.channels)), np.nan)
        past[self.lookback - len(own) :] = own
        truth = example._replace(stop=len(example.series)).future(self.horizon)
        times = self.frequency.labels(example.tick - self.lookback, self.lookback + self.horizon)
        source = self._given([example], self._past([example]))
        return ForecastReadout(source, forecast, self.caption(example), past, truth, times)

    def _with_own_columns(self, reader: SeriesFiles) -> SeriesFiles:
        """Return a reader that leaves the columns that the model does not know."""
        if reader.table.series[0].channels == self.channels:
            return reader
        return replace(reader, data=replace(reader.data, target=self.channels, known=self.known))

    def written(self, predictions: Sequence[Forecast]) -> str:
        return forecast_csv(predictions, named=any(each.series for each in predictions))

    def remarks(self, inputs: Sequence[Window], predictions: Sequence[Forecast]) -> list[str]:
        """Draw the first series, and state what the forecasts rest on."""
        lines = []
        for window, forecast in list(zip(inputs, predictions, strict=True))[:1]:
            lines += chart(window.past(self.lookback), forecast)
        if short := sum(window.at < self.lookback for window in inputs):
            lines.append(
                f"{pluralize(short, 'history', 'histories')} shorter than the {self.lookback} steps that the "
                "model reads: the first value is repeated before it"
            )
        if predictions and (beyond := predictions[0].recursive):
            lines.append(
                f"the model predicts {self.horizon} steps; the last {beyond} are recursive: they read its "
                "own forecast, and their intervals widen by a rule of thumb"
            )
        return lines

    def labelled(self, given: Any) -> Iterator[Window]:
        """Yield the windows with a whole history and a whole future; every n-th where there are very many."""
        every = list(given)
        windows = [window for window in every if isinstance(window, Window) and self._complete(window)]
        if every and not windows:
            raise InputError(
                f"no step has {self.lookback} known steps before it and {self.horizon} from it on, which the "
                "model reads and predicts; give a longer series"
            )
        most = min(max(SCORED // (self.horizon * len(self.channels)), 1), WINDOWS)
        yield from windows[:: math.ceil(len(windows) / most)] if windows else ()

    def _complete(self, window: Window) -> bool:
        enough = window.at >= self.lookback and window.at + self.horizon <= window.stop
        return enough and not np.isnan(window.future(self.horizon)).all()

    def check_compatible(self, example: Window, files: Sequence[str]) -> None:
        self._check_series(example.series)

    def _check_series(self, series: Series) -> None:
        own, other = self.frequency, series.frequency
        if (own.unit, own.step) != (other.unit, other.step):
            raise InputError(
                f"{series.path or 'the history'} has one step per {other.name}, but the model was trained "
                f"with one per {own.name}; resample it"
            )
        if series.channels != self.channels:
            raise InputError(
                f"{series.path or 'the history'} has the columns {', '.join(series.channels)}, but the model "
                f"was trained with {', '.join(self.channels)}; give the same ones"
            )

    def from_line(self, line: str) -> Window:
        try:
            table = json.loads(line)
        except ValueError as error:
            raise InputError(
                f'{reprlib.repr(line)} is not JSON; write {{"start": …, "target": […]}}'
            ) from error
        return self._history(table)._replace(line=line)

    def _history(self, given: Any) -> Window:
        """Return the forecast after a history: an array (steps, channels), or a table with a target."""
        table = given if isinstance(given, Mapping) else {"target": given}
        target = table.get("target")
        if isinstance(target, Mapping):
            if missing := [name for name in self.channels if name not in target]:
                raise InputError(
                    f"the history has no {missing[0]!r}; the model reads {', '.join(self.channels)}"
                )
            target = np.array([target[name] for name in self.channels], dtype=float).T
        try:
            values = np.array(target, dtype=float).reshape(-1, len(self.channels))
            width, given_known = len(self.known), table.get("known", ()) if self.known else ()
            known = np.array(given_known, dtype=float).reshape(-1 if width else 0, width)
        except (TypeError, ValueError):
            raise InputError(
                f"a history needs a target of numbers, {len(self.channels)} for each step "
                f"({', '.join(self.channels)})"
            ) from None
        steps = max(len(values), len(known)) if self.known else len(values)
        covariates = np.full((steps, len(self.known)), np.nan)
        covariates[: len(known)] = known
        padded = np.full((steps, len(self.channels)), np.nan)
        padded[: len(values)] = np.where(np.isfinite(values), values, np.nan)
        name, lines = str(table.get("series", "")), np.zeros(steps, np.int64)
        series = Series(name, self.frequency, self.channels, self._tick(table), padded, covariates, lines)
        return Window(series, len(values), len(values), len(values))

    def _tick(self, table: Mapping[str, Any]) -> int:
        start = table.get("start")
        if start is None:
            return 0
        try:
            moment = time_format([str(start)], integers=self.frequency.unit == "number").parse(str(start))
        except ValueError as error:
            raise InputError(f"start: {error}") from None
        return int(self.frequency.ticks(np.array([moment]))[0])

    def to_line(self, example: Window) -> str:
        if example.line:
            return example.line
        past = example.past(self.lookback)
        columns = {
            name: [None if math.isnan(x) else float(f"{x:.{DIGITS}g}") for x in column]
            for name, column in zip(self.channels, past.T.tolist(), strict=True)
        }
        target: Any = columns if len(columns) > 1 else columns[self.channels[0]]
        table = {"start": self.frequency.label(example.tick - len(past)), "target": target}
        if self.known:
            begin = example.at - len(past)
            covariates = example.series.known[begin : example.at + self.horizon]
            table["known"] = strict(covariates.tolist())
        return json.dumps({**table, **({"series": example.series.name} if example.series.name else {})})

    def caption(self, example: Window) -> str:
        name = example.series.name
        return f"{name}, from {example.when}" if name else f"from {example.when}"

    def request(
        self, search: SearchConfig, *, count: int | None = None, horizon: int | None = None, **options: Any
    ) -> Request:
        if options:
            raise ConfigError(f"{', '.join(options)}: a forecast has no such option; leave it out")
        if problem := check("horizon", horizon, Count | None):
            raise ConfigError(problem)
        return Request(horizon or self.horizon)

    def answer(
        self,
        model: Forecaster,
        rows: Sequence[Row[Window]],
        request: Request | None,
        numbers: Sequence[int] = (),
    ) -> list[Forecast]:
        horizon = request.horizon if request is not None else self.horizon
        windows, margin = [row.example for row in rows], self._margin("model", horizon)
        mean, low, high = self._predicted(model, windows, horizon)
        growth = np.sqrt(1 + np.arange(horizon) // self.horizon)[:, None]  # like the error of a random walk
        below, above = ((width + margin) * growth for width in (mean - low, high - mean))
        scaled = zip(windows, mean, mean - below, mean + above, strict=True)
        return [self._forecast(*each, horizon) for each in scaled]

    def _margin(self, name: str, horizon: int) -> np.ndarray:
        """Return the margin of intervals (horizon, channels), again and again behind the trained steps."""
        spread = self.spreads.get(name)
        if spread is None:
            return np.zeros((1, len(self.channels)))
        return spread[np.arange(horizon) % self.horizon]

    def _forecast(
        self, window: Window, mean: np.ndarray, low: np.ndarray, high: np.ndarray, horizon: int
    ) -> Forecast:
        scales, series = self._scales_of(window), window.series
        mean, low, high = (
            each * scales.scale + scales.center
            for each in (mean, np.minimum(low, mean), np.maximum(high, mean))
        )
        return Forecast(
            series=series.name,
            channels=self.channels,
            frequency=self.frequency,
            first=window.tick,
            mean=mean,
            low=low,
            high=high,
            scale=scales.scale,
            naive=scales.naive,
            recursive=max(horizon - self.horizon, 0),
            source=window.line or self.caption(window),
        )

    def _predicted(self, model: Any, windows: Sequence[Window], horizon: int) -> list[np.ndarray]:
        """Return mean, low and high in scaled units (N, horizon, C)."""
        parts = [self._predicted_together(model, some, horizon) for some in self._blocks(windows)]
        return [np.concatenate(each) for each in zip(*parts, strict=True)]

    def _blocks(self, windows: Sequence[Window]) -> Iterator[Sequence[Window]]:
        """Yield so many windows at a time as are computed together."""
        most = max(NUMBERS // ((self.lookback + self.horizon) * len(self.channels)), 1)
        return (windows[first : first + most] for first in range(0, len(windows), most))

    def _predicted_together(
        self, model: Any, windows: Sequence[Window], horizon: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Further than the model was trained for, it reads its own means."""
        from seqwright.models import evaluating

        past, count = self._past(windows), len(self.channels)
        found: list[np.ndarray] = []
        for ahead in range(0, horizon, self.horizon):
            with evaluating(model):
                output = model.predictions(self._given(windows, past, ahead)).double().numpy()
            output = output.reshape(len(windows), count, self.horizon, -1).transpose(3, 0, 2, 1)
            found.append(output[[0, 1, -1]] if len(output) > 1 else output[[0, 0, 0]])
            past = np.concatenate([past, output[0]], axis=1)[:, -self.lookback :]
        mean, low, high = np.concatenate(found, axis=2)[:, :, :horizon]
        return mean, low, high

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
        steps = window.at + ahead + np.arange(-self.lookback, self.horizon)
        known = window.series.known
        inside = (steps >= 0) & (steps < len(known))
        found = np.full((len(steps), known.shape[1]), np.nan)
        found[inside] = known[steps[inside]]
        return found

    def _past(self, windows: Sequence[Window]) -> np.ndarray:
        """Return scaled histories (N, L, C). A short one repeats its first value; an empty one is 0."""
        found = np.zeros((len(windows), self.lookback, len(self.channels)))
        for own, window in zip(found, windows, strict=True):
            past = self._scaled(window, window.past(self.lookback))
            if len(past):
                own[:] = past[0]
                own[self.lookback - len(past) :] = past
        return filled_past(found)

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

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: Window) -> Trajectory:
        _, scale, naive = self._scales_of(example)
        return Trajectory(example.future(self.horizon), scale, naive)

    def judge(
        self,
        examples: Sequence[Window],
        references: Sequence[Sequence[Trajectory]],
        *,
        metrics: Sequence[Any] = (),
        validation: bool = False,
        **options: Any,
    ) -> Judge:
        specs = dict.fromkeys((*USUAL[:2], *metrics)) if validation else metrics or USUAL
        built = tuple(METRICS.build(spec) for spec in specs)
        context = f"rolling forecasts of {self.horizon} steps from {self.lookback}"
        return Judge(built, {"context": context}, {metric.name: metric.title for metric in built})

    def draft(
        self, model: Any, items: Sequence[tuple[Window, Sequence[Any]]], check: Check
    ) -> list[Forecast]:
        check()
        return self.answer(model, self.encode([example for example, _ in items]), None)

    def mistakes(self, judge: Judge, items: Sequence[Item[Window, Forecast]]) -> list[Mistake]:
        """Rank windows by their squared error e in scaled units: a share of e / (1 + e)."""
        found = []
        for item in items:
            expected, output = item.references[0], item.output
            error = float(np.nanmean(((output.mean - expected.values) / expected.scale) ** 2))
            error = error if math.isfinite(error) else 0.0
            found.append(Mistake(expected, 1, error / (1 + error), ()))
        return found

    def buckets(
        self, items: Sequence[Item[Window, Forecast]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by the time of the forecast."""
        ticks = np.array([item.output.first for item in items])
        if len(np.unique(ticks)) < 2 * SPANS:
            return {}
        cuts = np.linspace(ticks.min(), ticks.max() + 1, SPANS + 1)
        spans = np.searchsorted(cuts, ticks, side="right") - 1
        groups = [np.flatnonzero(spans == span) for span in range(SPANS)]
        return {
            "time": tuple(
                Bucket(f"{items[int(group[0])].output.times[0][:16]} …", tuple(group.tolist()))
                for group in groups
                if len(group)
            )
        }

    def baseline(self, example: Window) -> Trajectory:
        """The last season again."""
        return self.baselines([example])["seasonal_naive"][0]

    def baselines(self, examples: Sequence[Window]) -> dict[str, list[Trajectory]]:
        """Return the forecasts of the baselines, with intervals calibrated like those of the model."""
        found: dict[str, list[Trajectory]] = {name: [] for name in BASELINES}
        for windows in self._blocks(examples):
            for name, mean in self._baseline_means(self._past(windows)).items():
                margin = self._margin(name, self.horizon)
                found[name] += [
                    self._forecast(*each, self.horizon).value
                    for each in zip(windows, mean, mean - margin, mean + margin, strict=True)
                ]
        return found

    def pictures(
        self,
        model: Any,
        items: Sequence[Item[Window, Forecast]],
        baselines: Mapping[str, Sequence[Trajectory]],
    ) -> dict[str, Any]:
        """Typical and bad forecasts, the error by step, and forecasts one after the other along the time."""
        truths = np.stack([item.references[0].values for item in items])
        scale = np.stack([item.references[0].scale for item in items])[:, None]
        outputs = {"model": np.stack([item.output.mean for item in items])}
        outputs |= {name: np.stack([each.values for each in found]) for name, found in baselines.items()}
        errors = {name: np.abs(found - truths) / scale for name, found in outputs.items()}  # (N, H, C)
        by_window = np.nan_to_num(np.nanmean(errors["model"], axis=1))  # (N, C)
        shown = [
            (int(np.argsort(by_window[:, channel], kind="stable")[len(items) // 2]), channel, "typical")
            for channel in evenly(len(self.channels), TYPICAL).tolist()
        ]
        worst, channel = np.unravel_index(int(by_window.argmax()), by_window.shape)
        shown.append((int(worst), int(channel), "worst"))
        return {
            "forecasts": [
                self._picture(model, items[number], channel, kind) for number, channel, kind in shown
            ],
            "by_step": {name: np.nanmean(each, axis=(0, 2)).tolist() for name, each in errors.items()},
            "backtest": self._backtest(items),
        }

    def _picture(self, model: Any, item: Item[Window, Forecast], channel: int, kind: str) -> dict[str, Any]:
        window, output = item.example, item.output
        past = window.past(min(self.lookback, max(2 * self.horizon, 24)))[:, channel]
        name = f"{output.series}, {self.channels[channel]}" if output.series else self.channels[channel]
        lines = {"mean": output.mean, "low": output.low, "high": output.high}
        return {
            "title": f"{name} from {window.when}: {kind}",
            "first": self.frequency.label(window.tick - len(past)),
            "last": self.frequency.label(window.tick + self.horizon - 1),
            "past": past.tolist(),
            "truth": item.references[0].values[:, channel].tolist(),
            **{key: line[:, channel].tolist() for key, line in lines.items()},
            **self._attention(model, window, channel, len(past)),
        }

    def _attention(self, model: Any, window: Window, channel: int, steps: int) -> dict[str, Any]:
        """Return the weights of the patches that begin in the last `steps` of the past, for each patch of the
        forecast, and where the first of them begins; nothing for a model without patches.
        """
        from seqwright.lens.series.attention import patch_attention

        found = patch_attention(model, self._given([window], self._past([window])))
        if found is None:
            return {}
        stride, rows = model.network.stride, found[channel]
        first = max(math.ceil((self.lookback - steps) / stride), 0)
        weights = {"rows": rows[:, first:].tolist(), "stride": stride, "patch": model.network.patch}
        return {"attention": {**weights, "first": first * stride - (self.lookback - steps)}}

    def _backtest(self, items: Sequence[Item[Window, Forecast]]) -> dict[str, Any]:
        """Lay forecasts that do not overlap along the time, for the first series and the last channel."""
        own = [item for item in items if item.output.series == items[0].output.series]
        chosen: list[Item[Window, Forecast]] = []
        for item in own:
            if not chosen or item.output.first >= chosen[-1].output.first + self.horizon:
                chosen.append(item)
        first, last = chosen[0].output, chosen[-1].output
        steps = np.arange(first.first, last.first + self.horizon)
        lines = {key: np.full(len(steps), np.nan) for key in ("truth", "mean", "low", "high")}
        for item in chosen:
            begin = item.output.first - first.first
            found = (item.references[0].values, item.output.mean, item.output.low, item.output.high)
            for line, numbers in zip(lines.values(), found, strict=True):
                line[begin : begin + self.horizon] = numbers[:, -1]
        apart = max(math.ceil(len(steps) / DRAWN), 1)
        name = f"{first.series}, {self.channels[-1]}" if first.series else self.channels[-1]
        return {
            "title": name,
            "first": first.times[0],
            "last": last.times[-1],
            "past": [],
            **{key: line[::apart].tolist() for key, line in lines.items()},
        }

    @classmethod
    def check(cls, config: Config) -> None:
        if config.tokenizer.joint:
            raise ConfigError("tokenizer.joint is for texts; a forecaster reads numbers: remove it")

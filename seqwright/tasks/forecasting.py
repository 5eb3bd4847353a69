"""Time series: the next steps of each column, with intervals, from the steps before them.

Every step is an example: the forecast that begins there.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqwright.config import Config, DataConfig, SearchConfig
from seqwright.config.presets import PRESETS
from seqwright.config.validation import Count, check
from seqwright.data.glance import Glance
from seqwright.data.plan import evenly
from seqwright.data.readers.series import SeriesFiles, open_series
from seqwright.data.readers.series_sheets import claims_series
from seqwright.data.series.calendar import Frequency
from seqwright.data.series.histories import history_in_line, history_of, line_of, tick_of
from seqwright.data.series.results import LEVEL, Forecast, Trajectory, chart, forecast_csv
from seqwright.data.series.scaling import deviation, scales_of
from seqwright.data.series.sizes import window_sizes
from seqwright.data.series.windows import Series, Window
from seqwright.data.split import SplitRule
from seqwright.data.task import (
    Bucket,
    Check,
    Claim,
    Item,
    Judge,
    Judging,
    Kind,
    Learning,
    Mistake,
    Nouns,
    Role,
    Row,
    Usage,
)
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.forecast_baselines import baseline_forecasts, linear_maps
from seqwright.evaluation.forecasts import buckets_by_time, forecast_mistakes
from seqwright.evaluation.metrics import METRICS
from seqwright.files import atomic_file, read_bytes, read_json, write_json
from seqwright.tasks.bases.series_windows import SeriesTask

if TYPE_CHECKING:
    from seqwright.data.batch import Past
    from seqwright.lens.series.build import ForecastReadout
    from seqwright.models.forecaster import Forecaster

FACTS, ARRAYS = "series.json", "series.safetensors"
USUAL = ("mse", "mae", "mase", "smape", f"coverage_{LEVEL}", "interval_width")
MAPS = {"nlinear": "weights", "dlinear": "dlinear"}  # linear baselines, and their names in the file
NUMBERS = 1 << 19  # predicted together
SCORED, WINDOWS = 12_000_000, 20_000  # numbers and windows of an evaluation, at most; every n-th of more
CALIBRATED = 2000  # windows from which intervals are calibrated, at most

HISTORY: Mapping[str, Any] = {  # the JSON schema of an input
    "type": "object",
    "properties": {
        "target": {"description": "Numbers: of each step, or of each step in every column."},
        "start": {"type": ["string", "number"], "description": "The time of the first step."},
        "end": {"type": ["string", "number"], "description": "The time of the last step, which is checked."},
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


@dataclass(frozen=True, eq=False)
class Forecasting(SeriesTask[Forecast]):
    """Series with the maps of the linear baselines and the margins of the intervals.

    history: steps before a forecast without which it is not evaluated; 0: those that the model reads. maps:
    the linear baselines by name (lookback, horizon). spreads: by forecaster, the margin of its intervals in
    scaled units (horizon, channels), found on validation data. times: the name of the format of the times in
    the training data; empty: a run of an older version, which did not keep it.
    """

    maps: Mapping[str, np.ndarray]
    spreads: Mapping[str, np.ndarray]
    history: int = 0
    times: str = ""

    roles = (Role("time", Kind.TIME), Role("value", Kind.NUMBER, needed="train"))
    models = ("forecaster",)
    nouns = Nouns("step", group="step")
    learning = Learning(SplitRule.BY_TIME)
    judging = Judging(merges=False, fixed=True, trivial="seasonal_naive")
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

    def own_reader(self, paths: Sequence[str], data: DataConfig) -> SeriesFiles:
        """Columns that the model does not know are left, and times are steps of its frequency."""
        own = replace(data, target=self.channels, known=self.known)
        return replace(open_series(paths, own), grid=self.frequency, times=self.times)

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
        center, scale, _ = scales
        columns = [
            column
            for each, mean, spread in zip(values, center, scale, strict=True)
            for column in ((each - mean) / spread).T
        ]
        return cls(
            horizon=chosen.horizon,
            lookback=chosen.lookback,
            season=chosen.season,
            frequency=series.frequency,
            channels=series.channels,
            names=tuple(s.name for s, _, _ in parts),
            calendar=config.data.calendar,
            known=config.data.known,
            scales=scales,
            covariates=np.stack([np.nanmean(covariates, 0), deviation(covariates)])
            if covariates.size
            else np.zeros((2, 0)),
            maps=linear_maps(columns, chosen.lookback, chosen.horizon),
            spreads={},
            times=series.times,
        )

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
                maps={  # runs of older versions have no dlinear
                    name: arrays[key] for name, key in MAPS.items() if name == "nlinear" or key in arrays
                },
                covariates=arrays["covariates"],
                spreads=spreads,
                times=str(facts.get("times", "")),
            )
        except (KeyError, TypeError, SafetensorError) as error:
            raise ModelError(
                f"{folder / FACTS} and {ARRAYS} do not belong together ({error}); restore them"
            ) from error

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save

        write_json(folder / FACTS, {**self._facts, "times": self.times})
        spreads = {f"spread.{name}": np.ascontiguousarray(spread) for name, spread in self.spreads.items()}
        with atomic_file(folder / ARRAYS) as file:
            file.write(save({**{k: np.ascontiguousarray(v) for k, v in self._arrays.items()}, **spreads}))

    @property
    def _facts(self) -> dict[str, Any]:
        """What the fingerprint depends on; the format of the times decides nothing that is learned."""
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
        maps = {MAPS[name]: weights for name, weights in self.maps.items()}
        return {"scales": self.scales, **maps, "covariates": self.covariates}

    @property
    def fingerprint(self) -> str:
        content = hashlib.sha256(json.dumps(self._facts).encode())
        for array in self._arrays.values():
            content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()

    @property
    def summary(self) -> str:
        return f"{self.lookback} steps of {self.frequency.length} → the next {self.horizon}"

    @property
    def described(self) -> Mapping[str, Any]:
        return {"columns": list(self.channels), "known": list(self.known), "horizon": self.horizon}

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
        return found | {name: [mean] * 3 for name, mean in self._baseline_means(windows).items()}

    def _baseline_means(self, windows: Sequence[Window]) -> dict[str, np.ndarray]:
        return baseline_forecasts(self._past(windows), self.maps, self.horizon, self.season)

    def facts(self) -> Mapping[str, Any]:
        return {**super().facts(), "least_squares": self.maps["nlinear"].astype(np.float32)}

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
                yield history_of(each, self.frequency, self.channels, self.known, self.times)
            else:
                raise InputError(
                    f"{reprlib.repr(each)} is not a history; give an array of (steps, columns), or a table "
                    "with start and target"
                )

    def whole_inputs(self, reader: SeriesFiles) -> list[Window]:
        """Return the forecast after the end of each series."""
        return reader.latest()

    def looked_at(self, reader: SeriesFiles, text: str | None) -> Window:
        """Return the forecast that `look` shows: that of a JSON line; the one that begins at a time of the
        data, such as `2024-05-31` or `SERIES, from 2024-05-31`; without a text, the last one whose truth is
        known.
        """
        if text is not None and text.lstrip().startswith("{"):
            return self.from_line(text)
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
        at = last if not when else tick_of(when, self.frequency, self.times) - series.start
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
        if remarks := [each.remark for each in predictions if each.remark]:
            several = f"{len(remarks):,} of {len(predictions):,} forecasts: " if len(predictions) > 1 else ""
            lines.append(several + remarks[0])
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
                f"no step has {self._read} known steps before it and {self.horizon} from it on, which the "
                "model reads and predicts; give a longer series"
            )
        most = min(max(SCORED // (self.horizon * len(self.channels)), 1), WINDOWS)
        yield from windows[:: math.ceil(len(windows) / most)] if windows else ()

    def beside(self, other: Forecasting) -> Forecasting:
        if self.horizon != other.horizon:
            raise InputError(
                f"one model predicts {self.horizon} steps and the other {other.horizon}; compare models of "
                "one horizon"
            )
        return replace(self, history=max(self.lookback, other.lookback))

    @property
    def _read(self) -> int:
        return max(self.lookback, self.history)

    def _complete(self, window: Window) -> bool:
        enough = window.at >= self._read and window.at + self.horizon <= window.stop
        return enough and not np.isnan(window.future(self.horizon)).all()

    def _check_series(self, series: Series) -> None:
        if series.frequency != self.frequency:
            raise InputError(
                f"{series.path or 'the history'} was read with other steps than those of the model; read it "
                "with the own_reader of its task"
            )
        if series.channels != self.channels:
            raise InputError(
                f"{series.path or 'the history'} has the columns {', '.join(series.channels)}, but the model "
                f"was trained with {', '.join(self.channels)}; give the same ones"
            )

    def from_line(self, line: str) -> Window:
        return history_in_line(line, self.frequency, self.channels, self.known, self.times)

    def to_line(self, example: Window) -> str:
        return line_of(example, self.lookback, self.horizon)

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
            unknown=self._unknown(window, horizon),
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
        return forecast_mistakes(items)

    def buckets(
        self, items: Sequence[Item[Window, Forecast]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        found = buckets_by_time(items)
        return {"time": found} if found else {}

    def baselines(self, examples: Sequence[Window]) -> dict[str, list[Trajectory]]:
        """Return the forecasts of the baselines, with intervals calibrated like those of the model."""
        found: dict[str, list[Trajectory]] = {}
        for windows in self._blocks(examples):
            center, scale, naive = map(np.stack, zip(*map(self._scales_of, windows), strict=True))  # (N, C)
            for name, mean in self._baseline_means(windows).items():
                margin = self._margin(name, self.horizon)
                lines = (
                    each * scale[:, None] + center[:, None] for each in (mean, mean - margin, mean + margin)
                )
                values, low, high = lines
                every = zip(values, scale, naive, low, high, strict=True)
                found.setdefault(name, []).extend(Trajectory(*each) for each in every)
        return found

    def pictures(
        self,
        model: Any,
        items: Sequence[Item[Window, Forecast]],
        baselines: Mapping[str, Sequence[Trajectory]],
    ) -> dict[str, Any]:
        from seqwright.lens.series.pictures import forecast_pictures

        def source_of(window: Window) -> Past:
            return self._given([window], self._past([window]))

        return forecast_pictures(model, items, baselines, self.lookback, source_of)

    @classmethod
    def check(cls, config: Config) -> None:
        if config.tokenizer.joint:
            raise ConfigError("tokenizer.joint is for texts; a forecaster reads numbers: remove it")
        from seqwright.models.building import reads_features, resolve

        values = {"data.known": list(config.data.known), "data.calendar": config.data.calendar}
        given = {key: value for key, value in values.items() if value}
        if given and not reads_features(config.model):
            forecasters = (name for name, preset in PRESETS.items() if preset.kind in cls.models)
            *others, last = (name for name in forecasters if reads_features(name))
            network = resolve(config.model)["network"]["kind"]
            raise ConfigError(
                f"{' and '.join(f'{key} is {value}' for key, value in given.items())}, but the network "
                f"{network} reads past values alone; use model={', '.join(others)} or {last}, or leave "
                f"{' and '.join(given)} out"
            )

"""Forecasting on the ETT data sets, compared with published figures.

python -m bench.forecasting DATA                   # runs all and appends to bench/results/forecasting.jsonl
python -m bench.forecasting DATA --only ETTh1-96   # one data set and horizon; ETTh1-96/dlinear: one model
python -m bench.forecasting --table                # writes the table of docs/benchmarks.md

DATA has ETTh1.csv and ETTm1.csv (Zhou et al. 2021, github.com/zhouhaoyi/ETDataset), compressed or not. The
first 12, 4 and 4 months of 30 days are the parts. The default model receives the file, the horizon, the
parts, minutes and a seed: the recipe chooses everything else. The linear baselines look back 336 steps, as
published. Errors are those of all test windows; the published tables drop the last incomplete batch.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import seqwright
from bench.quality import HERE, PAGE, printed_by
from bench.tables import markdown, put

RESULTS = HERE / "results" / "forecasting.jsonl"
MONTH = 30 * 24  # hours
LINEAR_LOOKBACK, LINEAR_MINUTES = 336, 2.0
DEFAULT, LEAST_SQUARES = "default", "nlinear by least squares"
NEAR = 0.005  # a baseline is reproduced if it is as near as this to the published figures
REPRODUCED = ("repeat_last", "dlinear", "nlinear")


class Errors(NamedTuple):
    mse: float
    mae: float

    def __str__(self) -> str:
        return f"{self.mse:.3f} / {self.mae:.3f}"


@dataclass(frozen=True)
class Experiment:
    """One data set and horizon, with published errors: repeat last, DLinear and NLinear (Zeng et al. 2023,
    look-back 336), and of patches PatchTST/64 (Nie et al. 2023, look-back 512). bar: for the default model.
    """

    data: str
    horizon: int
    minutes: float
    bar: Errors
    repeat_last: Errors
    dlinear: Errors
    nlinear: Errors
    patches: Errors

    @property
    def rows(self) -> list[int]:
        months = MONTH * (4 if self.data.startswith("ETTm") else 1)
        return [12 * months, 4 * months, 4 * months]

    @property
    def published(self) -> dict[str, Errors]:
        linear = {name: getattr(self, name) for name in REPRODUCED}
        return {**linear, LEAST_SQUARES: self.nlinear, DEFAULT: self.patches}


def _etth1(horizon: int, *errors: tuple[float, float]) -> Experiment:
    return Experiment("ETTh1", horizon, 5, *(Errors(*each) for each in errors))


EXPERIMENTS = {
    "ETTh1-96": _etth1(96, (0.390, 0.405), (1.295, 0.713), (0.375, 0.399), (0.374, 0.394), (0.370, 0.400)),
    "ETTh1-192": _etth1(192, (0.430, 0.432), (1.325, 0.733), (0.405, 0.416), (0.408, 0.415), (0.413, 0.429)),
    "ETTh1-336": _etth1(336, (0.455, 0.450), (1.323, 0.744), (0.439, 0.443), (0.429, 0.427), (0.422, 0.440)),
    "ETTh1-720": _etth1(720, (0.475, 0.480), (1.339, 0.756), (0.472, 0.490), (0.440, 0.453), (0.447, 0.468)),
    "ETTm1-96": Experiment(
        "ETTm1",
        96,
        10,
        bar=Errors(0.305, 0.350),
        repeat_last=Errors(1.214, 0.665),
        dlinear=Errors(0.299, 0.343),
        nlinear=Errors(0.306, 0.348),
        patches=Errors(0.293, 0.346),
    ),
}
MODELS = (DEFAULT, "dlinear", "nlinear")  # that are trained; the evaluation adds the other baselines


def run(
    experiment: Experiment, model: str, data: Path, out: Path, *, seed: int, minutes: float
) -> dict[str, Any]:
    """Train a model into `out` and evaluate it on the test part, each in its own process."""
    path = next(iter(sorted(data.glob(f"{experiment.data}.csv*"))), None)
    if path is None:
        raise SystemExit(f"{data} has no {experiment.data}.csv; give the folder of the ETT data sets")
    parts = ",".join(map(str, experiment.rows))
    given = [str(path), f"horizon={experiment.horizon}", f"data.rows={parts}", f"--minutes={minutes}"]
    if model != DEFAULT:
        given += [f"model.preset={model}", f"lookback={LINEAR_LOOKBACK}"]
    printed_by("train", *given, f"--seed={seed}", f"--out={out}")
    judged = json.loads(printed_by("evaluate", str(out), "--json"))
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    config = json.loads((out / "config.json").read_text())
    return {
        "metrics": judged["metrics"],
        "baselines": judged["baselines"],
        "horizon": experiment.horizon,
        "lookback": config["data"]["lookback"],
        "preset": config["model"]["preset"],
        "minutes": minutes,
        "trained_minutes": round(records[-1]["seconds"] / 60, 1),
        "steps": max(record["step"] for record in records),
        "seed": seed,
        "version": seqwright.__version__,
    }


def chosen(only: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the experiments and models that are named; all, if none is."""
    every = [(name, model) for name in EXPERIMENTS for model in MODELS]
    for each in only:
        if not any(each in (name, f"{name}/{model}") for name, model in every):
            known = ", ".join(EXPERIMENTS)
            raise SystemExit(f"--only {each} is not an experiment; give one of {known}, or NAME/MODEL")
    yield from ((name, model) for name, model in every if not only or {name, f"{name}/{model}"} & set(only))


# The table -----------------------------------------------------------------------------------------


def table() -> str:
    """The latest results: the errors of each model next to the published ones."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    latest = {(record["name"], record["model"]): record for record in map(json.loads, lines)}
    head = ["data", "horizon", "model", "lookback", "minutes", "MSE / MAE", "published", "target"]
    rows, missing = [], []
    for name, experiment in EXPERIMENTS.items():
        own = {model: latest[name, model] for model in MODELS if (name, model) in latest}
        missing += [f"{name}/{model}" for model in MODELS if model not in own]
        rows += list(_rows(experiment, own))
    parts = [markdown(head, rows)]
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _rows(experiment: Experiment, own: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """Yield a row for each model that has a result; those that are not trained come with the first one."""
    found = {model: (_errors(record["metrics"]), record) for model, record in own.items()}
    if own:
        record = own.get("nlinear") or next(iter(own.values()))
        for name, key in (
            ("repeat_last", "repeat_last"),
            ("seasonal_naive", "seasonal_naive"),
            (LEAST_SQUARES, "nlinear"),
        ):
            found[name] = (_errors(record["baselines"][key]), {"lookback": record["lookback"], "minutes": 0})
    for model in ("repeat_last", "seasonal_naive", "dlinear", "nlinear", LEAST_SQUARES, DEFAULT):
        if model not in found:
            continue
        errors, record = found[model]
        published = experiment.published.get(model)
        title = f"{model} (`{record['preset']}`)" if model == DEFAULT else model
        yield [
            experiment.data,
            str(experiment.horizon),
            title,
            str(record["lookback"]),
            f"{record['minutes']:g}",
            f"**{errors}**" if model == DEFAULT else str(errors),
            "–" if published is None else f"{published}" + (" (PatchTST/64)" if model == DEFAULT else ""),
            _verdict(experiment, model, errors),
        ]


def _errors(metrics: dict[str, float]) -> Errors:
    return Errors(metrics["mse"], metrics["mae"])


def _verdict(experiment: Experiment, model: str, errors: Errors) -> str:
    """Whether the default model reaches its bar, and a baseline the published figures."""
    if model == DEFAULT:
        met = all(own <= bar for own, bar in zip(errors, experiment.bar, strict=True))
        return f"≤ {experiment.bar}, {'reached' if met else '**not reached**'}"
    if model not in REPRODUCED:
        return "–"
    apart = max(abs(own - other) for own, other in zip(errors, experiment.published[model], strict=True))
    return f"± {NEAR}, {'reached' if apart <= NEAR else f'**{apart:.3f} away**'}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be given again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="instead of the usual ones; the result is not saved")
    parser.add_argument("--keep", type=Path, help="keep the runs here (default: they are deleted)")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "forecasting", table())
        return
    if options.data is None:
        parser.error("give the folder of the data, or --table")
    for name, model in chosen(options.only):
        experiment = EXPERIMENTS[name]
        usual = experiment.minutes if model == DEFAULT else LINEAR_MINUTES
        minutes = usual if options.minutes is None else options.minutes
        with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
            out = Path(folder, f"{name}-{model}-{options.seed}")
            found = run(experiment, model, options.data, out, seed=options.seed, minutes=minutes)
        record = {"name": name, "model": model, **found}
        print(json.dumps(record, ensure_ascii=False), flush=True)
        if options.minutes is None:
            RESULTS.parent.mkdir(exist_ok=True)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

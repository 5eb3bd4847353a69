"""Forecasting: no leak from the future, baselines, intervals, long horizons, files, and comparisons."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from forecasts import configured, fitted, waves

import seqwright
from seqwright import cli
from seqwright.config import parse
from seqwright.data.corpus import Corpus
from seqwright.data.series.calendar import Frequency
from seqwright.data.series.histories import history_of
from seqwright.data.series.results import Trajectory
from seqwright.data.series.scaling import deviation, filled, scales_of
from seqwright.data.series.windows import Window
from seqwright.data.survey import survey
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.forecast_baselines import RIDGE, linear_maps
from seqwright.evaluation.metrics import METRICS
from seqwright.lens.series.attention import patch_attention
from seqwright.models.building import build_model
from seqwright.nn.positions import Position
from seqwright.prediction.bulk.job import InputWarnings
from seqwright.prediction.predictor import Predictor
from seqwright.runs.report.wording import score
from seqwright.tasks.forecasting import Forecasting
from seqwright.training.preparation import prepare
from seqwright.training.validation import Validator

FAST = ["--quiet", "threads=1", "training.validations=2", "model.size=16", "horizon=12", "lookback=48"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("forecasting")
    path = waves(folder / "waves.csv")
    assert cli.main(["train", path, "--out", str(folder / "run"), "--steps=40", *FAST]) == 0
    return folder


# Leaks ---------------------------------------------------------------------------------------------------


def test_the_future_changes_nothing_that_is_fitted_or_trained_on(tmp_path):
    """Other values after the training part: the same task, the same store, the same batches."""
    found = []
    for name, future in (("a", 0.0), ("b", 1000.0)):
        (tmp_path / name).mkdir()
        path = waves(tmp_path / name / "x.csv", future=future, rows=400)
        found.append(prepare(configured(path, calendar=True), tmp_path / name))
    one, other = found
    assert one.task.fingerprint == other.task.fingerprint
    for column in ("values", "key", "known"):
        assert np.array_equal(one.train.column(column).flat, other.train.column(column).flat)
    numbers = np.arange(len(one.train))
    batches = [each.task.batch(each.train, numbers, seed=1, epoch=2) for each in found]
    assert torch.equal(batches[0].source.values, batches[1].source.values)
    assert torch.equal(batches[0].expected, batches[1].expected)
    assert float(batches[0].source.values.abs().max()) < 10


def test_the_future_of_a_covariate_reaches_only_the_windows_that_cover_it(tmp_path):
    """A covariate of training steps is known; one of later steps changes neither its scale nor a batch."""
    found = []
    for name, jump in (("a", 0.0), ("b", 1e6)):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "x.csv"
        draw, first = np.random.default_rng(0), np.datetime64("2024-01-01")
        prices = draw.standard_normal(600) + jump * (np.arange(600) >= 400)
        lines = (f"a,{first + day},{day % 7},{price:.5f}" for day, price in enumerate(prices.tolist()))
        path.write_text("unique_id,ds,y,price\n" + "\n".join(lines) + "\n")
        found.append(prepare(configured(str(path), known=["price"]), tmp_path / name))
    one, other = found
    assert one.task.fingerprint == other.task.fingerprint
    np.testing.assert_array_equal(one.task.covariates, other.task.covariates)
    numbers = np.arange(len(one.train))
    features = [each.task.batch(each.train, numbers, seed=1, epoch=0).source.features for each in found]
    assert torch.equal(*features)
    assert float(features[0].abs().max()) < 10
    later = other.task.batch(other.valid, np.arange(20, 40), seed=1, epoch=0).source.features
    assert float(later.max()) > 1e5  # the jump is there, and no batch of training sees it


def test_a_window_that_reaches_into_the_next_part_has_no_truth_there(tmp_path):
    task, corpus = fitted(waves(tmp_path / "x.csv"))
    last = list(corpus.examples("train"))[-1]
    assert np.isnan(task.truth(last).values[1:]).all()
    assert not np.isnan(task.truth(last).values[0]).any()
    tested = list(task.labelled(corpus.examples("test")))
    assert len(tested) == 100 - 12 + 1
    assert tested[0].at == 500  # its history reaches back into the validation part


def test_a_forecast_depends_on_the_past_alone(tmp_path):
    task, corpus = fitted(waves(tmp_path / "x.csv"), calendar=True)
    model = build_model("tiny-forecaster", **task.facts()).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    window = list(corpus.examples("test"))[20]
    values = window.series.values.copy()
    values[window.at :] = 1e6
    changed = window._replace(series=replace(window.series, values=values))
    one, other = (Predictor(model, task).predict([each])[0] for each in (window, changed))
    assert np.array_equal(one.mean, other.mean)
    values[window.at - 1] += 1
    assert not np.array_equal(Predictor(model, task).predict([changed])[0].mean, one.mean)


# Baselines and models ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nlinear", "dlinear"])
def test_the_linear_baselines_are_the_least_squares_solutions(tmp_path, monkeypatch, name):
    """That of DLinear is found with its own parts: the moving average of 25 steps, and the rest."""
    monkeypatch.setattr("seqwright.evaluation.forecast_baselines.RIDGE", 1e-9)
    task, corpus = fitted(waves(tmp_path / "x.csv"), lookback=24)
    series = next(corpus.examples("train")).series
    scaled = (series.values[:400] - task.scales[0, 0]) / task.scales[1, 0]
    windows = np.concatenate([np.lib.stride_tricks.sliding_window_view(c, 36) for c in scaled.T])
    past = windows[:, :24] - (windows[:, 23:24] if name == "nlinear" else 0)
    future = windows[:, 24:] - (windows[:, 23:24] if name == "nlinear" else 0)
    parts = past
    if name == "dlinear":
        padded = np.pad(past, ((0, 0), (12, 12)), mode="edge")
        trend = np.lib.stride_tricks.sliding_window_view(padded, 25, axis=1).mean(-1)
        parts = np.concatenate([trend, past - trend], axis=1)
    best, *_ = np.linalg.lstsq(parts, future, rcond=None)
    np.testing.assert_allclose(past @ task.maps[name], parts @ best, atol=1e-5)


def test_short_series_share_the_blocks_of_a_long_one():
    """The linear maps do not depend on how the windows are cut into blocks."""
    draw = np.random.default_rng(0)
    columns = [draw.standard_normal(length) for length in (5000, 100, 20, 700, 90)]
    found = linear_maps(columns, 30, 10)
    for name, weights in found.items():
        square, product = np.zeros((30, 30)), np.zeros((30, 10))
        for column in columns:
            for first in range(len(column) - 39):
                window = column[first : first + 40] - (column[first + 29] if name == "nlinear" else 0)
                square += np.outer(window[:30], window[:30])
                product += np.outer(window[:30], window[30:])
        wanted = np.linalg.solve(square + RIDGE * np.trace(square) / 30 * np.eye(30), product)
        np.testing.assert_allclose(weights, wanted, atol=1e-10)


def test_missing_values_are_filled_from_before_then_from_after():
    values = np.array([[np.nan, 1, np.nan, 3, np.nan], [np.nan] * 5, [1, 2, 3, 4, 5]])
    assert filled(values[:, :, None])[:, :, 0].tolist() == [[1, 1, 1, 3, 3], [0] * 5, [1, 2, 3, 4, 5]]


@pytest.mark.parametrize("value", [0.1, 1e6 / 3, 0.0, -7.7])
def test_a_constant_column_has_the_scale_one(value):
    values = np.stack([np.full(1000, value), np.arange(1000) * 1e-3], axis=1)
    assert scales_of(values, 24)[1, 0] == 1
    assert scales_of(values, 24)[1, 1] == pytest.approx(values[:, 1].std())
    values[:3, 0] = np.nan
    assert deviation(values)[0] == 1


def test_a_validation_builds_the_examples_that_it_shows(tmp_path, monkeypatch):
    prepared, built = prepare(configured(waves(tmp_path / "x.csv")), tmp_path), []
    stored = Forecasting.stored
    monkeypatch.setattr(Forecasting, "stored", lambda *given: built.append(given[2]) or stored(*given))
    validator = Validator(prepared.valid, prepared.task, "loss", tokens=1000, decode=5)
    assert built == [0, 24, 49, 74, 99]
    assert [window.at for window, _ in validator.items] == [48 + place for place in built]


@pytest.mark.parametrize("preset", ["repeat_last", "seasonal_naive"])
def test_models_that_repeat_are_the_baselines_of_that_name(tmp_path, preset):
    task, corpus = fitted(waves(tmp_path / "x.csv"))
    windows = list(task.labelled(corpus.examples("test")))[:5]
    predicted = Predictor(build_model(preset, **task.facts()), task).predict(windows)
    wanted = task.baselines(windows)[preset]
    for one, other in zip(predicted, wanted, strict=True):
        np.testing.assert_allclose(one.mean, other.values, rtol=1e-5, atol=1e-5)


def test_the_default_model_begins_as_the_linear_baseline(tmp_path):
    task, corpus = fitted(waves(tmp_path / "x.csv"))
    windows = list(task.labelled(corpus.examples("test")))[:5]
    predicted = Predictor(build_model("tiny-forecaster", **task.facts()), task).predict(windows)
    for one, other in zip(predicted, task.baselines(windows)["nlinear"], strict=True):
        np.testing.assert_allclose(one.mean, other.values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preset", ["nie2023", "dlinear", "nlinear", "lstm", "transformer-series"])
@pytest.mark.parametrize("calendar", [False, True])
def test_every_preset_trains(tmp_path, preset, calendar):
    config = configured(waves(tmp_path / "x.csv"), calendar=calendar)
    prepared = prepare(config, tmp_path)
    torch.manual_seed(0)
    model = build_model(preset, **prepared.task.facts())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batch = prepared.task.batch(prepared.train, np.arange(100, 164), seed=1, epoch=0)
    losses = []
    for _ in range(8):
        loss = model.loss(batch)
        losses.append(float(loss.total.detach()) / loss.count)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    assert losses[-1] < losses[0]


def test_metrics_against_their_formulas():
    draw = np.random.default_rng(0)
    truth, output = draw.standard_normal((2, 5, 3)), draw.standard_normal((2, 5, 3))
    scale, naive = np.array([1.0, 2.0, 4.0]), np.array([0.5, 1.0, 1.5])
    outputs = [Trajectory(each, scale, naive, each - 1, each + 1) for each in output]
    references = [[Trajectory(each, scale, naive)] for each in truth]
    error = np.abs(output - truth)
    wanted = {
        "mse": ((error / scale) ** 2).mean(),
        "mae": (error / scale).mean(),
        "mase": (error / naive).mean(),
        "smape": (200 * error / (np.abs(output) + np.abs(truth))).mean(),
        "coverage_80": 100 * (error <= 1).mean(),
        "interval_width": (2 / scale).mean(),
    }
    for name, value in wanted.items():
        assert METRICS.build(name).score(outputs, references).value == pytest.approx(value)
        assert METRICS.build(name).name == name
    truth[0, 0, 0] = np.nan  # an unknown outcome does not count
    assert METRICS.build("mae").score(outputs, references).value == pytest.approx(
        np.nanmean(np.abs(output - truth) / scale)
    )
    assert METRICS.build("coverage_80").direction() == "80 is right"
    assert [METRICS.build(name).arrow for name in ("mse", "coverage_80")] == ["↓", "→ 80"]


def test_small_errors_are_shown_with_two_digits():
    shown = [score("mse", value) for value in (0.0, 0.00041, 0.0123, 0.412, 1.5)]
    assert shown == ["0.000", "0.00041", "0.012", "0.412", "1.500"]


# The commands --------------------------------------------------------------------------------------------


def test_predict_writes_times_and_intervals(trained, capsys):
    assert cli.main(["predict", str(trained / "run")]) == 0
    out = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out.out)))
    assert len(rows) == 12 * 2
    assert (rows[0]["ds"], rows[-1]["ds"]) == ("2024-01-26 00:00:00", "2024-01-26 11:00:00")
    assert all(float(row["low_80"]) <= float(row["mean"]) <= float(row["high_80"]) for row in rows)
    assert 30 < float(rows[1]["mean"]) < 70
    assert rows[1]["column"] == "large"
    assert "│" in out.err


def test_histories_as_json_and_on_standard_input_give_the_table_of_a_file(
    trained, tmp_path, capsys, monkeypatch
):
    run, rows = str(trained / "run"), list(csv.DictReader((trained / "waves.csv").open()))[-60:]
    head, *lines = (trained / "waves.csv").read_text().splitlines()
    table, history = tmp_path / "history.csv", tmp_path / "history.jsonl"
    table.write_text("\n".join([head, *lines[-60:]]) + "\n")
    target = {name: [float(row[name]) for row in rows] for name in ("small", "large")}
    history.write_text(json.dumps({"start": rows[0]["date"], "target": target}) + "\n")

    def predict(*given, piped=None):
        if piped is not None:
            monkeypatch.setattr("sys.stdin", piped.open())
        code = cli.main(["predict", run, *map(str, given)])
        return code, *capsys.readouterr()

    code, wanted, drawn = predict(table)
    assert code == 0
    assert wanted.startswith("ds,column,mean,low_80,high_80\n2024-01-26 00:00:00,small,")
    for found in (predict(history), predict("-", piped=table), predict("-", piped=history)):
        assert found == (0, wanted, drawn)
    assert json.loads(predict("-", "--json", piped=table)[1])["times"][0] == "2024-01-26 00:00:00"
    assert json.loads(predict("-", "--json", piped=history)[1])["times"][0] == "2024-01-26 00:00:00"
    assert predict(history, "--output", tmp_path / "o.csv")[:2] == (0, "")
    assert (tmp_path / "o.csv").read_text() == wanted
    table.write_text("\n".join([head, *lines[-60:-1], "2024-01-25 23:00:00,?,broken"]) + "\n")
    code, _, error = predict("-", piped=table)
    assert code == 2
    assert error.startswith("seqwright: standard input:61: “broken” in the column large is not a number")
    table.write_text("\n".join([head, *lines[-60:-1], lines[-1].rpartition(",")[0] + ","]) + "\n")
    assert "standard input:61" in predict("-", piped=table)[2]
    history.write_text('{"target": [[1, 2]]}\n{"target": []}\n')
    assert "standard input:2: the target of a history is empty" in predict("-", piped=history)[2]
    assert "--shard divides JSON lines" in predict(table, "--shard", "1/2")[2]


def test_a_longer_horizon_is_recursive_and_says_so(trained, capsys):
    run = str(trained / "run")
    assert cli.main(["predict", run, "--horizon", "30", "--json"]) == 0
    out = capsys.readouterr()
    longer = json.loads(out.out)
    assert len(longer["times"]) == len(longer["output"]["small"]) == 30
    assert longer["recursive"] == 18
    assert "the last 18 are recursive" in out.err
    (short,) = seqwright.load(run).predict(json.dumps({"target": [[0.1, 50.0]] * 50}), horizon=5)
    assert short.mean.shape == (5, 2)
    width = np.array(longer["high_80"]["small"]) - np.array(longer["low_80"]["small"])
    assert width[12:24].mean() > width[:12].mean()


def test_a_history_of_another_frequency_or_without_a_column_is_refused(trained, tmp_path, capsys):
    days = tmp_path / "days.csv"
    days.write_text("date,small,large\n" + "".join(f"2024-01-{d:02d},1,2\n" for d in range(1, 29)))
    assert cli.main(["predict", str(trained / "run"), str(days)]) == 2
    assert "a step is one day, but one hour in the training data; resample" in capsys.readouterr().err
    other = tmp_path / "other.csv"
    other.write_text(Path(waves(other)).read_text().replace("large", "huge"))
    assert cli.main(["predict", str(trained / "run"), str(other)]) == 2
    assert "has no column 'large', only date, small, huge" in capsys.readouterr().err
    assert cli.main(["predict", str(trained / "run"), "--horizon", "0"]) == 2
    assert "--horizon is 0" in capsys.readouterr().err


@pytest.mark.parametrize("numbered", [False, True])
def test_a_history_has_the_same_forecast_wherever_its_file_begins(tmp_path, numbered):
    """The calendar is read, too: ticks of another file are those of the training data."""
    head, *lines = Path(waves(tmp_path / "x.csv", steps=800)).read_text().splitlines()
    if numbered:
        head = head.replace("date", "time")
        lines = [f"{number},{line.partition(',')[2]}" for number, line in enumerate(lines, 1000)]
    files = {"train": lines[:600], "whole": lines, "tail": lines[700:]}
    paths = {name: tmp_path / f"{name}.csv" for name in files}
    for name, path in paths.items():
        path.write_text("\n".join([head, *files[name]]) + "\n")
    task, corpus = fitted(str(paths["train"]), calendar=True)
    torch.manual_seed(0)
    model = build_model("nie2023", **task.facts()).eval()
    windows = [
        window
        for name in ("whole", "tail")
        for window in task.whole_inputs(task.own_reader((str(paths[name]),), corpus.data))
    ]
    windows.append(task.from_line(task.to_line(windows[0])))
    one, *others = Predictor(model, task).predict(windows)
    assert one.times[0] == ("1800" if numbered else "2024-02-03 08:00:00")
    for other in others:
        assert other.times == one.times
        np.testing.assert_allclose(other.mean, one.mean, rtol=1e-5)


def test_files_of_other_parts_have_the_times_of_the_training_files(tmp_path):
    head, *lines = Path(waves(tmp_path / "x.csv")).read_text().splitlines()
    parts = {"train": lines[:400], "valid": lines[400:500], "test": lines[500:]}
    for name, rows in parts.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
    paths = {name: [str(tmp_path / f"{name}.csv")] for name in parts}
    _, corpus = fitted(**paths, path=paths["train"][0], rows=None, lookback=24)
    assert next(corpus.examples("valid")).when == "2024-01-17 16:00:00"
    found = survey(parse({"task": "forecasting", "data": paths, "training": {"steps": 1}}))
    assert {part: (leak.held_out, leak.leaked) for part, leak in found.leaks.items()} == {
        "valid": (100, 0), "test": (100, 0),
    }  # fmt: skip
    (tmp_path / "test.csv").write_text("\n".join([head, *lines[300:]]) + "\n")
    found = survey(parse({"task": "forecasting", "data": paths, "training": {"steps": 1}}))
    assert found.leaks["test"].leaked == 100


def test_a_history_may_be_too_short_to_show_its_frequency(tmp_path):
    """Business days of one week look like days, and one row has no frequency."""
    days = np.busday_offset("2024-01-01", np.arange(300))
    lines = [f"{day},{number % 5}" for number, day in enumerate(days)]
    for name, rows in (("train", lines[:290]), ("week", lines[290:295]), ("day", lines[290:291])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["ds,y", *rows]) + "\n")
    task, corpus = fitted(str(tmp_path / "train.csv"), rows=(200, 50, 40))
    for name, following in (("week", str(days[295])), ("day", str(days[291]))):
        (window,) = task.whole_inputs(task.own_reader((str(tmp_path / f"{name}.csv"),), corpus.data))
        assert window.when == following


HOURLY = [str(np.datetime64("2024-01-01T00", "m") + np.timedelta64(hour, "h")) for hour in range(600)]
DAILY = [str(np.datetime64("2024-01-01") + day) for day in range(600)]


def timed(path: Path, times: list[str]) -> str:
    path.write_text("ds,y\n" + "".join(f"{time},{n % 24}\n" for n, time in enumerate(times)))
    return str(path)


def zoned(offset: str, times: list[str] = HOURLY) -> list[str]:
    return [f"{time}{offset}" for time in times]


def since_1970(times: list[str]) -> list[str]:
    return [str(np.datetime64(time, "s").astype(int)) for time in times]


def with_day_first(times: list[str]) -> list[str]:
    return ["/".join(reversed(time.split("-"))) for time in times]


@pytest.mark.parametrize(
    ("trained_on", "history", "words"),
    [
        (zoned("+01:00"), HOURLY, "no time zone, but those of the training data have one; add it"),
        (HOURLY, zoned("+01:00"), "have a time zone, but those of the training data have no"),
        (HOURLY, zoned("+05:30"), "have a time zone, but those of the training data have no"),
        (HOURLY, since_1970(HOURLY), "counted from 1970, in UTC, but those of the training data have no"),
        (with_day_first(DAILY), ["02/13/2024", "02/14/2024"], "“02/13/2024” has the month first, but the"),
        (DAILY, with_day_first(DAILY[31:41]), "“01/02/2024” may have the day or the month first; write 2024"),
    ],
)
def test_times_that_are_written_otherwise_than_those_of_the_training_data(
    tmp_path, trained_on, history, words
):
    task, corpus = fitted(timed(tmp_path / "x.csv", trained_on))
    reader = task.own_reader((timed(tmp_path / "y.csv", history),), corpus.data)
    for read in (
        lambda: task.whole_inputs(reader),
        lambda: task.from_line(json.dumps({"start": history[0], "target": [1]})),
    ):
        with pytest.raises(InputError, match=words):
            read()


@pytest.mark.parametrize(
    ("trained_on", "history", "following"),
    [
        (zoned("+01:00"), zoned("+02:00")[:24], "2024-01-01 22:00:00+00:00"),
        (zoned("+01:00"), zoned("+02:00")[:1], "2023-12-31 23:00:00+00:00"),
        (zoned("+01:00"), since_1970(HOURLY)[:24], "2024-01-02 00:00:00+00:00"),
        (since_1970(HOURLY), HOURLY[:24], "2024-01-02 00:00:00"),
        (since_1970(HOURLY), zoned("+01:00")[:24], "2024-01-01 23:00:00"),
        (zoned("T00:00+01:00", DAILY), zoned("T00:00+02:00", DAILY[100:110]), "2024-04-20"),
        (zoned("T00:00+01:00", DAILY), DAILY[100:110], "2024-04-20"),
        (DAILY, zoned("T00:00+02:00", DAILY[100:101]), "2024-04-11"),
        (with_day_first(DAILY), with_day_first(DAILY[31:41]), "2024-02-11"),
        (with_day_first(DAILY), DAILY[31:41], "2024-02-11"),
    ],
)
def test_histories_are_read_with_the_zone_and_the_format_of_the_training_data(
    tmp_path, trained_on, history, following
):
    fresh, corpus = fitted(timed(tmp_path / "x.csv", trained_on))
    fresh.save(tmp_path)
    task = Forecasting.load(tmp_path, configured(str(tmp_path / "x.csv")))
    assert task.fingerprint == fresh.fingerprint
    reader = task.own_reader((timed(tmp_path / "y.csv", history),), corpus.data)
    (window,) = task.whole_inputs(reader)
    assert window.when == following
    line = {"start": history[0], "target": [1] * len(window.series)}
    assert task.from_line(json.dumps(line)).when == window.when


def test_a_run_without_the_format_of_its_times_reads_histories_as_before(tmp_path):
    task, _ = fitted(timed(tmp_path / "x.csv", with_day_first(DAILY)))
    task.save(tmp_path)
    facts = json.loads((tmp_path / "series.json").read_text())
    assert facts.pop("times") == "%d/%m/%Y"
    (tmp_path / "series.json").write_text(json.dumps(facts))
    old = Forecasting.load(tmp_path, configured(str(tmp_path / "x.csv")))
    assert old.fingerprint == task.fingerprint
    given = json.dumps({"start": "05/02/2024", "target": [1]})
    assert [
        each.from_line(given).series.frequency.label(each.from_line(given).series.start)
        for each in (task, old)
    ] == ["2024-02-05", "2024-05-02"]


def test_files_with_and_without_a_zone_are_not_one_training(tmp_path):
    paths = [timed(tmp_path / "x.csv", zoned("Z")), timed(tmp_path / "y.csv", HOURLY)]
    with pytest.raises(InputError, match="the times have no time zone, but those of the training data have"):
        fitted(paths[0], train=paths)
    with pytest.raises(InputError, match="the times have no time zone, but those of the training data have"):
        list(fitted(paths[0], test=[paths[1]])[1].examples("test"))


def test_a_history_between_the_steps_is_refused(tmp_path):
    task, corpus = fitted(waves(tmp_path / "x.csv"))
    path = tmp_path / "late.csv"
    path.write_text(Path(waves(path)).read_text().replace(":00,", ":30,"))
    with pytest.raises(InputError, match="01 00:30:00 is not a step of the training data"):
        task.whole_inputs(task.own_reader((str(path),), corpus.data))
    with pytest.raises(InputError, match="start: 2024-05-01 00:30:00 is not a step"):
        task.from_line('{"start": "2024-05-01 00:30", "target": [[1, 2]]}')


def test_columns_in_another_order_and_more_of_them_change_nothing(trained, tmp_path):
    rows = list(csv.DictReader((trained / "waves.csv").open()))
    path = tmp_path / "other.csv"
    path.write_text(
        "extra,large,date,small\n" + "".join(f"7,{r['large']},{r['date']},{r['small']}\n" for r in rows)
    )
    outputs = []
    for file in (trained / "waves.csv", path):
        assert (
            cli.main(["predict", str(trained / "run"), str(file), "--output", str(tmp_path / "o.csv")]) == 0
        )
        outputs.append((tmp_path / "o.csv").read_text())
    assert outputs[0] == outputs[1]


def test_evaluate_reports_the_baselines_with_the_same_keys(trained, capsys):
    assert cli.main(["evaluate", str(trained / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["metrics"]) == {"mse", "mae", "mase", "smape", "coverage_80", "interval_width"}
    assert found["baselines"].keys() == {"repeat_last", "seasonal_naive", "nlinear", "dlinear"}
    assert all(scores.keys() == found["metrics"].keys() for scores in found["baselines"].values())
    assert found["metrics"]["mse"] < 0.5 * found["baselines"]["repeat_last"]["mse"]
    assert 60 < found["metrics"]["coverage_80"] < 95


def test_a_better_baseline_is_named(trained, capsys):
    path = str(trained / "waves.csv")
    options = ["--out", str(trained / "naive"), "--steps=1", *FAST[:3], *FAST[4:], "model=repeat_last"]
    assert cli.main(["train", path, *options]) == 0
    assert cli.main(["evaluate", str(trained / "naive")]) == 0
    assert "! the baseline nlinear is better: MSE" in (out := capsys.readouterr().out)
    assert "! the baseline seasonal naive is better: MSE" in out
    assert "coverage → 80" in out
    assert cli.main(["compare", str(trained / "naive"), str(trained / "run"), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["metrics"]["mse"]["difference"] < 0
    assert compared["wins"] > compared["losses"]


def test_models_with_other_lookbacks_are_compared_on_the_windows_of_both(trained, capsys):
    """The history of a file begins with it: the longer lookback decides."""
    data = [waves(trained / "other.csv", steps=100, seed=2)]
    for name, options in (("short", ["lookback=24"]), ("far", ["horizon=6"])):
        run = ["--out", str(trained / name), "--steps=1", *FAST[:3], "model=repeat_last"]
        sizes = {"horizon": "horizon=12", "lookback": "lookback=48"}
        sizes |= {each.partition("=")[0]: each for each in options}
        assert cli.main(["train", str(trained / "waves.csv"), *run, *sizes.values()]) == 0
    capsys.readouterr()
    assert cli.main(["compare", str(trained / "short"), str(trained / "run"), *data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 100 - 48 - 12 + 1
    assert cli.main(["compare", str(trained / "far"), str(trained / "run"), *data]) == 2
    assert "one model predicts 6 steps and the other 12" in capsys.readouterr().err


def test_long_format_with_covariates_known_in_advance(tmp_path, capsys):
    """y follows a random price of the same hour: only a model that reads it can know."""
    draw, lines = np.random.default_rng(0), ["unique_id,ds,y,price"]
    for name in ("a", "b"):
        for hour in range(400):
            price = draw.integers(0, 2)
            y = "" if hour >= 388 else 5 * price + 0.1 * draw.standard_normal()
            lines.append(f"{name},{np.datetime64('2024-01-01T00', 'h') + hour}:00,{y},{price}")
    path = tmp_path / "long.csv"
    path.write_text("\n".join(lines) + "\n")
    run = str(tmp_path / "run")
    options = [
        "data.known=['price']",
        "--steps=150",
        "model.base=none",
        *FAST,
        "training.optimizer.rate=0.01",
    ]
    assert cli.main(["train", str(path), "--out", run, *options]) == 0
    assert cli.main(["predict", run, str(path)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["unique_id"] for row in rows] == ["a"] * 12 + ["b"] * 12
    table = list(csv.DictReader(path.open()))
    prices = [float(row["price"]) for row in table[388:400] + table[788:800]]
    means = np.array([float(row["mean"]) for row in rows])
    assert np.corrcoef(prices, means)[0, 1] > 0.8
    assert cli.main(["predict", run, str(path), "--horizon", "30"]) == 0
    remark = "2 of 2 forecasts: not known in advance: price for 18 of 30 steps; the model reads the mean"
    assert remark in capsys.readouterr().err


def test_steps_without_what_should_be_known_in_advance_are_remarked(tmp_path):
    path = tmp_path / "x.csv"
    hours = np.datetime64("2024-01-01T00", "h") + np.arange(600)
    path.write_text("ds,y,price,tax\n" + "".join(f"{h}:00,{i % 24},{i % 5},1\n" for i, h in enumerate(hours)))
    task, corpus = fitted(str(path), known=["price", "tax"], target=["y"])
    predictor = Predictor(build_model("tiny-forecaster", **task.facts()).eval(), task)
    history = {"target": [1] * 50, "known": {"price": [1] * 57, "tax": [1] * 49 + [None] + [1] * 7}}
    some, none, every = predictor.predict(
        [history, {"target": [1] * 50}, {"target": [1] * 50, "known": [[1, 1]] * 62}]
    )
    assert (some.unknown, none.unknown, every.unknown) == (
        {"price": 5, "tax": 5},
        {"price": 12, "tax": 12},
        {},
    )
    assert some.remark.startswith("not known in advance: price for 5 of 12 steps, tax for 5 of 12 steps; the")
    found = some.to_json()
    assert (found["unknown"], found["remark"]) == ({"price": 5, "tax": 5}, some.remark)
    assert not {"unknown", "remark"} & every.to_json().keys()
    assert predictor.predict([history], horizon=30)[0].unknown == {"price": 23, "tax": 23}
    inputs = list(task.inputs([history]))
    assert some.remark in task.remarks(inputs, [some])
    assert f"1 of 2 forecasts: {some.remark}" in task.remarks(inputs * 2, [every, some])
    tested = next(iter(task.labelled(corpus.examples("test"))))
    assert predictor.predict([tested])[0].unknown == {}
    warnings = InputWarnings(predictor, "x.jsonl")
    for row, each in enumerate((every, some, none)):
        warnings.add(row, each)
    assert warnings.summary() == [f"2 lines with a remark: {some.remark} (x.jsonl:2, x.jsonl:3)"]


@pytest.mark.parametrize("preset", ["nlinear", "dlinear", "repeat_last", "seasonal_naive"])
def test_a_model_that_reads_past_values_alone_takes_no_covariates(preset):
    config = configured("x.csv", known=["price"], calendar=True)
    Forecasting.check(config)
    words = (
        r"known is \['price'\] and data.calendar is True, but the network (linear|repeat) reads past values"
    )
    with pytest.raises(ConfigError, match=words) as error:
        Forecasting.check(replace(config, model=preset))
    assert "use model=nie2023, tiny-forecaster, lstm or transformer-series, or leave" in str(error.value)
    Forecasting.check(replace(configured("x.csv"), model=preset))


def test_a_plan_refuses_what_the_model_cannot_read(tmp_path, capsys):
    path, out = waves(tmp_path / "x.csv"), str(tmp_path / "run")
    options = ["--plan", "--out", out, "model=nlinear", "data.calendar=true", *FAST[:3], *FAST[4:]]
    assert cli.main(["train", path, *options]) == 2
    assert "data.calendar is True, but the network linear reads past values alone" in capsys.readouterr().err
    assert not Path(out).exists()


def test_horizon_and_lookback_are_short_for_keys_of_data(tmp_path, capsys):
    path = waves(tmp_path / "x.csv")
    assert cli.main(["train", path, "horizon=6", "lookback=30", "--print-config", "--steps=1"]) == 0
    assert "horizon = 6\nlookback = 30" in capsys.readouterr().out
    assert cli.main(["train", path, "horizon=6", "data.horizon=7", "--print-config"]) == 2
    assert "horizon and data.horizon set the same option" in capsys.readouterr().err
    assert cli.main(["train", path, "horizon=0", "--print-config"]) == 2
    assert cli.main(["train", path, "--print-config", "--steps=1"]) == 0
    assert "horizon = 24\nlookback = 192" in (out := capsys.readouterr()).out, out.out


def test_what_cannot_be_forecast_is_refused_in_one_line(tmp_path):
    task, corpus = fitted(waves(tmp_path / "x.csv"))
    with pytest.raises(InputError, match="horizon of 500 needs at least 502: lower horizon, or add data"):
        fitted(str(tmp_path / "x.csv"), horizon=500, lookback=10)
    for line, words in (
        ("[1, 2", "is not JSON"),
        ('{"target": ["a"]}', "needs a target of numbers, 2 for each step"),
        ('{"target": {"small": [1]}}', "the history has no 'large'"),
        ('{"start": "soon", "target": [[1, 2]]}', "start: “soon” is not a time"),
        ('{"start": 7, "target": [[1, 2]]}', "start: “7” is a number, not a time"),
    ):
        with pytest.raises(InputError, match=words):
            task.from_line(line)
    with pytest.raises(ConfigError, match="beam: a forecast has no such option"):
        task.request(parse({"training": {"steps": 1}}).search, beam=3)
    assert isinstance(next(corpus.examples("train")), Window)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ({"target": []}, "target of a history is empty; give at least one step"),
        ({"target": {"a": [], "b": []}}, "target of a history is empty"),
        ({"target": {"a": [1, "x"], "b": [1, 2]}}, "needs a target of numbers, 2 for each step"),
        ({"target": {"a": {"c": 1}, "b": {"c": 1}}}, "needs a target of numbers, 2 for each step"),
        ({"target": {"a": [1], "b": [1, 2]}}, "needs a target of numbers, 2 for each step"),
        ({"target": [10**400, 2]}, "needs a target of numbers, 2 for each step"),
        ({"target": {"a": [10**400], "b": [2]}}, "needs a target of numbers, 2 for each step"),
        ({"target": None}, "needs a target of numbers"),
        ({"start": 1}, "needs a target of numbers"),
        ({"target": [[1, 2]], "known": [1, 2]}, r"needs a known of numbers, 3 for each step \(x, y, z\)"),
        ({"target": [[1, 2]], "known": {"x": [1]}}, "the history has no 'y'"),
        ({"target": [[1, 2]], "start": 10**400}, "is not the number of a step"),
    ],
)  # fmt: skip
def test_a_history_without_numbers_is_refused_in_one_line(history, words):
    with pytest.raises(InputError, match=words) as error:
        history_of(history, Frequency("number", 1), ("a", "b"), ("x", "y", "z"))
    assert "\n" not in str(error.value)


def test_a_series_without_a_past_has_a_line(tmp_path):
    """The first step of a series is forecast from nothing, also from its line."""
    task, corpus = fitted(waves(tmp_path / "x.csv"), known=["large"], target=["small"])
    first = next(iter(corpus.examples("train")))
    given = task.from_line(task.to_line(first))
    assert (first.at, given.at, given.when) == (0, 1, first.when)
    np.testing.assert_array_equal(given.covariates(0, 12), first.covariates(0, 12))
    one, other = Predictor(build_model("nie2023", **task.facts()).eval(), task).predict([first, given])
    np.testing.assert_allclose(one.mean, other.mean)


def test_missing_and_infinite_numbers_of_a_history_are_unknown():
    given = {"target": [[1, None], [float("inf"), 2]], "known": {"x": [1, float("inf"), None]}}
    window = history_of(given, Frequency("number", 1), ("a", "b"), ("x",))
    np.testing.assert_array_equal(window.series.values, [[1, np.nan], [np.nan, 2], [np.nan] * 2])
    np.testing.assert_array_equal(window.series.known, [[1], [np.nan], [np.nan]])
    assert window.at == 2


def test_missing_values_are_read_as_the_last_one_and_never_expected(tmp_path):
    path = Path(waves(tmp_path / "x.csv"))
    lines = path.read_text().splitlines()
    lines[100] = lines[100].rsplit(",", 2)[0] + ",,"
    path.write_text("\n".join(lines) + "\n")
    prepared = prepare(configured(str(path)), tmp_path)
    batch = prepared.task.batch(prepared.train, np.array([95, 110]), seed=1, epoch=0)
    assert batch.source.values.isfinite().all()
    past = batch.source.values[2]  # the first column of the window from step 110 on; step 99 is missing
    assert past[48 - 110 + 99] == past[48 - 110 + 98]
    assert int(batch.expected.isnan().sum()) == 2
    assert batch.count == batch.expected.numel() - 2


def test_the_report_draws_forecasts_errors_by_step_and_a_back_test(trained):
    page = (trained / "run" / "report.html").read_text()
    for words in ("Forecasts", ": typical", ": worst", "Error by step ahead", "Back-test of large"):
        assert words in page
    assert page.count('class="band"') == 4  # two typical ones, the worst one, and the back-test
    assert "seqwright look run history.csv -o look.html" in page


def test_in_python(tmp_path):
    path = waves(tmp_path / "x.csv")
    options = {"training": {"validations": 1, "tokens": 512}, "model": {"size": 16}, "threads": 1}
    model = seqwright.train(
        path, out=tmp_path / "run", steps=2, quiet=True, horizon=6, lookback=24, **options
    )
    (forecast,) = model.predict({"start": "2024-02-01 00:00", "target": {"small": [0, 1], "large": [50, 60]}})
    assert (forecast.times[0], forecast.mean.shape) == ("2024-02-01 02:00:00", (6, 2))
    assert (forecast.low <= forecast.mean).all()
    assert (forecast.mean <= forecast.high).all()
    assert "small" in forecast._repr_html_()
    assert "from 2024-01-01" not in repr(forecast)
    arrays = model.predict([np.zeros((30, 2)), np.ones((30, 2))])
    assert [each.mean.shape for each in arrays] == [(6, 2)] * 2
    probes = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any(
        probe["source"].startswith("from 2024-") for each in probes for probe in each.get("probes", [])
    )
    with pytest.raises(ConfigError, match="unknown argument 'horizn'; did you mean 'horizon'"):
        seqwright.train(path, horizn=6)


def test_a_series_that_begins_after_the_training_part_is_scaled_by_its_own_past(tmp_path):
    lines = ["unique_id,ds,y"]
    for name, first, level in (("old", 0, 0.0), ("new", 420, 1e6)):
        draw = np.random.default_rng(first)
        for hour in range(first, 600):
            lines.append(
                f"{name},{np.datetime64('2024-01-01T00', 'h') + hour}:00,{level + draw.standard_normal():.3f}"
            )
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines) + "\n")
    prepared = prepare(configured(str(path)), tmp_path)
    task, corpus = prepared.task, Corpus.of(configured(str(path)))
    assert task.names == ("old",)
    batch = task.batch(prepared.valid, np.arange(len(prepared.valid)))
    assert float(batch.source.values.abs().max()) < 100
    windows = [window for window in corpus.examples("test") if window.series.name == "new"]
    (forecast,) = Predictor(build_model("tiny-forecaster", **task.facts()), task).predict([windows[60]])
    assert abs(forecast.mean - 1e6).max() < 10


def test_a_horizon_that_fits_in_no_part_is_refused_before_the_training(tmp_path, trained, capsys):
    path = waves(tmp_path / "x.csv", steps=60)
    assert cli.main(["train", path, "horizon=24", "--steps=1", "--out", str(tmp_path / "run")]) == 2
    assert (
        "the validation part has 9 steps, fewer than the horizon of 24; lower horizon"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()
    assert cli.main(["evaluate", str(trained / "run"), waves(tmp_path / "short.csv", steps=50)]) == 2
    assert "no step has 48 known steps before it and 12 from it on" in capsys.readouterr().err


def test_a_part_that_is_shorter_than_the_horizon_has_no_truth_behind_its_end(tmp_path):
    prepared = prepare(configured(waves(tmp_path / "x.csv"), rows=[590, 5, 5]), tmp_path)
    batch = prepared.task.batch(prepared.valid, np.arange(5))
    assert int(batch.expected.isnan().sum()) == 5 * 2 * 7
    assert batch.source.values.isfinite().all()


def test_the_attention_of_a_forecast_follows_the_patches_that_it_reads(tmp_path):
    """A model that attends to its first patch alone draws on that patch alone."""
    task, corpus = fitted(waves(tmp_path / "x.csv"))
    windows = list(task.labelled(corpus.examples("test")))[:2]
    model = build_model({"preset": "nie2023", "layers": 1}, **task.facts()).eval()
    found = patch_attention(model, task._given(windows, task._past(windows)))
    assert found.shape == (4, 1, 6)  # two windows of two columns, 12 steps from 48
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)
    model.network.stack.blocks[0].attention.position = Only()
    found = patch_attention(model, task._given(windows, task._past(windows)))
    np.testing.assert_allclose(found[..., 0], 1, atol=1e-5)
    for other in ("nlinear", "tiny-forecaster"):  # no patches, and an output layer of zeros
        assert (
            patch_attention(build_model(other, **task.facts()), task._given(windows, task._past(windows)))
            is None
        )


class Only(Position):
    """Every query attends to the first key."""

    inside = True

    def bias(self, q, context, keys):
        return torch.where(keys.pos == 0, 0.0, -1e4).expand(1, 1, q.shape[2], -1)


def test_a_gaussian_head_has_calibrated_intervals(tmp_path, capsys):
    path, run = waves(tmp_path / "waves.csv"), str(tmp_path / "run")
    options = ["model.preset=nie2023", "model.head=gaussian", "data.rows=400,100,100", "--steps=30", *FAST]
    assert cli.main(["train", path, "--out", run, *options]) == 0
    capsys.readouterr()
    assert cli.main(["evaluate", run, "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert 60 < metrics["coverage_80"] < 97
    assert metrics["interval_width"] > 0

"""Traces of forecasts agree with naive computations and with the models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forecasts import PRESETS, forecaster, wave_reader, waves, window_of

from seqwright import cli
from seqwright.data.read_report import ReadReport
from seqwright.errors import InputError
from seqwright.lens.capture import capture
from seqwright.lens.page import render
from seqwright.lens.series import build
from seqwright.lens.series.document import ForecastTrace
from seqwright.prediction.predictor import Predictor

every_preset = pytest.mark.parametrize("preset", PRESETS)


def captured(subject: Predictor) -> tuple[dict[str, np.ndarray], torch.Tensor]:
    """Every attention of one forecast by name, and the output of the network."""
    task, model, outputs = subject.task, subject.model, []
    window = window_of(task)
    hook = model.network.register_forward_hook(lambda part, given, output: outputs.append(output))
    with torch.inference_mode(), capture(model) as seen:
        model.predictions(task._given([window], task._past([window])))
    hook.remove()
    return {name: weights[0].numpy() for name, weights in seen.items()}, outputs[0]


@every_preset
def test_a_trace_is_complete_and_the_same_every_time(preset, tmp_path):
    subject = forecaster(preset)
    window = window_of(subject.task)
    trace = subject.look(window)
    trace.save(tmp_path / "x.json")
    assert ForecastTrace.load(tmp_path / "x.json").document == trace.document
    assert subject.look(window).to_bytes() == trace.to_bytes()
    (predicted,) = subject.predict([window])
    for number, channel in enumerate(trace.document["channels"]):
        for name in ("mean", "low", "high"):
            np.testing.assert_allclose(channel[name], getattr(predicted, name)[:, number], rtol=1e-6)
        np.testing.assert_allclose(channel["past"], window.past(48)[:, number], rtol=1e-6)
        np.testing.assert_allclose(channel["truth"], window.future(12)[:, number], rtol=1e-6)
    assert trace.document["times"][48] == window.when
    assert str(trace).startswith(trace.text)


@every_preset
def test_rows_of_attention_sum_to_one_over_spans_that_cover_the_past(preset):
    trace = forecaster(preset).look(window_of(forecaster(preset).task))
    for entry in trace.document["weights"]:
        weights = trace.weights(entry["kind"], entry["layer"])
        assert weights.shape == (2, entry["heads"], len(entry["rows"]), len(entry["columns"]))
        covered = {step for start, stop in entry["columns"] for step in range(start, stop)}
        assert covered == set(range(48))
        if trace.document["kinds"][entry["kind"]]["signed"]:
            continue
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)


def test_the_attention_of_steps_and_of_a_recurrent_decoder_is_their_cross_attention():
    for preset, names in (
        ("transformer-series", [f"network.decoder.blocks.{n}.cross" for n in range(2)]),
        ("lstm", ["network.attention"]),
    ):
        subject = forecaster(preset)
        trace, (seen, _) = subject.look(window_of(subject.task)), captured(subject)
        assert trace.layers("forecast") == len(names)
        for layer, name in enumerate(names):
            np.testing.assert_allclose(trace.weights("forecast", layer), seen[name], atol=1e-4)
    assert trace.entry("forecast")["columns"] == [[0, 24], [24, 48]]
    assert trace.entry("forecast")["rows"] == [[0, 12]]


def test_a_part_of_a_forecast_takes_the_weights_of_the_patches_that_it_is_made_of():
    """A naive loop: every step of the forecast is a sum over patches, each of which attends to others."""
    subject = forecaster("nie2023")
    trace, (seen, vectors) = subject.look(window_of(subject.task)), captured(subject)
    output = subject.model.head.linear.weight.detach()  # (12, 6 · 16)
    for channel in range(2):
        shares = np.zeros(6)
        for step in range(12):
            for patch in range(6):
                part = slice(16 * patch, 16 * patch + 16)
                shares[patch] += abs(float(output[step, part] @ vectors[channel, 0, part]))
        shares /= shares.sum()
        np.testing.assert_allclose(trace.weights("output")[channel, 0, 0], shares, atol=1e-4)
        for layer in range(3):
            attended = seen[f"network.stack.blocks.{layer}.attention"][channel]
            np.testing.assert_allclose(trace.weights("past", layer)[channel], attended, atol=1e-4)
            for head in range(4):
                wanted = sum(shares[patch] * attended[head, patch] for patch in range(6))
                found = trace.weights("forecast", layer)[channel, head, 0]
                np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert trace.entry("past")["columns"][-2:] == [[32, 48], [40, 48]]  # the last one repeats the last value


@pytest.mark.parametrize("preset", ["nlinear", "dlinear", "repeat_last", "seasonal_naive"])
def test_the_map_of_a_linear_model_gives_its_forecast(preset):
    """The change of the forecast after any change of the past is the map times that change."""
    subject = forecaster(preset)
    task, model, window = subject.task, subject.model, window_of(subject.task)
    trace = subject.look(window)
    source = task._given([window], task._past([window]))
    change = torch.randn(source.values.shape, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        before, after = (
            model.predictions(each)[..., 0]
            for each in (source, replace(source, values=source.values + change))
        )
    moved = np.einsum("chl,cl->ch", trace.weights("map")[:, 0], change.numpy())
    np.testing.assert_allclose(moved, (after - before).numpy(), atol=5e-3)
    assert trace.document["kinds"] == {"map": {"title": "Linear map", "rows": "forecast", "signed": True}}
    assert trace.why("forecast") == "the model has no attention"


def test_the_map_of_another_model_is_its_derivative():
    subject = forecaster("lstm")
    model, task, window = subject.model.double(), subject.task, window_of(subject.task)
    source = task._given([window], task._past([window]))
    source = replace(source, values=source.values.double())
    weights = build.forecast_map(model, source, block=4)
    with torch.inference_mode():
        for step in (3, 47):
            moved = source.values.clone()
            moved[:, step] += 1e-6
            found = (model.predictions(replace(source, values=moved)) - model.predictions(source))[
                ..., 0
            ] / 1e-6
            np.testing.assert_allclose(weights[..., step], found.view(2, 3, 4).mean(-1), atol=1e-5)
    model.float()


def test_the_linear_part_is_the_forecast_without_the_network():
    subject = forecaster("tiny-forecaster")
    task, window = subject.task, window_of(subject.task)
    trace = subject.look(window)
    wanted = task.baselines([window])["nlinear"][0].values
    for number, channel in enumerate(trace.document["channels"]):
        np.testing.assert_allclose(channel["linear"], wanted[:, number], rtol=1e-4, atol=1e-4)
        moved = trace.weights("linear")[number, 0] @ task._past([window])[0, :, number]
        np.testing.assert_allclose(moved, task._scaled(window, wanted)[:, number], atol=5e-3)


def test_a_model_that_begins_as_its_linear_part_says_so():
    subject = forecaster("tiny-forecaster")
    torch.nn.init.zeros_(fresh := subject.model.head.linear.weight)
    trace = subject.look(window_of(subject.task))
    assert list(trace.document["kinds"]) == ["map", "linear"]
    assert "output layer is zero" in trace.why("forecast")
    np.testing.assert_allclose(trace.weights("map"), trace.weights("linear"), atol=1e-3)
    forecaster.cache_clear()
    assert not fresh.any()


def test_looking_changes_nothing():
    subject = forecaster("nie2023")
    window = window_of(subject.task)
    (before,) = subject.predict([window])
    subject.look(window)
    (after,) = subject.predict([window])
    np.testing.assert_array_equal(before.mean, after.mean)
    assert not [part for part in subject.model.modules() if getattr(part, "recorder", None) is not None]
    assert all(weight.grad is None for weight in subject.model.parameters())


def test_many_columns_and_steps_are_limited(monkeypatch):
    monkeypatch.setattr(build, "ROWS", 5)
    monkeypatch.setattr(build, "COLUMNS", 20)
    monkeypatch.setattr(build, "CELLS", 4 * 2 * 4 * 16)  # one channel of two layers with four heads
    subject = forecaster("transformer-series")
    trace = subject.look(window_of(subject.task)).checked()
    assert [one["name"] for one in trace.document["channels"]] == ["small"]
    assert trace.why("channels") == "the series has 2 columns; the first 1 are shown"
    entry = trace.entry("forecast")
    assert entry["rows"] == [[0, 3], [3, 6], [6, 9], [9, 12]]
    assert entry["columns"][-1] == [45, 48]
    seen = captured(subject)[0]["network.decoder.blocks.0.cross"][0]  # (heads, 12, 48)
    wanted = seen.reshape(4, 4, 3, 16, 3).mean(2).sum(-1)
    np.testing.assert_allclose(trace.weights("forecast")[0], wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"what": "seqwright trace"}, "not a Seqwright forecast trace"),
        ({"format": 9}, "newer than 1"),
        ({"times": []}, "not one time per step"),
        ({"channels": []}, "channels"),
        ({"kinds": {}}, "do not have the shape"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any], reason, tmp_path: Path):
    subject = forecaster("nlinear")
    broken = ForecastTrace(subject.look(window_of(subject.task)).document)
    broken.document |= change
    broken.save(tmp_path / "x.json")
    with pytest.raises(InputError, match=reason):
        ForecastTrace.load(tmp_path / "x.json")


def test_traces_of_texts_and_of_forecasts_do_not_share_a_page():
    subject = forecaster("nlinear")
    document = subject.look(window_of(subject.task)).document
    with pytest.raises(InputError, match="not a Seqwright forecast trace"):
        render([document, {"what": "seqwright trace", "format": 2}])


# Which forecast ------------------------------------------------------------------------------------------


def test_the_forecast_is_chosen_by_time_series_line_or_file():
    task = forecaster("nlinear").task
    reader = wave_reader()
    assert next(reader.read(ReadReport())).series.channels == ("small", "large")
    assert task.looked_at(reader, None).at == 600 - 12
    for text in ("2024-01-20 05:00:00", "from 2024-01-20 05:00:00"):
        assert task.looked_at(reader, text).when == "2024-01-20 05:00:00"
    assert task.looked_at(reader, task.to_line(window_of(task))).when == window_of(task).when
    for text, reason in (
        ("2030-01-01", "no forecast begins at 2030-01-01; choose a time from 2024-01-01 01:00:00 to"),
        ("soon", "is not a time"),
        ("shop, from 2024-01-20", "there is no series 'shop'"),
    ):
        with pytest.raises(InputError, match=reason):
            task.looked_at(reader, text)


def test_the_command_writes_a_page_a_trace_and_a_summary(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = waves(Path("waves.csv"))
    arguments = ["horizon=12", "lookback=48", "data.rows=400,100,100", "model=nlinear", "--steps=2"]
    assert cli.main(["train", path, "--out", "run", *arguments]) == 0
    assert "seqwright look run -o page.html" in capsys.readouterr().err
    assert cli.main(["look", "run"]) == 0
    assert "linear map" in capsys.readouterr().out
    assert cli.main(["look", "run", path, "-o", "page.html"]) == 0  # what follows its end
    assert cli.main(["look", "run", "2024-01-20 05:00:00", "-o", "x.json"]) == 0
    assert ForecastTrace.load("x.json").text == "from 2024-01-20 05:00:00"
    assert "from 2024-01-26" in Path("page.html").read_text()
    assert cli.main(["look", "run", "--learning"]) == 3
    assert "trainings of forecasting are not traced" in capsys.readouterr().err
    assert cli.main(["look", "run", "--reference", "x"]) == 2

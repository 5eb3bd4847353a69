"""The page of a forecast in a real browser: the series, and the weights under it."""

from __future__ import annotations

import numpy as np
import pytest
from forecasts import forecaster, window_of
from reading_pages import numbers, state, table

from seqwright.lens.series.document import ForecastTrace


def looked(preset: str) -> ForecastTrace:
    subject = forecaster(preset)
    return subject.look(window_of(subject.task))


def opacities(page) -> list[float]:
    found = page.evaluate(
        "[...document.querySelectorAll('.shade rect')].map((one) => Number(one.getAttribute('fill-opacity')))"
    )
    return [one / max(found) for one in found]


def choose(page, label: str, text: str) -> None:
    """Choose the option of a menu with this text."""
    page.evaluate(
        f"(() => {{ const list = document.querySelector('select[aria-label={label}]');"
        f"list.selectedIndex = [...list.options].findIndex((one) => one.textContent === '{text}');"
        "list.dispatchEvent(new Event('change')); })()"
    )
    page.wait(
        f"document.querySelector('select[aria-label={label}]').selectedOptions[0].textContent === '{text}'"
    )


def test_the_weights_are_those_of_the_chosen_column_layer_and_head(look):
    trace = looked("nie2023")
    page = look(trace.document)
    every = np.stack([trace.weights("forecast", layer) for layer in range(3)])  # (layers, C, heads, 1, 6)
    wanted = every.mean((0, 2))[0, 0]
    assert opacities(page) == pytest.approx((wanted / wanted.max()).tolist(), abs=0.01)
    choose(page, "Column", "large")
    choose(page, "Layer", "1")
    choose(page, "Head", "3")
    wanted = every[1, 1, 3, 0]
    page.wait("location.hash.includes('head=3')")
    assert [numbers(row[2:])[0] for row in table(page)] == pytest.approx(wanted.tolist(), abs=1e-3)
    assert state(page) == {"channel": "1", "layer": "1", "head": "3", "table": "1"}


def test_pointing_at_the_forecast_or_at_the_past_shows_the_weights_of_that_place(look):
    trace = looked("transformer-series")
    page = look(trace.document, at="#layer=0&head=0")
    weights = trace.weights("forecast", 0)[0, 0]  # (12, 48)
    left, right = 66, page.evaluate("document.querySelector('.forecast').viewBox.baseVal.width") - 14
    width = right + 14

    def at(step: float) -> float:
        return (left + (right - left) * step / 60) / width

    page.point(".forecast", at(48 + 7.5), 0.2)  # a step of the forecast
    page.wait("document.querySelector('.readout b').textContent === '2024-01-25 19:00'")
    assert opacities(page) == pytest.approx((weights[7] / weights[7].max()).tolist(), abs=0.01)
    page.point(".forecast", at(10.5), 0.2)  # a step of the past
    page.wait("document.querySelector('.readout b').textContent === '2024-01-23 22:00'")
    column = weights[:, 10]
    assert opacities(page) == pytest.approx((column / column.max()).tolist(), abs=0.01)
    page.click(".forecast", at(10.5), 0.2)
    page.wait("location.hash.includes('k=10')")
    page.press("Escape")
    page.press("ArrowRight")
    page.wait("location.hash.includes('q=1') && !location.hash.includes('k=')")


def test_a_linear_model_shows_its_map(look):
    trace = looked("dlinear")
    page = look(trace.document, at="#q=4")
    assert page.count("select") == 1  # the column; there is one kind of weights, one layer and one head
    wanted = trace.weights("map")[0, 0, 4]
    root = np.sqrt(np.abs(wanted) / np.abs(wanted).max())
    assert opacities(page) == pytest.approx(root.tolist(), abs=0.01)
    fills = page.evaluate(
        "[...document.querySelectorAll('.shade rect')].map((one) => one.getAttribute('fill'))"
    )
    assert [fill == "var(--raises)" for fill in fills] == (wanted > 0).tolist()
    assert "The model has no attention." in page.text(".body")
    found = [numbers(row[2:])[0] for row in table(page)]
    assert found == pytest.approx(wanted.tolist(), abs=1e-3)


@pytest.mark.parametrize(
    ("preset", "lines"),
    [("tiny-forecaster", {"past", "truth", "linear", "mean"}), ("lstm", {"past", "truth", "mean"})],
)
def test_every_line_is_drawn_in_either_theme_and_width(look, preset, lines):
    trace = looked(preset)
    for dark, width in ((False, 1280), (True, 500)):
        page = look(trace.document, dark=dark, width=width)
        classes = page.evaluate("[...document.querySelectorAll('.line')].map((one) => one.classList[1])")
        assert set(classes) == lines
        assert page.count(".interval") == 1
        assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")


def test_markup_in_names_is_text_and_bad_addresses_are_bounded(look):
    trace = looked("nie2023")
    hostile = "<img src=x onerror=alert(1)>"
    document = {**trace.document, "series": hostile, "text": hostile}
    document["channels"] = [{**one, "name": hostile} for one in document["channels"]]
    page = look(document, at="#kind=nothing&layer=77&head=9&channel=99&q=1000&k=-5&a=3")
    assert hostile in page.text(".panel h2")
    assert page.count("img") == 0


def test_two_models_share_a_page(look):
    one, other = looked("nie2023"), looked("nlinear")
    page = look(one.document, other.document)
    choose(page, "Trace", "2 · linear")
    page.wait("document.querySelector('.body').textContent.includes('The model has no attention.')")

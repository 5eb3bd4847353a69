"""The pictures of forecasts: past, forecast, interval and truth; the error by step; a back-test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from seqwright.data.text_display import percent
from seqwright.runs.report.markup import Markup, drawing, element, figure, join, table, tip
from seqwright.runs.report.reader import Document, Record, finite
from seqwright.runs.report.scale import Scale
from seqwright.runs.report.wording import number, tick

WIDTH, HEIGHT, WIDE = 540, 230, 1120
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 30
CELL = 8  # height of a row of attention
COLOURS = ("two", "one", "three", "known")
LINES = {"past": "past", "truth": "truth", "mean": "forecast", "low": "interval from", "high": "to"}

Points = list[tuple[float, float]]


def forecasts(record: Record) -> Markup | None:
    """Draw the pictures of a forecaster's evaluation; None for other tasks."""
    pictures = record.evaluation.document("pictures") if record.evaluation is not None else Document()
    shown = pictures.documents("forecasts")
    if not shown:
        return None
    legend = element(
        "p",
        "Black: what happened. Orange: the forecast, with the interval that is to hold 80 % of the outcomes.",
    )
    charts = [_forecast(each, WIDTH) for each in shown]
    steps = pictures.document("by_step")
    curves = {name: _numbers(steps, name) for name in steps.fields}
    drawn = element("div", *charts, _by_step(curves) if curves else None, class_="charts")
    backtest = pictures.document("backtest")
    along = _forecast(backtest, WIDE, "Back-test") if backtest.fields else None
    return join([legend, drawn, None if along is None else element("div", along, class_="wide")])


def _numbers(document: Document, key: str) -> list[float]:
    values = (finite(value) for value in document.entries(key))
    return [math.nan if value is None else value for value in values]


def _forecast(picture: Document, width: int, title: str = "") -> Markup:
    lines = {key: _numbers(picture, key) for key in LINES}
    begin = len(lines["past"])
    x = Scale(0.0, max(begin + len(lines["mean"]) - 1, 1), LEFT, width - RIGHT)
    values = [value for line in lines.values() for value in line if not math.isnan(value)]
    y = Scale.around(values, HEIGHT - BOTTOM, TOP, log=False)
    known = [*lines["past"], *lines["truth"]]
    name = f"{title} of {picture.text('title')}" if title else picture.text("title")
    attention = picture.document("attention")
    weights = [
        [finite(cell) or 0.0 for cell in row] for row in attention.entries("rows") if isinstance(row, list)
    ]
    drawn = drawing(
        width,
        HEIGHT + (CELL * len(weights) + 6 if weights else 0),
        name,
        y.levels(LEFT, width - RIGHT, 5),
        *_ends(picture, width),
        element("path", d=_band(lines["low"], lines["high"], begin, x, y), class_="band"),
        element("path", d=_path(known, 0, x, y), class_="curve known"),
        element("path", d=_path(lines["mean"], begin, x, y), class_="curve two"),
        *_attention(attention, weights, x),
    )
    rows = zip(*(map(_cell, lines[key]) for key in ("truth", "mean", "low", "high")), strict=False)
    numbered = ((str(step), *cells) for step, cells in enumerate(rows, start=1))
    numbers = table(["step", *(LINES[key] for key in ("truth", "mean", "low", "high"))], numbered, name)
    caption = f"{picture.text('first')} to {picture.text('last')}."
    if weights:
        patch = attention.count("patch")
        caption += f" Below: the patches that steps 1 to {patch}, the next {patch}, and so on attend to."
    return figure(name, caption, drawn, numbers)


def _cell(value: float) -> str:
    return number(None if math.isnan(value) else value)


def _ends(picture: Document, width: int) -> Iterable[Markup]:
    below = HEIGHT - BOTTOM + 18
    yield element("text", picture.text("first"), x=LEFT, y=below, class_="axis")
    yield element("text", picture.text("last"), x=width - RIGHT, y=below, class_="axis end")


def _attention(attention: Document, weights: list[list[float]], x: Scale) -> Iterable[Markup]:
    """Draw a row of cells under the past for each patch of the forecast, the darker the more it attends."""
    stride, first = attention.count("stride"), attention.number("first") or 0.0
    for row, cells in enumerate(weights):
        most = max(*cells, 1e-12)
        for column, weight in enumerate(cells):
            left = x(first + column * stride)
            text = f"forecast patch {row + 1}: {percent(weight, 1)}"
            place = {
                "x": left,
                "y": float(HEIGHT + CELL * row),
                "width": x(first + (column + 1) * stride) - left,
            }
            yield tip("rect", text, **place, height=CELL - 1, fill_opacity=weight / most, class_="one")


def _path(values: Sequence[float], begin: int, x: Scale, y: Scale) -> str:
    """Return a line through the values that are known."""
    parts, pen = [], "M"
    for place, value in enumerate(values, start=begin):
        if math.isnan(value):
            pen = "M"
            continue
        parts.append(f"{pen}{x(place):.1f} {y(value):.1f}")
        pen = "L"
    return "".join(parts)


def _band(low: Sequence[float], high: Sequence[float], begin: int, x: Scale, y: Scale) -> str:
    """Return an area for each run of steps with an interval."""
    areas, run = [], Points()
    ends = [*zip(low, high, strict=False), (math.nan, math.nan)]
    tops: Points = []
    for place, (least, most) in enumerate(ends, start=begin):
        if not (math.isnan(least) or math.isnan(most)):
            run.append((x(place), y(least)))
            tops.append((x(place), y(most)))
        elif run:
            corners = "L".join(f"{left:.1f} {top:.1f}" for left, top in (*run, *reversed(tops)))
            areas.append(f"M{corners}Z")
            run, tops = [], []
    return "".join(areas)


def _by_step(curves: dict[str, list[float]]) -> Markup:
    """Draw the mean absolute error of each step ahead."""
    length = max(map(len, curves.values()))
    x = Scale(1.0, max(length, 2), LEFT, WIDTH - RIGHT)
    values = [value for curve in curves.values() for value in curve if not math.isnan(value)]
    y = Scale.around(values, HEIGHT - BOTTOM, TOP, zero=True, log=False)
    parts, keys = [], []
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        parts.append(element("path", d=_path(curve, 1, x, y), class_=f"curve {colour}"))
        keys.append(element("li", element("span", class_=f"key {colour}"), f" {name.replace('_', ' ')}"))
    below = HEIGHT - BOTTOM + 18
    marks = (element("text", tick(s), x=x(s), y=below, class_="axis middle") for s in x.ticks())
    title = "Error by step ahead"
    drawn = drawing(WIDTH, HEIGHT, title, y.levels(LEFT, WIDTH - RIGHT, 5), *marks, *parts)
    steps = range(1, length + 1)
    rows = ((str(step), *(_cell(curve[step - 1]) for curve in curves.values())) for step in steps)
    numbers = table(["step", *curves], rows, title)
    caption = join(["Mean absolute error, scaled.", element("ul", *keys, class_="keys")])
    return figure(title, caption, drawn, numbers)

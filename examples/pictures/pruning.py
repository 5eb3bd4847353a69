"""The cost of pruning heads, as measured by bench.pruning, and the order in which they are removed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from examples.pictures.paper import Frame, Point, heat, picture, text
from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale

MEASURED = Path(__file__).parents[2] / "bench" / "results" / "pruning.json"
TOP, BOTTOM = 44, 268
WALL, ROOM = 540, 136  # left edge and maximum width of the grids of heads
NAMES = {"enc": "encoder", "dec": "decoder", "cross": "cross"}


@cache
def measured() -> dict[str, Any]:
    """Return the stored measurements."""
    return json.loads(MEASURED.read_text("utf-8"))


def pruning() -> str:
    curve = measured()["curve"]
    chosen = [(100 * point["share"], point["value"]) for point in curve["points"]]
    drawn = [(100 * point["share"], point["random"]) for point in curve["points"]]
    again, gates = trained_on("whole", "gradient"), trained_on("gates")
    values = [*(y for _, y in [*chosen, *again, *gates]), *(y for _, several in drawn for y in several)]
    frame = Frame(Scale(0, 100, 62, 480), Scale.around(values, BOTTOM, TOP, zero=True, log=False))
    grids, end = _grids(ranks())
    return picture(
        max(376, end + 52),
        "What pruning costs",
        described(),
        frame.axes("heads closed, %", f"{_metric()}, {curve['better']} is better"),
        _band(frame, drawn),
        frame.curve([(x, mean(several)) for x, several in drawn], "two"),
        frame.curve(chosen, "one"),
        frame.dots(chosen, "one"),
        *(_ring(frame.x(x), frame.y(y)) for x, y in again),
        frame.dots(gates, "three", 5),
        _legend(),
        text("order of removal", WALL, 28, "name"),
        grids,
        _key(end + 20),
    )


def trained_on(*choices: str) -> list[Point]:
    """Return (percent closed, value) of the models that were trained further without some heads."""
    heads = measured()["curve"]["heads"]
    return [
        (100 * (1 - one["heads"] / heads), one["value"])
        for one in measured()["models"]
        if one["choice"] in choices and one["trained_on"]
    ]


def ranks() -> dict[str, list[list[float]]]:
    """Return by kind, layer and head: 0 for the head that is closed first, 1 for the last."""
    order = measured()["order"]
    found: dict[str, list[list[float]]] = {kind: [] for kind in NAMES}
    places = {tuple(head.values()): rank / max(len(order) - 1, 1) for rank, head in enumerate(order)}
    for (kind, layer, _), rank in sorted(places.items()):
        if layer == len(found[kind]):
            found[kind].append([])
        found[kind][layer].append(rank)
    return {kind: layers for kind, layers in found.items() if layers}


def described() -> str:
    """Return the figures as text."""
    points, gates = measured()["curve"]["points"], trained_on("gates")
    points_text = "; ".join(
        f"{100 * point['share']:.0f} %: {point['value']:.1f}, random ones {min(point['random']):.1f} to "
        f"{max(point['random']):.1f}"
        for point in points
    )
    learned = ", ".join(f"{value:.1f} with {x:.0f} % closed" for x, value in gates)
    again = ", ".join(f"{value:.1f} with {x:.0f} %" for x, value in trained_on("whole", "gradient"))
    return (
        f"{measured()['title']}. Left: {_metric()} by the share of the heads that are closed, the least "
        f"important first: {points_text}. With learned gates: {learned}. The least important closed and "
        f"the model trained further for as long: {again}. Right: the order in which the heads of each "
        "layer are closed."
    )


def _metric() -> str:
    return measured()["curve"]["metric"].replace("_", " ")


def _band(frame: Frame, drawn: Sequence[tuple[float, Sequence[float]]]) -> Markup:
    """Draw the range from the lowest to the highest of the random orders."""
    edge = [(x, min(several)) for x, several in drawn] + [(x, max(several)) for x, several in drawn[::-1]]
    corners = "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in edge)
    return element("path", d=f"M{corners}Z", class_="two", fill_opacity=0.2)


def _ring(x: float, y: float) -> Markup:
    return element("circle", cx=float(x), cy=float(y), r=5.0, class_="paper one-line", stroke_width=2)


def _dot(x: float, y: float, colour: str, radius: float) -> Markup:
    return element("circle", cx=float(x), cy=float(y), r=float(radius), class_=colour)


def _legend() -> Markup:
    def line(x: float, y: float, colour: str) -> Markup:
        return element("path", d=f"M{x:g} {y:g}h24", class_=f"curve {colour}-line")

    up, down = 328.0, 354.0
    return join(
        [
            line(62, up, "one"),
            _dot(74, up, "one", 3),
            text("least important first", 94, up + 4, "small"),
            line(290, up, "two"),
            element("rect", x=290.0, y=up - 6, width=24.0, height=12.0, class_="two", fill_opacity=0.2),
            text("random orders, mean and range", 322, up + 4, "small"),
            _ring(74, down),
            text("the same, trained further", 94, down + 4, "small"),
            _dot(302, down, "three", 5),
            text("learned gates", 322, down + 4, "small"),
        ]
    )


def _grids(found: dict[str, list[list[float]]]) -> tuple[Markup, float]:
    """Return the heads by kind, a row per layer, and their lower edge."""
    layers = sum(map(len, found.values()))
    wide = min(24, ROOM // max(len(row) for rows in found.values() for row in rows))
    tall = max(6, min(18, 216 // layers))
    parts, y = [], 52.0
    for kind, rows in found.items():
        parts += [text(NAMES[kind], WALL, y, "axis", "small"), *_rows(rows, y + 8, wide, tall)]
        y += 34 + len(rows) * tall
    return join(parts), y - 26


def _rows(rows: Iterable[Sequence[float]], y: float, wide: int, tall: int) -> list[Markup]:
    """Draw the layers of a kind, which may have different numbers of heads."""
    return [heat([row], WALL, y + number * tall, wide, tall) for number, row in enumerate(rows) if row]


def _key(y: float) -> Markup:
    shades = [step / 8 for step in range(9)]
    return join(
        [
            heat([shades], WALL + 36, y, 7, 10),
            text("first", WALL, y + 9, "axis", "small"),
            text("last", WALL + 106, y + 9, "axis", "small"),
        ]
    )

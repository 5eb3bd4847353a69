"""Line charts over training steps: measured points and their running median."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from seqwright.runs.report.markup import Markup, drawing, element, join, table, tip
from seqwright.runs.report.scale import Scale
from seqwright.runs.report.wording import number, tick

WIDTH, HEIGHT = 540, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 128, 38, 40
APART = 15  # least distance in pixels between two curve names

Point = tuple[float, float]  # (step, value)


@dataclass(frozen=True)
class Curve:
    """A series by step: `raw` is drawn as faint points, `marked` as a line with points."""

    name: str
    points: Sequence[Point]
    colour: Literal["one", "two", "three"]
    style: Literal["raw", "line", "marked", "dashed"] = "line"


@dataclass(frozen=True)
class Clock:
    """The seconds at which some steps were reached, and the last step."""

    steps: Sequence[float]
    seconds: Sequence[float]
    last: float

    def at(self, step: float) -> float:
        return float(np.interp(step, [0.0, *self.steps], [0.0, *self.seconds]))

    def step(self, seconds: float) -> float:
        return float(np.interp(seconds, [0.0, *self.seconds], [0.0, *self.steps]))


def thinned(points: Sequence[Point], most: int = 600, middle: Sequence[float] | None = None) -> list[Point]:
    """Pick at most `most` points: nine tenths evenly, and those farthest from `middle` (or the mean)."""
    if len(points) <= most:
        return list(points)
    values = np.array([value for _, value in points])
    away = np.abs(values - (values.mean() if middle is None else np.array(middle)))
    evenly = np.linspace(0, len(points) - 1, most * 9 // 10).astype(int)
    farthest = np.argsort(-away, kind="stable")[: most // 10]
    return [points[i] for i in sorted({*evenly.tolist(), *farthest.tolist()})]


def running_median(values: Sequence[float], width: int) -> list[float]:
    """Return the median of up to width // 2 values on each side, of fewer near the start for symmetry."""
    sides, array = (min(width // 2, place) for place in range(len(values))), np.array(values)
    return [float(np.median(array[i - side : i + side + 1])) for i, side in enumerate(sides)]


def line_chart(
    description: str, curves: Sequence[Curve], clock: Clock, *, kept: float | None = None, zero: bool = False
) -> Markup:
    """Draw curves over steps (below) and time (above); mark the step `kept`; start at 0 if `zero`."""
    x = Scale(0.0, clock.last or 1.0, LEFT, WIDTH - RIGHT)  # the same for all charts of a training
    values = [value for curve in curves for _, value in curve.points]
    below = HEIGHT - BOTTOM
    y = Scale.around(values, below, TOP, zero=zero)
    return drawing(
        WIDTH,
        HEIGHT,
        description,
        y.levels(LEFT, WIDTH - RIGHT, 6),
        element("text", "logarithmic", x=LEFT, y=below + 32, class_="axis unit") if y.log else None,
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=below, y2=below, class_="base"),
        *(element("text", tick(s), x=x(s), y=below + 17, class_="axis middle") for s in x.ticks()),
        element("text", "steps", x=WIDTH - RIGHT, y=below + 32, class_="axis end unit"),
        *_time_axis(x, clock),
        None if kept is None else element("line", x1=x(kept), x2=x(kept), y1=TOP, y2=below, class_="kept"),
        *(_drawn(curve, x, y) for curve in curves),
        *(_kept_point(curve, x, y, kept) for curve in curves),
        _names(curves, y),
    )


def curve_table(caption: str, curves: Sequence[Curve]) -> Markup:
    """Tabulate the points of all curves by step."""
    columns = [dict(curve.points) for curve in curves]
    steps = sorted({step for column in columns for step in column})
    rows = ((f"{step:,.0f}", *(number(column.get(step)) for column in columns)) for step in steps)
    return table(["step", *(curve.name for curve in curves)], rows, caption)


def _time_axis(x: Scale, clock: Clock) -> list[Markup]:
    """Draw the time axis above, in seconds, minutes or hours."""
    if not clock.seconds:
        return []
    total = clock.at(x.high)
    unit, name = (3600.0, "hours") if total > 7200 else (60.0, "minutes") if total > 60 else (1.0, "seconds")
    parts = [element("text", name, x=WIDTH - RIGHT + 12, y=TOP - 10, class_="axis unit")]
    for mark in Scale(0.0, max(total / unit, 1e-9), 0.0, 1.0).ticks(5):
        at = x(clock.step(mark * unit))
        parts.append(element("line", x1=at, x2=at, y1=TOP - 6, y2=TOP - 2, class_="base"))
        parts.append(element("text", tick(mark), x=at, y=TOP - 10, class_="axis middle"))
    return parts


def _drawn(curve: Curve, x: Scale, y: Scale) -> Markup:
    places = [(x(step), y(value)) for step, value in curve.points]
    if curve.style == "raw":
        dots = "".join(f"M{left:.1f} {top:.1f}h0" for left, top in places)
        return element("path", d=dots, class_=f"raw {curve.colour}")
    line = "M" + "L".join(f"{left:.1f} {top:.1f}" for left, top in places)
    parts = [element("path", d=line, class_=f"curve {curve.style} {curve.colour}")]
    for (step, value), (left, top) in zip(curve.points, places, strict=True):
        if curve.style == "marked":
            text = f"step {step:,.0f}: {number(value)}"
            parts.append(tip("circle", text, cx=left, cy=top, r=2.5, class_=curve.colour))
    return join(parts)


def _kept_point(curve: Curve, x: Scale, y: Scale, kept: float | None) -> Markup | None:
    value = dict(curve.points).get(kept) if kept is not None and curve.style == "marked" else None
    if kept is None or value is None:
        return None
    text = f"kept, step {kept:,.0f}: {number(value)}"
    return tip("circle", text, cx=x(kept), cy=y(value), r=6, class_=f"ring {curve.colour}")


def _names(curves: Sequence[Curve], y: Scale) -> Markup:
    """Write the name and last value of each curve at its end, without overlaps."""
    ends = sorted((c for c in curves if c.style != "raw"), key=lambda curve: y(curve.points[-1][1]))
    heights: list[float] = []
    for curve in ends:  # push names down until they are APART, then up from the bottom edge
        heights.append(max(y(curve.points[-1][1]), heights[-1] + APART if heights else TOP))
    limit: float = HEIGHT - BOTTOM
    parts = []
    for height, curve in zip(reversed(heights), reversed(ends), strict=True):
        name = element("tspan", curve.name, class_="name")
        value = element("tspan", " " + number(curve.points[-1][1]))
        place = {"x": WIDTH - RIGHT + 12, "y": min(height, limit) + 4}
        parts.append(element("text", name, value, **place, class_=f"label {curve.colour}"))
        limit = min(height, limit) - APART
    return join(reversed(parts))

"""Scores of several models against the cost of their training: one picture as a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from seqwright.runs.report.markup import Markup, element, join, tip
from seqwright.runs.report.scale import Scale
from seqwright.runs.report.wording import number, tick

WIDTH, HEIGHT = 940, 330
LEFT, TOP, BOTTOM, PANEL, BETWEEN = 52, 58, 52, 400, 62
APART = 16  # least distance in pixels between two names
LONG = 130  # pixels that a name takes at most, roughly
COLOURS = ("#2563c4", "#b54708", "#15803d", "#9333b0", "#0e7490", "#9a7300")  # readable on white and on black
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #3f4756 }
.title { font-weight: 600; font-size: 14px; fill: #1b2330 }
.end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #e2e6ec } .base { stroke: #8a93a3 }
.paper { fill: #ffffff }
.curve { fill: none; stroke-width: 2 }
.name { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #b6bfce } .title { fill: #eef1f6 } .grid { stroke: #2d3542 } .paper { fill: #14181f }
  .coloured { filter: brightness(1.6) }
}
"""


@dataclass(frozen=True)
class Trained:
    """A model and its cost: scores of its validations by minutes, and that of its test by FLOPs."""

    name: str
    validated: Sequence[tuple[float, float]]
    flops: float
    score: float
    interval: tuple[float, float]
    parameters: int


def cost_figure(metric: str, models: Sequence[Trained]) -> str:
    """Draw the metric of each model against the time and against the FLOPs of its training, as an SVG file
    (after figure 5 of Dosovitskiy et al. 2021).
    """
    right = LEFT + PANEL + BETWEEN
    description = f"{metric} of {', '.join(model.name for model in models)} against the cost of training"
    return element(
        "svg",
        element("style", Markup(STYLE)),
        element("rect", width=WIDTH, height=HEIGHT, class_="paper"),
        _title(LEFT, f"{metric} in validations, by minutes of training"),
        _legend(models),
        _by_minutes(models, LEFT, LEFT + PANEL),
        _title(right, f"{metric} on the test split, by FLOPs of training"),
        _by_flops(models, right, right + PANEL),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
        aria_label=description,
    )


def _title(left: float, text: str) -> Markup:
    return element("text", text, x=left, y=TOP - 30, class_="title")


def _axes(x: Scale, y: Scale, left: float, right: float, label: str) -> Markup:
    below = HEIGHT - BOTTOM
    written = (_power(mark) if x.log else tick(mark) for mark in x.ticks(5))
    return join(
        [
            y.levels(left, right, 6),
            element("line", x1=left, x2=right, y1=below, y2=below, class_="base"),
            *(
                element("text", text, x=x(mark), y=below + 18, class_="middle")
                for mark, text in zip(x.ticks(5), written, strict=True)
            ),
            element("text", label, x=right, y=below + 38, class_="end"),
        ]
    )


def _power(value: float) -> str:
    """Write 2e13 as 2 · 10¹³."""
    digits, _, exponent = f"{value:.0e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"10{raised}" if digits == "1" else f"{digits} · 10{raised}"


def _by_minutes(models: Sequence[Trained], left: float, right: float) -> Markup:
    points = [point for model in models for point in model.validated] or [(1.0, 0.0)]
    x = Scale(0.0, max(minutes for minutes, _ in points), left, right)
    y = Scale.around([score for _, score in points], HEIGHT - BOTTOM, TOP, log=False)
    parts = [_axes(x, y, left, right, "minutes")]
    for place, model in enumerate(models):
        colour = COLOURS[place % len(COLOURS)]
        if model.validated:
            line = "M" + "L".join(f"{x(minutes):.1f} {y(score):.1f}" for minutes, score in model.validated)
            parts.append(element("path", d=line, class_="curve coloured", stroke=colour))
        for minutes, score in model.validated:
            text = f"{model.name}, {number(minutes)} minutes: {number(score)}"
            parts.append(tip("circle", text, cx=x(minutes), cy=y(score), r=3, fill=colour, class_="coloured"))
    return join(parts)


def _legend(models: Sequence[Trained]) -> Markup:
    names = [
        element("tspan", model.name, dx=0 if place == 0 else 14, class_="coloured", style=f"fill:{colour}")
        for place, (model, colour) in enumerate(zip(models, cycle(COLOURS), strict=False))
    ]
    return element("text", *names, x=LEFT, y=TOP - 10, class_="name")


def _by_flops(models: Sequence[Trained], left: float, right: float) -> Markup:
    flops = [model.flops for model in models]
    x = Scale(min(flops) / 2, 2 * max(flops), left, right, log=True)
    values = [value for model in models for value in (*model.interval, model.score)]
    room = (max(values) - min(values)) / 10  # for the names below the points
    y = Scale.around([*values, min(values) - room], HEIGHT - BOTTOM, TOP, log=False)
    parts = [_axes(x, y, left, right, "FLOPs, logarithmic; M: million parameters")]
    heights: list[float] = []  # of the names, from above; none covers another
    for model in sorted(models, key=lambda model: -model.score):
        colour, (low, high) = COLOURS[models.index(model) % len(COLOURS)], model.interval
        at, size = x(model.flops), f"{model.parameters / 1e6:.2g} M"
        between = f"{number(low)}–{number(high)}"
        text = f"{model.name}: {number(model.score)} ({between}), {model.parameters:,} parameters"
        whisker = {"x1": at, "x2": at, "y1": y(low), "y2": y(high), "stroke": colour}
        parts.append(element("line", **whisker, stroke_width=2, class_="coloured"))
        parts.append(tip("circle", text, cx=at, cy=y(model.score), r=5, fill=colour, class_="coloured"))
        heights.append(max(y(model.score) + 4, heights[-1] + APART if heights else 0))
        near = [x(other.flops) for other in models if abs(y(other.score) - y(model.score)) < APART]
        leftward = at > (left + right) / 2 or any(at < place < at + LONG for place in near)
        name = element("tspan", model.name, class_="name coloured", style=f"fill:{colour}")
        beside = {"x": at + (-12 if leftward else 12), "y": heights[-1]}
        parts.append(element("text", name, f", {size}", **beside, class_="end" if leftward else None))
    return join(parts)

"""Time and memory of layers by the number of tokens, as measured by bench.complexity."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from examples.pictures.paper import Frame, Point, picture, text
from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale

MEASURED = Path(__file__).parents[2] / "bench" / "results" / "complexity.json"
TOP, BOTTOM = 44.0, 268.0
PANELS = ((62.0, 326.0), (410.0, 674.0))  # left and right edges: time, memory
STYLES = {  # name, colour, and whether the line is dashed
    "self": ("self-attention", "two", False),
    "self_dropout": ("self-attention, weights kept", "two", True),
    "restricted": ("restricted", "one", False),
    "compressed": ("memory-compressed", "one", True),
    "recurrent": ("recurrent", "three", False),
    "convolutional": ("convolutional", "three", True),
}


@cache
def measured() -> dict[str, Any]:
    """Return the stored measurements."""
    return json.loads(MEASURED.read_text("utf-8"))


def complexity() -> str:
    times = {name: _points(found["seconds"], 1e3) for name, found in measured()["layers"].items()}
    memory = {name: _points(found["bytes"], 1e-6) for name, found in measured()["layers"].items()}
    return picture(
        400,
        "What layers cost by the number of tokens",
        described(),
        _panel(times, *PANELS[0], "CPU time, ms"),
        _panel(memory, *PANELS[1], "memory for the backward pass, MB"),
        _legend(),
    )


def described() -> str:
    """Return the fits as text."""
    sizes = measured()
    fits = "; ".join(
        f"{STYLES[name][0]}: time n^{found['exponent_time']}, memory n^{found['exponent_memory']}"
        for name, found in sizes["layers"].items()
    )
    return (
        f"Forward and backward pass of one layer of size {sizes['size']} by the number of tokens n, on "
        f"logarithmic axes. Left: CPU time of one thread. Right: bytes that the forward pass keeps. "
        f"Fits: {fits}."
    )


def _points(by_length: dict[str, float], factor: float) -> list[Point]:
    return [(int(length), factor * value) for length, value in by_length.items()]


def _panel(curves: dict[str, list[Point]], left: float, right: float, title: str) -> Markup:
    lengths = sorted({x for points in curves.values() for x, _ in points})
    values = [y for points in curves.values() for _, y in points]
    across = Scale(lengths[0], lengths[-1], left, right, log=True)
    frame = Frame(across, Scale.around(values, BOTTOM, TOP, log=True))
    drawn = []
    for name, points in curves.items():
        _, colour, dashed = STYLES[name]
        drawn += [frame.curve(points, colour, *(["dashed"] if dashed else [])), frame.dots(points, colour)]
    ticks = lengths[-1::-2][::-1]  # every second one has room
    return join([frame.axes("tokens, n", title, ticks), *drawn])


def _legend() -> Markup:
    """Draw the names of the layers with the exponents of their times."""
    parts = []
    for number, (name, found) in enumerate(measured()["layers"].items()):
        title, colour, dashed = STYLES[name]
        x, y = (62.0, 370.0)[number % 2], 332.0 + 22 * (number // 2)
        line = f"curve {colour}-line" + (" dashed" if dashed else "")
        parts += [
            element("path", d=f"M{x:g} {y:g}h24", class_=line),
            text(f"{title}, time n^{found['exponent_time']}", x + 32, y + 4, "small"),
        ]
    return join(parts)

"""Shared elements of all pictures: the page, its light and dark colours, cells, and curves in a frame.

A picture is a self-contained SVG that loads nothing. Colours are written out for both schemes, because few
programs other than browsers support variables. They are those of the report, and colour-blind safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale
from seqwright.runs.report.wording import tick

WIDTH = 700
SHADES = 32  # of a heat map; more are not distinguishable
LIGHT = {
    "paper": "#ffffff",
    "panel": "#f0f3f6",
    "ink": "#18212c",
    "soft": "#55616f",
    "line": "#dfe4ea",
    "one": "#0b63a5",
    "two": "#c2500c",
    "three": "#00765c",
}
DARK = {
    "paper": "#10151b",
    "panel": "#1b232c",
    "ink": "#e7ebf0",
    "soft": "#9fabb9",
    "line": "#2b3541",
    "one": "#63b3f4",
    "two": "#ff9c5b",
    "three": "#46cfa5",
}
FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif'
RULES = (
    f"text{{font:13px {FONT};font-variant-numeric:tabular-nums}}"
    ".small{font-size:12px}.tiny{font-size:11px}.name{font-weight:600}.unit{font-style:italic}"
    ".middle{text-anchor:middle}.end{text-anchor:end}"
    "path{fill:none;stroke-linejoin:round;stroke-linecap:round}.curve{stroke-width:2}"
    ".heat{shape-rendering:crispEdges;stroke-linecap:butt}.dashed{stroke-dasharray:5 5}"
)

Point = tuple[float, float]
Rows = Sequence[Sequence[float]]


def picture(height: float, title: str, described: str, *parts: object) -> str:
    """Return a complete SVG, WIDTH wide, with its title and description."""
    drawn = element(
        "svg",
        element("title", title, id="title"),
        element("desc", described, id="described"),
        element("style", Markup(style())),
        element("rect", width=WIDTH, height=height, rx=8, class_="paper"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=f"{height:g}",
        role="img",
        aria_labelledby="title described",
    )
    return drawn.replace("><", ">\n<") + "\n"  # so that a diff shows the changed lines


def style() -> str:
    return f"{RULES}{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"


def _colours(palette: dict[str, str]) -> str:
    """Return the rules: `.one` fills and `.one-line` strokes with a colour; text and axes have fixed ones."""
    shared = f"text,.name{{fill:{palette['ink']}}}.axis{{fill:{palette['soft']}}}"
    axes = f".grid{{stroke:{palette['line']}}}.base{{stroke:{palette['soft']}}}"
    own = (f".{name}{{fill:{shade}}}.{name}-line{{stroke:{shade}}}" for name, shade in palette.items())
    return f"{shared}{axes}{''.join(own)}"


def text(content: str, x: float, y: float, *kinds: str) -> Markup:
    return element("text", content, x=float(x), y=float(y), class_=" ".join(kinds) or None)


def whole(number: int) -> str:
    """Return the number with a minus sign as wide as a plus sign."""
    return str(number).replace("-", "−")


def upright(content: str, x: float, y: float, *kinds: str) -> Markup:
    """Draw a text that reads upwards from (x, y)."""
    turn = f"translate({x:g} {y:g}) rotate(-90)"
    return element("text", content, transform=turn, class_=" ".join(kinds) or None)


def box(x: float, y: float, width: float, height: float, colour: str, strength: float = 1.0) -> Markup:
    opacity = None if strength >= 1 else float(strength)
    sides = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return element(
        "rect", **sides, rx=2 if min(width, height) > 8 else None, class_=colour, fill_opacity=opacity
    )


def path(points: Iterable[Point], *kinds: str) -> Markup:
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=" ".join(kinds))


def heat(values: Rows, x: float, y: float, width: int, height: int) -> Markup:
    """Draw cells without gaps, from −1 (colour two) over 0 (nothing) to 1 (colour one).

    Neighbours of one shade are one stroke, and all strokes of a shade are one path.
    """
    runs: dict[int, list[str]] = {}
    for row, line in enumerate(values):
        for shade, first, count in _runs([round(SHADES * round(value, 9)) for value in line]):
            start = f"M{x + first * width:g} {y + (row + 0.5) * height:g}"
            runs.setdefault(shade, []).append(f"{start}h{count * width:g}")
    columns = len(values[0])
    return join(
        [
            element("rect", x=x, y=y, width=columns * width, height=len(values) * height, class_="panel"),
            *(_shade(shade, "".join(strokes), height) for shade, strokes in sorted(runs.items()) if shade),
        ]
    )


def _shade(shade: int, strokes: str, height: int) -> Markup:
    colour, strength = "one-line" if shade > 0 else "two-line", abs(shade) / SHADES
    return element("path", d=strokes, class_=f"heat {colour}", stroke_width=height, stroke_opacity=strength)


def _runs(shades: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (shade, first index, length) of each run of equal shades."""
    first = 0
    for place in range(1, len(shades) + 1):
        if place == len(shades) or shades[place] != shades[first]:
            yield shades[first], first, place - first
            first = place


def heat_key(x: float, y: float, *, signed: bool = False) -> Markup:
    """Draw the legend of a heat map, about 130 wide."""
    shades = range(-SHADES if signed else 0, SHADES + 1)
    cell = 2 if signed else 4
    ends = {"−1": 0, "0": SHADES, "1": 2 * SHADES} if signed else {"0": 0, "1": SHADES}
    return join(
        [
            heat([[shade / SHADES for shade in shades]], x, y, cell, 10),
            *(
                text(label, x + (place + 0.5) * cell, y + 26, "axis", "small", "middle")
                for label, place in ends.items()
            ),
        ]
    )


@dataclass(frozen=True)
class Frame:
    """A pair of axes for curves."""

    x: Scale
    y: Scale

    def axes(self, across: str, up: str, across_ticks: Sequence[float] = (), most: int = 6) -> Markup:
        """Draw grid lines, numbers, and the labels: `up` above the frame, `across` below."""
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        return join(
            [
                self.y.levels(left, right, most),
                element("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="base"),
                *(
                    text(tick(value), self.x(value), bottom + 18, "axis", "middle")
                    for value in across_ticks or self.x.ticks()
                ),
                text(across, right, bottom + 36, "axis", "unit", "end"),
                text(up, left - 30, top - 16, "name"),
            ]
        )

    def curve(self, points: Iterable[Point], colour: str, *kinds: str) -> Markup:
        return path(((self.x(x), self.y(y)) for x, y in points), "curve", f"{colour}-line", *kinds)

    def dots(self, points: Iterable[Point], colour: str, radius: float = 3) -> Markup:
        return join(
            element("circle", cx=float(self.x(x)), cy=float(self.y(y)), r=float(radius), class_=colour)
            for x, y in points
        )

    def note(self, content: str, x: float, y: float, *kinds: str, up: float = 0) -> Markup:
        """Draw a text at a point of the frame, `up` pixels above it."""
        return text(content, self.x(x), self.y(y) - up, *kinds)

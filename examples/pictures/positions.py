"""Positions: sinusoids, their rotation, and two kinds that depend only on the distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from examples.pictures.paper import Frame, Point, box, heat, heat_key, path, picture, text, upright, whole
from seqwright.nn.masks import AttentionContext, Places
from seqwright.nn.positions import Alibi, Shaw, Sinusoidal
from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale
from seqwright.runs.report.wording import tick


def sinusoid_vectors(size: int, count: int) -> Tensor:
    """Return the vectors of the first positions, (count, size)."""
    return Sinusoidal(size=size).double().vectors(Places.run(0, count))


def sinusoids() -> str:
    size, count, cell, left, top = 48, 90, 6, 62, 50
    values = sinusoid_vectors(size, count).T.tolist()
    right, bottom = left + count * cell, top + size * cell
    turns = {place: 2 * math.pi * 10000 ** (place / size) for place in range(0, size, 12)}
    return picture(
        bottom + 82,
        "Sinusoidal positions",
        f"A heat map of {count} positions across and {size} dimensions down. The first dimensions swing "
        "fast, one period in about 6 positions; further down the waves grow longer, up to thousands of "
        "positions, so that the last rows hardly change.",
        text("dimension", 14, top - 16, "name"),
        text("period", right + 8, top - 16, "axis", "small"),
        heat(values, left, top, cell, cell),
        *(text(str(place), left - 8, top + (place + 1) * cell + 1, "axis", "end") for place in turns),
        *(
            text(f"{_few_digits(turn)} tokens", right + 8, top + (place + 1) * cell + 1, "small")
            for place, turn in turns.items()
        ),
        *(text(str(p), left + (p + 0.5) * cell, bottom + 18, "axis", "middle") for p in range(0, count, 10)),
        text("position", right, bottom + 36, "axis", "unit", "end"),
        heat_key(left, bottom + 40, signed=True),
    )


def _few_digits(value: float) -> str:
    return f"{value:.1f}" if value < 10 else tick(float(f"{value:.2g}"))


def rotation() -> str:
    shift, distance, firsts = 3, 60, (0, 20, 100)
    frame = Frame(Scale(0, distance, 62, 600), Scale(0, 40, 484, 314))
    line, *others = (_products(64, first, distance) for first in firsts)
    dotted = zip(
        others, ("two", "three"), (0, 2), strict=True
    )  # alternating, because they lie on the same line
    return picture(
        534,
        "Sinusoids rotate",
        "Three circles, one for each of the first three pairs of dimensions. The positions 0 to 12 are "
        f"points on each circle; moving {shift} positions is the same rotation from position 1 as from "
        "position 8, large in the first pair and small in the third. Below, the dot product of two "
        "positions falls with their distance, and it does not depend on the first of them: the points "
        "for the positions 0, 20 and 100 lie on one line.",
        *(_circle(pair, shift, 125 + 225 * pair, 160) for pair in range(3)),
        frame.axes("distance", "dot product of position p and position p + distance"),
        frame.curve(line, "one"),
        *(frame.dots(points[start::4], colour, 4) for points, colour, start in dotted),
        text(f"p = {firsts[0]}", 612, 348, "name", "one"),
        text(f"p = {firsts[1]}", 612, 370, "name", "two"),
        text(f"p = {firsts[2]}", 612, 392, "name", "three"),
    )


def _products(size: int, first: int, distance: int) -> list[Point]:
    """Return (k, PE(first)·PE(first + k)) for each k up to `distance`."""
    vectors = sinusoid_vectors(size, first + distance + 1)
    return [(float(k), float(vectors[first] @ vectors[first + k])) for k in range(distance + 1)]


def _circle(pair: int, shift: int, x: float, y: float) -> Markup:
    """Draw the pair (cos, sin) of positions 0 to 12 of 16 dimensions, and two steps of `shift` positions."""
    radius, speed = 80.0, 10000 ** (-2 * pair / 16)
    vectors = sinusoid_vectors(16, 13)[:, 2 * pair : 2 * pair + 2].tolist()
    places = [(x + radius * cos, y - radius * sin) for sin, cos in vectors]
    turns = (
        _turn(speed * first, speed * shift, (x, y), inner, colour)
        for first, inner, colour in ((1, 44.0, "one"), (8, 60.0, "two"))
    )
    angle = math.degrees(shift * speed)
    return join(
        [
            text(f"dimensions {2 * pair} and {2 * pair + 1}", x, 28, "name", "middle"),
            text(f"{shift} positions: {angle:.0f}°", x, 46, "axis", "small", "middle"),
            element("circle", cx=x, cy=y, r=radius, class_="grid", fill="none"),
            *turns,
            *(element("circle", cx=left, cy=top, r=3.0, class_="soft") for left, top in places),
            *(
                element("circle", cx=places[p][0], cy=places[p][1], r=4.5, class_=colour)
                for p, colour in ((1, "one"), (4, "one"), (8, "two"), (11, "two"))
            ),
            *(_label(p, vectors[p], (x, y), radius + 15) for p in (1, 4, 8, 11)),
        ]
    )


def _label(position: int, vector: list[float], centre: Point, radius: float) -> Markup:
    sin, cos = vector
    return text(str(position), centre[0] + radius * cos, centre[1] - radius * sin + 4, "small", "middle")


def _turn(start: float, angle: float, centre: Point, radius: float, colour: str) -> Markup:
    """Draw a sector of a circle, counter-clockwise from `start`."""
    x, y = centre
    ways = [start + angle * k / 30 for k in range(31)]
    arc = [(x + radius * math.cos(way), y - radius * math.sin(way)) for way in ways]
    return path([centre, *arc, centre], "curve", f"{colour}-line")


def relative() -> str:
    return picture(
        390,
        "Only the distance",
        "Left, ALiBi: eight rows, one for each head, over distances from 0 to 24. The first head ignores "
        "keys that are more than a few positions away, the last one weights all distances almost equally. "
        "Right, Shaw: a table of 9 queries and 9 keys; each cell has the clipped distance, from minus 3 "
        "to 3, which selects the learned vector.",
        _alibi(62, 96),
        _shaw(434, 96),
    )


def _alibi(left: float, top: float) -> Markup:
    heads, distances, width, height = 8, 25, 12, 26
    context, keys = AttentionContext(Places.run(distances - 1, 1)), Places.run(0, distances)
    alibi = Alibi(heads=heads).double()
    bias = alibi.bias(torch.zeros(1, heads, 1, 1).double(), context, keys)[0, :, 0].flip(-1)  # (H, distance)
    bottom = top + heads * height
    return join(
        [
            text("ALiBi", left - 46, 28, "name"),
            text("a weight is multiplied by exp(−slope · distance)", left - 46, 46, "axis", "small"),
            text("slope", left - 8, top - 12, "axis", "small", "end"),
            heat(bias.exp().tolist(), left, top, width, height),
            *(
                text(f"1/{round(1 / slope)}", left - 8, top + (head + 0.5) * height + 4, "axis", "end")
                for head, slope in enumerate(alibi.slopes.flatten().tolist())
            ),
            *(
                text(str(k), left + (k + 0.5) * width, bottom + 18, "axis", "middle")
                for k in range(0, distances, 6)
            ),
            text("distance", left + distances * width, bottom + 36, "axis", "unit", "end"),
            heat_key(left, bottom + 40),
        ]
    )


def clipped_distances(count: int, limit: int) -> list[list[int]]:
    """Return what Shaw's bias selects for each query and key if its table holds the distances themselves."""
    shaw = Shaw(heads=1, key_size=1, value_size=1, distance=limit)
    shaw.key_table.data = torch.arange(-limit, limit + 1.0).view(1, -1, 1)
    places = Places.run(0, count)
    with torch.no_grad():
        return shaw.bias(torch.ones(1, 1, count, 1), AttentionContext(places), places)[0, 0].long().tolist()


def _shaw(left: float, top: float) -> Markup:
    count, limit, cell = 9, 3, 26
    clipped, numbers = clipped_distances(count, limit), range(count)
    return join(
        [
            text(f"Shaw, distance = {limit}", left - 40, 28, "name"),
            text("which learned vector is added", left - 40, 46, "axis", "small"),
            text("key", left + count * cell / 2, top - 28, "axis", "unit", "middle"),
            upright("query", left - 30, top + count * cell / 2, "axis", "unit", "middle"),
            *(text(str(n), left + (n + 0.5) * cell, top - 8, "axis", "small", "middle") for n in numbers),
            *(text(str(n), left - 8, top + (n + 0.5) * cell + 4, "axis", "small", "end") for n in numbers),
            *(
                _distance(clipped[row][column], limit, left + column * cell, top + row * cell, cell)
                for row in numbers
                for column in numbers
            ),
        ]
    )


def _distance(distance: int, limit: int, x: float, y: float, cell: float) -> Markup:
    colour, strength = "one" if distance > 0 else "two", 0.55 * abs(distance) / limit
    sides = (x + 1, y + 1, cell - 2, cell - 2)
    return join(
        [
            box(*sides, "panel"),
            box(*sides, colour, strength) if distance else None,
            text(whole(distance), x + cell / 2, y + 17, "small", "middle"),
        ]
    )

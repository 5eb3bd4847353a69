"""A small translation model: its attention, head by head, and its beam search."""

from __future__ import annotations

import math
from collections.abc import Iterator

from examples.pictures.paper import Point, box, heat, picture, text
from examples.pictures.toy import BEAM, SEARCHED, Candidate, Toy, toy
from seqwright.lens.trace.document import Kind
from seqwright.runs.report.markup import Markup, element, join

LEAST = 0.04  # lower weights are not drawn as lines
BEGIN, FIRST, NODE, PITCH = 46.0, 82.0, 103.0, 124.0  # the columns of a beam, in pixels
FAINT, STRONG = 0.06, 0.55  # opacity of a cell: numbers are legible on both, in light and dark


def mean_of_heads(seen: Toy, kind: Kind) -> list[list[float]]:
    """Return the mean weights, (queries, keys)."""
    heads = seen.attention[kind]
    return [
        [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
        for rows in zip(*heads, strict=True)
    ]


def attention_lines() -> str:
    seen = toy()
    width, top, bottom = 660 / len(seen.source), 58, 222
    above, below = (
        [20 + (place + 0.5) * 660 / len(words) for place in range(len(words))]
        for words in (seen.source, seen.output)
    )
    links = (
        _link((below[query], bottom - 18), (above[key], top + 8), weight, width)
        for query, row in enumerate(mean_of_heads(seen, "cross"))
        for key, weight in enumerate(row)
        if weight >= LEAST
    )
    return picture(
        270,
        "Attention as lines",
        "An English sentence above, its French translation below, and lines from each French word to the "
        "English words it attends to; a wider line is a larger weight. Noun and adjective cross: noir "
        "attends to black, chien to dog, blanche to white, maison to house. The articles le and la attend "
        "to the, and also to their nouns, whose gender they need. The model is small; "
        f"{100 * seen.right:.0f} per cent of new sentences with a single possible translation are "
        "translated correctly.",
        text("source", 20, 28, "axis", "unit"),
        *links,
        *(text(word, x, top, "middle") for word, x in zip(seen.source, above, strict=True)),
        *(text(word, x, bottom, "middle") for word, x in zip(seen.output, below, strict=True)),
        text("output", 20, bottom + 28, "axis", "unit"),
    )


def _link(start: Point, end: Point, weight: float, width: float) -> Markup:
    (x1, y1), (x2, y2) = start, end
    middle = (y1 + y2) / 2
    return element(
        "path",
        d=f"M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}",
        class_="one-line",
        stroke_width=width / 8 * weight,
        stroke_opacity=0.25 + 0.65 * weight,
    )


def attention_matrix() -> str:
    seen = toy()
    left, top, wide, high = 86, 66, 54, 30
    weights = mean_of_heads(seen, "cross")
    return picture(
        top + high * len(seen.output) + 24,
        "Attention as a matrix",
        "The same weights in per cent: a row for each French word, a column for each English word. Up to "
        "rounding every row sums to 100. The large numbers lie near the diagonal, and off it where noun and "
        "adjective are swapped.",
        text("source →", left + 8, 28, "axis", "unit"),
        text("output ↓", left - 10, top - 10, "axis", "unit", "end"),
        *(text(word, left + (n + 0.5) * wide, top - 10, "middle") for n, word in enumerate(seen.source)),
        *(text(word, left - 10, top + (n + 0.5) * high + 4, "end") for n, word in enumerate(seen.output)),
        *(
            _weight(weight, left + column * wide, top + row * high, wide, high)
            for row, line in enumerate(weights)
            for column, weight in enumerate(line)
        ),
    )


def _weight(weight: float, x: float, y: float, wide: float, high: float) -> Markup:
    percent = round(100 * weight)
    sides = (x + 1, y + 1, wide - 2, high - 2)
    return join(
        [
            box(*sides, "panel"),
            box(*sides, "one", FAINT + (STRONG - FAINT) * weight) if percent else None,
            text(str(percent), x + wide / 2, y + high / 2 + 4, "small", "middle") if percent else None,
        ]
    )


def head_wall() -> str:
    seen = toy()
    read_before = ["begin", *seen.output[:-1]]
    kinds: tuple[tuple[Kind, str, list[str]], ...] = (
        ("enc", "Encoder self-attention", seen.source),
        ("dec", "Decoder self-attention", read_before),
        ("cross", "Cross-attention: from the output to the source", seen.output),
    )
    return picture(
        3 * 196 + 20,
        "A wall of heads",
        "Twelve heat maps, four heads of each of the three attentions of a small model; rows are queries, "
        "columns are keys. In the encoder, words attend mostly within their own phrase. In the decoder, "
        "all weights lie on or below the diagonal. The cross-attention heads follow the words of the "
        "source, including the changes of word order.",
        *(_heads(seen, kind, title, words, 196.0 * row) for row, (kind, title, words) in enumerate(kinds)),
    )


def _heads(seen: Toy, kind: Kind, title: str, words: list[str], y: float) -> Markup:
    cell, left, top = 12, 80, y + 56
    parts = [text(title, 20, y + 26, "name")]
    parts += [text(word, left - 8, top + (n + 0.5) * cell + 4, "tiny", "end") for n, word in enumerate(words)]
    for head, (weights, role) in enumerate(zip(seen.attention[kind], seen.roles[kind], strict=True)):
        x = left + head * (len(words) * cell + 18)
        parts += [text(role, x, top - 8, "axis", "small"), heat(weights, x, top, cell, cell)]
    return join(parts)


def beam_tree() -> str:
    found = toy().candidates
    places = dict(_places(found))
    won, greedy = set(path_to(found, best_end(found))), set(greedy_path(found))
    parts = [
        _branch(places[one.parent], places[number], one, number in won, number in greedy)
        for number, one in enumerate(found)
        if one.parent is not None
    ]
    parts += [_node(places[number], one, number in won) for number, one in enumerate(found)]
    return picture(
        402,
        "A beam search",
        f"A tree from left to right: the candidates of each step of a beam of {BEAM}, best first, for the "
        f"sentence {SEARCHED}. After le, chien is more probable than grand, but its continuation is "
        "uncertain; le grand chien dort wins with a probability of "
        f"{_probability(found[best_end(found)])}, and greedy search, which would have followed chien, ends "
        f"at {_probability(found[max(greedy)])}. Grey candidates were dropped, with their rank.",
        text(f"“{SEARCHED}”, a beam of {BEAM}", 14, 28, "name"),
        text("beam search", 560, 28, "name", "one", "end"),
        text("greedy search", 684, 28, "name", "two", "end"),
        *(
            text(f"step {n}", FIRST + PITCH * (n - 1), 56, "axis", "small")
            for n in range(1, found[-1].step + 1)
        ),
        *parts,
    )


def _places(found: list[Candidate]) -> Iterator[tuple[int, Point]]:
    """Yield the upper left corner of each candidate: a column per step, best first."""
    rows: dict[int, int] = {}
    for number, one in enumerate(found):
        row = rows[one.step] = rows.get(one.step, -1) + 1
        yield number, ((14.0, 66.0) if one.step == 0 else (FIRST + PITCH * (one.step - 1), 66.0 + 55 * row))


def best_end(found: list[Candidate]) -> int:
    finished = [number for number, one in enumerate(found) if one.fate == "finished"]
    return max(finished, key=lambda number: found[number].log_prob)


def path_to(found: list[Candidate], number: int | None) -> Iterator[int]:
    while number is not None:
        yield number
        number = found[number].parent


def greedy_path(found: list[Candidate]) -> Iterator[int]:
    """Yield the most probable child, then its most probable child, and so on."""
    here: int | None = 0
    while here is not None:
        yield here
        children = [number for number, one in enumerate(found) if one.parent == here]
        here = max(children, key=lambda number: found[number].log_prob, default=None)


def _branch(start: Point, end: Point, one: Candidate, won: bool, greedy: bool) -> Markup:
    x1, y1, x2, y2 = start[0] + (BEGIN if one.step == 1 else NODE), start[1] + 20, end[0], end[1] + 20
    middle = (x1 + x2) / 2
    colour = "line" if one.fate == "dropped" else "one" if won else "two" if greedy else "soft"
    return element(
        "path",
        d=f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}",
        class_=f"{colour}-line",
        stroke_width=1.5 if one.fate == "dropped" else 1.5 + 4 * math.exp(one.log_prob),
    )


def _node(place: Point, one: Candidate, won: bool) -> Markup:
    x, y = place
    if one.step == 0:
        return join([box(x, y, BEGIN, 40, "panel"), text(one.word, x + BEGIN / 2, y + 24, "soft", "middle")])
    dropped = one.fate == "dropped"
    ink = "soft" if dropped else "ink"
    return join(
        [
            box(x, y, NODE, 40, "panel"),
            box(x, y, NODE, 40, "one", 0.3) if won else None,
            text(one.word, x + 7, y + 17, ink, *(() if dropped else ("name",))),
            text(_probability(one), x + NODE - 6, y + 17, ink, "small", "end"),
            text(_reason(one), x + 7, y + 33, "soft", "tiny"),
        ]
    )


def _probability(one: Candidate) -> str:
    share = math.exp(one.log_prob)
    return f"{share:.2f}" if share >= 0.005 else "≈ 0"


def _reason(one: Candidate) -> str:
    if one.fate == "finished":
        return "finished"
    return one.reason if one.reason.startswith("rank") else "too late to win"

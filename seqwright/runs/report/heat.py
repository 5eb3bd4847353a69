"""A confusion matrix: one cell per pair of symbols, darker where the confusion is more frequent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from seqwright.evaluation.mistakes import Confusion
from seqwright.evaluation.wording import glyph
from seqwright.runs.report.markup import Markup, drawing, element, join, tip

MOST = 14  # symbols on each side
CELL, LEFT, TOP = 30, 78, 48
SHORT, LONGEST = 5, 18  # characters of a name that fit above a column; of one that is written slanted
LETTER = 7.8  # width of a character
FAINTEST, STRONGEST = 0.08, 0.55  # opacities: the count is legible on both, in light and dark
SIZE = {"width": CELL - 2, "height": CELL - 2, "rx": 3}


def heat_map(description: str, confusions: Sequence[Confusion]) -> Markup:
    """Draw expected symbols as rows and symbols of the output as columns, the most confused first."""
    rows = _commonest((each.expected, each.count) for each in confusions)
    columns = _commonest((each.output, each.count) for each in confusions)
    shown = [each for each in confusions if each.expected in rows and each.output in columns]
    rows = [symbol for symbol in rows if any(each.expected == symbol for each in shown)]
    columns = [symbol for symbol in columns if any(each.output == symbol for each in shown)]
    return grid(description, rows, columns, shown)


def grid(description: str, rows: Sequence[str], columns: Sequence[str], found: Sequence[Confusion]) -> Markup:
    """Draw counts in given rows and columns; what is right has a colour of its own."""
    longest = min(max((len(glyph(name)) for name in (*rows, *columns)), default=0), LONGEST)
    left, top, limit = LEFT, TOP, SHORT
    if longest > SHORT:  # the names of columns are slanted
        left, top, limit = round(30 + longest * LETTER), round(40 + longest * LETTER * 0.6), LONGEST
    most = {
        right: max([1, *(each.count for each in found if each.right == right)]) for right in (True, False)
    }
    lefts = [left + CELL * place + 1 for place in range(len(columns))]
    tops = [top + CELL * place + 1 for place in range(len(rows))]
    x_of, y_of = dict(zip(columns, lefts, strict=True)), dict(zip(rows, tops, strict=True))
    return drawing(
        max(left + CELL * len(columns) + (longest * LETTER * 0.6 if longest > SHORT else 10), 420),
        top + CELL * len(rows) + 4,
        description,
        element("text", "output →", x=left + 8, y=12, class_="axis unit"),
        element("text", "expected ↓", x=left - 10, y=top - 14, class_="axis end unit"),
        *(_column(symbol, x + CELL / 2 - 1, top - 14, limit) for symbol, x in x_of.items()),
        *(_label(symbol, left - 10, y + CELL / 2 + 4, "end", limit) for symbol, y in y_of.items()),
        *(element("rect", x=x, y=y, **SIZE, class_="track") for y in tops for x in lefts),
        *(_cell(each, x_of[each.output], y_of[each.expected], most[each.right]) for each in found),
    )


def _commonest(counts: Iterable[tuple[str, int]]) -> list[str]:
    totals: Counter[str] = Counter()
    for symbol, count in counts:
        totals[symbol] += count
    return [symbol for symbol, _ in totals.most_common(MOST)]


def _column(symbol: str, x: float, y: float, limit: int) -> Markup:
    if limit == SHORT:
        return _label(symbol, x, y, "middle", limit)
    return element("g", _label(symbol, 0, 0, "", limit), transform=f"translate({x:g} {y + 8:g}) rotate(-40)")


def _label(symbol: str, x: float, y: float, anchor: str, limit: int) -> Markup:
    shown = glyph(symbol)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return element("text", shown, x=x, y=y, class_=f"symbol {anchor}".strip())


def _cell(each: Confusion, x: float, y: float, most: int) -> Markup:
    # square root: a few confusions are far more frequent than the others
    strength = FAINTEST + (STRONGEST - FAINTEST) * math.sqrt(each.count / most)
    text = f"{glyph(each.output)} instead of {glyph(each.expected)}: {each.count:,}"
    if each.right:
        text = f"{glyph(each.output)}, right: {each.count:,}"
    box = tip("rect", text, x=x, y=y, **SIZE, class_="three" if each.right else "one", fill_opacity=strength)
    count = element("text", f"{each.count:,}", x=x + CELL / 2 - 1, y=y + CELL / 2 + 3, class_="count middle")
    return join([box, count])

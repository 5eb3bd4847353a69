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
FAINTEST, STRONGEST = 0.08, 0.55  # opacities: the count is legible on both, in light and dark
SIZE = {"width": CELL - 2, "height": CELL - 2, "rx": 3}


def heat_map(description: str, confusions: Sequence[Confusion]) -> Markup:
    """Draw expected symbols as rows and symbols of the output as columns, the most confused first."""
    rows = _commonest((each.expected, each.count) for each in confusions)
    columns = _commonest((each.output, each.count) for each in confusions)
    shown = [each for each in confusions if each.expected in rows and each.output in columns]
    rows = [symbol for symbol in rows if any(each.expected == symbol for each in shown)]
    columns = [symbol for symbol in columns if any(each.output == symbol for each in shown)]
    most = max([1, *(each.count for each in shown)])
    lefts = [LEFT + CELL * place + 1 for place in range(len(columns))]
    tops = [TOP + CELL * place + 1 for place in range(len(rows))]
    return drawing(
        max(LEFT + CELL * len(columns) + 10, 420),
        TOP + CELL * len(rows) + 4,
        description,
        element("text", "output →", x=LEFT + 8, y=12, class_="axis unit"),
        element("text", "expected ↓", x=LEFT - 10, y=TOP - 14, class_="axis end unit"),
        *(_label(symbol, LEFT + CELL * (i + 0.5), TOP - 14, "middle") for i, symbol in enumerate(columns)),
        *(_label(symbol, LEFT - 10, TOP + CELL * (i + 0.5) + 5, "end") for i, symbol in enumerate(rows)),
        *(element("rect", x=x, y=y, **SIZE, class_="track") for y in tops for x in lefts),
        *(_cell(each, rows.index(each.expected), columns.index(each.output), most) for each in shown),
    )


def _commonest(counts: Iterable[tuple[str, int]]) -> list[str]:
    totals: Counter[str] = Counter()
    for symbol, count in counts:
        totals[symbol] += count
    return [symbol for symbol, _ in totals.most_common(MOST)]


def _label(symbol: str, x: float, y: float, anchor: str) -> Markup:
    shown = glyph(symbol)
    return element("text", shown if len(shown) <= 5 else shown[:4] + "…", x=x, y=y, class_=f"symbol {anchor}")


def _cell(each: Confusion, row: int, column: int, most: int) -> Markup:
    x, y = LEFT + CELL * column, TOP + CELL * row
    # square root: a few confusions are far more frequent than the others
    strength = FAINTEST + (STRONGEST - FAINTEST) * math.sqrt(each.count / most)
    text = f"{glyph(each.output)} instead of {glyph(each.expected)}: {each.count:,}"
    box = tip("rect", text, x=x + 1, y=y + 1, **SIZE, class_="one", fill_opacity=strength)
    count = element("text", f"{each.count:,}", x=x + CELL / 2, y=y + CELL / 2 + 4, class_="count middle")
    return join([box, count])

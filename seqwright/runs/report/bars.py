"""Charts of counts and shares: columns for ordered values, horizontal bars for named ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seqwright.runs.report.markup import Markup, drawing, element, tip
from seqwright.runs.report.scale import Scale, round_step

WIDTH = 540
LEFT, RIGHT, TOP, BASE, BOTTOM = 46, 12, 12, 172, 200  # of a column chart
ROW, NAMES, COUNTS = 26, 130, 108  # of a bar chart: height of a row, width of names and notes
MOST_COLUMNS = 40
TAIL = 0.005  # the share of the longest texts that share the last column
FEW = 30  # items; a score of fewer is unreliable


@dataclass(frozen=True)
class Bar:
    """A bar or a column: name (may be empty), value, and a note or tooltip; a faint one is unreliable."""

    name: str
    value: float
    note: str
    faint: bool = False


def column_chart(description: str, columns: Sequence[Bar], below: str = "") -> Markup:
    y = Scale.around((column.value for column in columns), BASE, TOP, zero=True, log=False)
    room = (WIDTH - LEFT - RIGHT) / max(len(columns), 1)
    wide = min(room * 0.82, 30.0)
    parts = []
    for number, column in enumerate(columns):
        middle = LEFT + room * (number + 0.5)
        top = min(y(column.value), BASE - 1.0) if column.value else float(BASE)  # a single text stays visible
        box = {"x": middle - wide / 2, "y": top, "width": wide, "height": BASE - top, "rx": 1.5}
        parts.append(tip("rect", column.note, class_="one", **box))
        if column.name:
            parts.append(element("text", column.name, x=middle, y=BASE + 17, class_="axis middle"))
    return drawing(
        WIDTH,
        BOTTOM + (14 if below else 0),
        description,
        y.levels(LEFT, WIDTH - RIGHT, 5),
        *parts,
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=BASE, y2=BASE, class_="base"),
        element("text", below, x=WIDTH - RIGHT, y=BOTTOM + 8, class_="axis end unit") if below else None,
    )


def length_columns(counts: Mapping[int, int]) -> list[Bar]:
    """Group lengths into at most MOST_COLUMNS columns of a round width; a long tail shares the last one."""
    total, passed, end = sum(counts.values()), 0, 0
    for end in sorted(counts):
        passed += counts[end]
        if passed >= (1 - TAIL) * total:
            break
    width = max(1, round(round_step(max(end, 1) / MOST_COLUMNS)))
    labelled = max(1, round(round_step(max(end, 1) / 8) / width)) * width
    grouped: Counter[int] = Counter()
    for length, count in counts.items():
        grouped[length // width] += count
    columns = []
    for low in range(min(counts) // width * width, end + 1, width):
        count, span = grouped[low // width], f"{low}" if width == 1 else f"{low}–{low + width - 1}"
        columns.append(Bar(str(low) if low % labelled == 0 else "", count, f"{span}: {count:,}"))
    if rest := sum(count for length, count in counts.items() if length >= low + width):
        columns.append(Bar("more", rest, f"{low + width} or more: {rest:,}"))
    return columns


def bar_chart(description: str, bars: Sequence[Bar], most: float) -> Markup:
    """Draw bars on a scale from 0 to `most`."""
    x = Scale(0.0, most or 1.0, NAMES, WIDTH - COUNTS)
    parts = []
    for row, bar in enumerate(bars):
        top, end = row * ROW + 5, x(min(bar.value, x.high))
        name = bar.name if len(bar.name) <= 20 else f"{bar.name[:19]}…"
        shade = "one faint" if bar.faint else "one"
        parts += [
            element("text", name, x=NAMES - 10, y=top + 13, class_="axis end name"),
            tip("rect", bar.name, x=NAMES, y=top, width=WIDTH - COUNTS - NAMES, height=16, class_="track"),
            element("rect", x=NAMES, y=top, width=max(end - NAMES, 1.0), height=16, rx=1.5, class_=shade),
            element("text", bar.note, x=WIDTH - COUNTS + 10, y=top + 13, class_="axis"),
        ]
    return drawing(WIDTH, len(bars) * ROW + 8, description, *parts)


def split_bar(description: str, parts: Mapping[str, int]) -> Markup:
    """Draw one bar, divided into shares; an empty share has no width but keeps its tooltip."""
    x = Scale(0.0, float(sum(parts.values()) or 1), 0.0, float(WIDTH))
    shapes, begin = [], 0
    for (name, count), colour in zip(parts.items(), ("one", "two", "three"), strict=False):
        left, right = x(begin), x(begin + count)
        box = {"x": left, "y": 4.0, "width": max(right - left - 2, 0.0), "height": 22, "rx": 2}
        shapes.append(tip("rect", f"{name}: {count:,}", class_=colour, **box))
        begin += count
    return drawing(WIDTH, 30, description, *shapes)


def whisker(description: str, value: float, low: float | None, high: float | None) -> Markup:
    """Draw a score and its interval on a line from 0 to 100; values beyond are drawn at its end."""
    x = Scale(0.0, 100.0, 6.0, 234.0)
    parts = [element("line", x1=x.start, x2=x.end, y1=12, y2=12, class_="rail")]
    for mark, anchor in ((0, "start"), (50, "middle"), (100, "end")):
        parts.append(element("text", str(mark), x=x(mark), y=29, class_=f"axis {anchor}"))
    if low is not None and high is not None:
        left, right = (x(min(max(end, 0.0), 100.0)) for end in (low, high))
        parts.append(element("line", x1=left, x2=right, y1=12, y2=12, class_="interval"))
    parts.append(element("circle", cx=x(min(max(value, 0.0), 100.0)), cy=12, r=5, class_="one"))
    return drawing(240, 30, description, *parts)

"""The value axis that all charts share."""

from __future__ import annotations

from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale
from seqwright.runs.report.wording import tick


def levels(y: Scale, left: float, right: float, most: int) -> Markup:
    """Draw a grid line at each of at most `most` round values, with the value to its left."""
    return join(
        join(
            [
                element("line", x1=left, x2=right, y1=y(value), y2=y(value), class_="grid"),
                element("text", tick(value), x=left - 8, y=y(value) + 4, class_="axis end"),
            ]
        )
        for value in y.ticks(most)
    )

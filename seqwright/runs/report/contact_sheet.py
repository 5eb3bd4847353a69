"""The contact sheet of the report: thumbnails of images, with what was expected and predicted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.reader import Document

GROUPS = {  # in the order of the page
    "best": ("Best", "Correct, or the closest to a reference; the most confident first."),
    "worst": ("Worst", "Wrong; the most confident first."),
    "confused": ("Most confused", "The two most probable outputs are the closest."),
}
_THUMBNAIL = re.compile(r"data:image/(jpeg|png);base64,[A-Za-z0-9+/=]+")


def contact_sheet(pictures: Sequence[Document]) -> Markup | None:
    """Draw the groups of thumbnails, or nothing if there are none."""
    parts = []
    for group, (title, meaning) in GROUPS.items():
        figures = [_figure(each) for each in pictures if each.text("kind") == group]
        if figures:
            legend = element("p", meaning)
            parts += [element("h3", title), legend, element("div", *figures, class_="sheet")]
    return join(parts) if parts else None


def _figure(picture: Document) -> Markup:
    expected, output, chance = picture.text("expected"), picture.text("output"), picture.number("probability")
    source = picture.text("image")
    image = element("img", src=source, alt=expected) if _THUMBNAIL.fullmatch(source) else None
    odds = None if chance is None else element("span", f" {chance:.2f}", class_="times")
    if expected == output:
        text = element("figcaption", output, odds)
    else:
        text = element("figcaption", element("del", output), odds, " ", element("ins", expected))
    return element("figure", image, text, title=picture.text("source"))

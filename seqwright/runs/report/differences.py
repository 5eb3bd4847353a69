"""Two texts with what differs between them marked, symbol by symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import regex
from rapidfuzz.distance import Levenshtein

from seqwright.runs.report.markup import Markup, element, join

Cut = Callable[[str], list[str]]


def cutter(writing: str) -> tuple[Cut, str]:
    """How texts that are written so are compared, and what stands between two symbols: words and symbols
    between spaces, or characters as one sees them (grapheme clusters, UAX #29).
    """
    if writing == "characters":
        return lambda text: regex.findall(r"\X", text), ""
    return str.split, " "


def closest(output: str, references: Sequence[str], cut: Cut) -> str:
    """The reference that needs the fewest edits; of several such the longest, as in the metrics."""
    said = cut(output)
    wanted = [
        (Levenshtein.distance(said, cut(text)), -len(cut(text)), i) for i, text in enumerate(references)
    ]
    return references[min(wanted)[2]]


def marked(old: str, new: str, cut: Cut, between: str) -> tuple[Markup, Markup]:
    """Both texts, with <del> around what only the old one has and <ins> around what only the new one has."""
    before, after = cut(old), cut(new)
    left: list[str] = []
    right: list[str] = []
    for change in Levenshtein.opcodes(before, after):
        lost = between.join(before[change.src_start : change.src_end])
        found = between.join(after[change.dest_start : change.dest_end])
        same = change.tag == "equal"
        if lost:
            left.append(lost if same else element("del", lost))
        if found:
            right.append(found if same else element("ins", found))
    return _whole(left, between), _whole(right, between)


def _whole(parts: list[str], between: str) -> Markup:
    """One text in one direction, its own."""
    return element("bdi", join(parts, between), class_="text")

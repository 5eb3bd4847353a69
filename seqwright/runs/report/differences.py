"""Differences between two texts, marked symbol by symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import regex
from rapidfuzz.distance import Levenshtein

from seqwright.runs.report.markup import Markup, element, join

Cut = Callable[[str], list[str]]


def cutter(writing: str) -> tuple[Cut, str]:
    """Return the function that splits texts into words, symbols or grapheme clusters, and their separator."""
    if writing == "characters":
        return lambda text: regex.findall(r"\X", text), ""
    return str.split, " "


def closest(output: str, references: Sequence[str], cut: Cut) -> str:
    """Return the reference that needs the fewest edits, and of equals the longest, as in the metrics."""
    symbols = cut(output)
    return min(references, key=lambda text: (Levenshtein.distance(symbols, cut(text)), -len(cut(text))))


def marked(old: str, new: str, cut: Cut, between: str) -> tuple[Markup, Markup]:
    """Return both texts, with <del> around what only the old one has and <ins> around the new."""
    before, after = cut(old), cut(new)
    left, right = list[str](), list[str]()
    for change in Levenshtein.opcodes(before, after):
        removed = between.join(before[change.src_start : change.src_end])
        added = between.join(after[change.dest_start : change.dest_end])
        same = change.tag == "equal"
        if removed:
            left.append(removed if same else element("del", removed))
        if added:
            right.append(added if same else element("ins", added))
    # <bdi>: each text keeps its own direction
    old_text, new_text = (element("bdi", join(side, between), class_="text") for side in (left, right))
    return old_text, new_text

"""Pieces that carry the space before them, so that decoding is putting them together.

A text is read with one space in front, which decoding takes away: the first word is then the same as within a
text, and every run of spaces comes back as it was.
"""

from __future__ import annotations

import regex

# Letters with marks, up to three digits, signs, each with the space before; other white space stands alone.
PARTS = r" ?[\p{L}\p{M}]+| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|\s"
# The same, but apostrophes and hyphens within a word belong to it.
WORDS = r" ?[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"

parts_of = regex.compile(PARTS).findall
words_of = regex.compile(WORDS).findall


def spaced(text: str) -> str:
    return " " + text


def unspaced(pieces: list[str]) -> str:
    return "".join(pieces).removeprefix(" ")


def shifted(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in the spaced text as spans in the text."""
    return [(max(0, start - 1), max(0, end - 1)) for start, end in spans]

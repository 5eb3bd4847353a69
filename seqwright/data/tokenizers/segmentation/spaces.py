"""Pieces that include the space before them, so that decoding is concatenation.

Encoding adds a space before the text and decoding removes it, so the first word is like any other.
"""

from __future__ import annotations

import regex

# letters with marks, up to three digits, punctuation, each with the space before; other white space alone
PARTS = r" ?[\p{L}\p{M}]+| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|\s"
# the same, but apostrophes and hyphens within a word belong to it
WORDS = r" ?[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"

parts_of = regex.compile(PARTS).findall
words_of = regex.compile(WORDS).findall


def spaced(text: str) -> str:
    return " " + text


def unspaced(pieces: list[str]) -> str:
    return "".join(pieces).removeprefix(" ")


def shifted(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Convert spans in the spaced text to spans in the text."""
    return [(max(0, start - 1), max(0, end - 1)) for start, end in spans]

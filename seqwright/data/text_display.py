"""Text from files, escaped and shortened for people to read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from itertools import islice

from seqwright.data.fields import as_line

MOST = 60
LISTED = 20
LINE = 500

_OBEYED = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_VISIBLE = {"L", "M", "N", "P", "S"}  # major categories with a shape of their own (Unicode, table 4-4)


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def excerpt(text: str, most: int = MOST) -> str:
    """Return at most `most` characters of a text in quotes, with its fields as in a line of input."""
    start = visible(as_line(text[: most + 1]))
    return f"“{start}”" if len(text) <= most else f"“{start[:most]}…”"


def visible(text: str) -> str:
    """Return the text with escapes for the characters that a terminal would obey or hide: a tab becomes \\t.

    Marks are escaped, too, if they have no letter or could be composed with it.
    """
    if text.isascii() and text.isprintable():
        return text
    lonely = unicodedata.category(text[0])[0] == "M" if text else False
    kept = _VISIBLE - {"M"} if lonely or not unicodedata.is_normalized("NFC", text) else _VISIBLE

    def shown(character: str) -> str:
        if character == " " or unicodedata.category(character)[0] in kept:
            return character
        return character.encode("unicode_escape").decode()

    return "".join(map(shown, text))


def printable(text: str) -> str:
    """Return a line with escapes for the characters that a terminal would obey: controls, line ends and marks
    of direction. Everything that only has an unusual shape stays.
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """Return a text of several lines with escapes for the characters that a terminal would obey."""
    return "\n".join(map(printable, text.split("\n")))


def pluralize(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun: 1 step; 1,228 steps."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def shorten_list(names: Collection[str], most: int = LISTED) -> str:
    """Return the names with commas between them; after `most` names or LINE characters, their number."""
    first: list[str] = []
    for name in islice(names, most):
        shown = visible(name[: MOST + 1])
        first.append(shown if len(shown) <= MOST else f"{shown[:MOST]}…")
        if sum(map(len, first)) > LINE:
            break
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more:,} more" if more else "")

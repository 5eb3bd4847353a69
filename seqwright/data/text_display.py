"""Text from files, escaped and shortened for people to read."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from seqwright.data.fields import as_line

MOST = 60
LISTED = 20

_VISIBLE = {"L", "M", "N", "P", "S"}  # major categories with a shape of their own (Unicode, table 4-4)


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


def pluralize(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun: 1 step; 1,228 steps."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def shorten_list(names: Collection[str], most: int = LISTED) -> str:
    """Return the names with commas between them; after `most` names, only the number of the others."""
    first = list(names)[:most]
    listed = ", ".join(visible(name if len(name) <= MOST else f"{name[:MOST]}…") for name in first)
    return listed if len(names) <= most else f"{listed} and {len(names) - most:,} more"

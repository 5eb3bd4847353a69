"""Texts of others where people read them: what cannot be seen or would move the cursor is escaped, the rest
is cut. And how many there are of something, in words.
"""

from __future__ import annotations

import unicodedata

from seqwright.data.fields import as_line

MOST = 60

_SEEN = {"L", "M", "N", "P", "S"}  # major categories with a shape of their own (Unicode, table 4-4)


def shown(text: str, most: int = MOST) -> str:
    """At most `most` characters of a text, in quotes; its fields as a line of input has them."""
    whole = visible(as_line(text[: most + 1]))
    return f"“{whole}”" if len(text) <= most else f"“{whole[:most]}…”"


def visible(text: str) -> str:
    """The whole text with escapes for what a terminal would obey rather than show: a tab is \\t, as in a
    string of Python and in $'…' of a shell.

    Marks are escaped, too, where they could stand in one character with their letter, or have none.
    """
    if text.isascii() and text.isprintable():
        return text
    lonely = unicodedata.category(text[0])[0] == "M" if text else False
    seen = _SEEN - {"M"} if lonely or not unicodedata.is_normalized("NFC", text) else _SEEN
    return "".join(_visible(character, seen) for character in text)


def _visible(character: str, seen: set[str]) -> str:
    if character == " " or unicodedata.category(character)[0] in seen:
        return character
    if character == "\t":
        return "\\t"
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def amount(count: int, one: str, several: str | None = None) -> str:
    """1 step; 1,228 steps."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"

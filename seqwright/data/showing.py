"""Texts of others in a terminal: what cannot be seen or would move the cursor is escaped, the rest is cut."""

from __future__ import annotations

import unicodedata

from seqwright.data.fields import FIELD, SYMBOL, split_parts

MOST = 60

_SEEN = {"L", "M", "N", "P", "S"}  # major categories with a shape of their own (Unicode, table 4-4)


def shown(text: str, most: int = MOST) -> str:
    """At most `most` characters of a text, in quotes; fields after ` | `, symbols after ` +`."""
    whole = "".join(map(_part, split_parts(text[: most + 1])))
    return f"“{whole}”" if len(text) <= most else f"“{whole[:most]}…”"


def _part(part: str) -> str:
    if part.startswith((FIELD, SYMBOL)):
        return {FIELD: " | ", SYMBOL: " +"}[part[0]] + visible(part[1:])
    return visible(part)


def visible(text: str) -> str:
    """The whole text with escapes for what a terminal would obey rather than show.

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
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

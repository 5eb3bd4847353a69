"""Texts and numbers as terminals show them."""

from __future__ import annotations

import unicodedata

from seqwright.data.text_display import visible


def fitted(text: str, width: int) -> str:
    """Pad or cut a text to `width` terminal columns; wide characters take two."""
    from rich.cells import cell_len, set_cell_size

    text = visible(text)
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def glyph(symbol: str) -> str:
    """Return a visible form of a symbol: a space as ␣, a combining mark on ◌, none as ∅."""
    if not symbol:
        return "∅"
    shown = symbol.replace(" ", "␣")
    return f"◌{shown}" if unicodedata.combining(shown[0]) else shown


def bar(value: float, most: float, width: int) -> str:
    """Return a bar of width · value / most characters, in eighths of a character."""
    eighths = round(8 * width * min(value / most, 1.0)) if most > 0 else 0
    whole, rest = divmod(max(eighths, 0), 8)
    return "█" * whole + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")

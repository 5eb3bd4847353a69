"""Names, texts and numbers as they stand in a terminal and in JSON."""

from __future__ import annotations

from seqwright.data.text_display import visible

NOTHING = "∅"  # where a symbol was left out, or stands where none should


def fitted(text: str, width: int) -> str:
    """A text in exactly so many columns of a terminal, where wide characters take two."""
    from rich.cells import cell_len, set_cell_size

    text = visible(text)
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def symbol(text: str) -> str:
    """One that can be seen."""
    return NOTHING if not text else "␣" if text == " " else text


def bar(value: float, most: float, width: int) -> str:
    """A length that is to `width` as the value is to `most`, in eighths of a character."""
    eighths = round(8 * width * min(value / most, 1.0)) if most > 0 else 0
    whole, rest = divmod(max(eighths, 0), 8)
    return "█" * whole + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")

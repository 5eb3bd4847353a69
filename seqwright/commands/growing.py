"""Texts that are printed as they grow, for the commands that write to a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable

UNFINISHED = "\ufffd"  # in place of a character whose bytes are not all there yet, or are damaged


def print_growing(texts: Iterable[str], before: str = "") -> None:
    """Print what stands before a text, then the text, given again and again as it grows, and a line end; on a
    terminal as it grows, with each character as soon as all its bytes are there.
    """
    from seqwright.data.text_display import printable_lines

    print(before, end="", flush=True)
    shown, text = "", ""
    for text in texts:
        whole = text.rstrip(UNFINISHED)
        if sys.stdout.isatty() and whole.startswith(shown):
            print(printable_lines(whole[len(shown) :]), end="", flush=True)
            shown = whole
    if not text.startswith(shown):  # later tokens changed how earlier ones read
        print(f"\n{before}", end="")
        shown = ""
    print(printable_lines(text[len(shown) :]), flush=True)

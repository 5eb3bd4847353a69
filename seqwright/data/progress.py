"""A count on a terminal while data is read or prepared."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PAUSE = 1.0  # seconds before the first count, and between two


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """Yield the items; on a terminal, show how many there were: "12,288 images checked"."""
    shown, latest = False, time.monotonic()
    try:
        for number, item in enumerate(items, start=1):
            if time.monotonic() - latest >= PAUSE and sys.stderr.isatty():
                print(f"\r{number:,} {what}\033[K", end="", file=sys.stderr, flush=True)
                shown, latest = True, time.monotonic()
            yield item
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

"""Stops: texts that end an output. A client sees the output before the first of them."""

from __future__ import annotations

from collections.abc import Sequence

REPLACEMENT = "\ufffd"  # what the bytes of an incomplete character decode to


class Stops:
    """The stops of one output. It reads each character of the output once, however long they are."""

    def __init__(self, texts: Sequence[str]):
        self._texts = texts
        self._begin()

    def _begin(self) -> None:
        self._read, self._matches = "", [_Match(text) for text in self._texts]

    def visible(self, text: str, *, final: bool = False) -> tuple[str, bool]:
        """Return the output before the stop that is complete first, and whether there is one. Unless the
        output is final, what may still become a stop or a character is left out.
        """
        settled = text if final else text.rstrip(REPLACEMENT)
        if not self._matches:
            return settled, False
        if not settled.startswith(self._read):  # the output has changed
            self._begin()
        for place in range(len(self._read), len(settled)):
            complete = [match.size for match in self._matches if match.take(settled[place])]
            if complete:
                return settled[: place + 1 - max(complete)], True
        self._read = settled
        held = 0 if final else max(match.size for match in self._matches)
        return settled[: len(settled) - held], False


class _Match:
    """How much of a stop the output ends with: `size` characters (Knuth, Morris and Pratt, 1977).

    borders[k]: the size of the longest border of the first k characters of the stop, for every k up to the
    largest `size` so far. So the work follows the output, not the stop.
    """

    def __init__(self, stop: str):
        self.stop, self.size, self.borders = stop, 0, [0, 0]

    def take(self, character: str) -> bool:
        """Read a character of the output; return whether the stop is complete."""
        self.size = self._extended(self.size, character)
        if self.size == len(self.borders):
            self.borders.append(self._extended(self.borders[self.size - 1], character))
        return self.size == len(self.stop)

    def _extended(self, size: int, character: str) -> int:
        """Return the size of the longest match after a character, given that of the match before it."""
        while size and self.stop[size] != character:
            size = self.borders[size]
        return size + (self.stop[size] == character)

"""Repeated sources in bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from seqwright.data.splitting import text_hash

Repeated = Literal["duplicates", "conflicts"]


class Repetitions:
    """Counts sources, repeated pairs, and sources that come again with another target.

    Exact up to `most` distinct sources. Beyond, it keeps those whose hash ends in k zero bits and multiplies
    by 2^k (adaptive sampling, Flajolet 1990): all pairs of a source are kept or none, so the shares stay
    unbiased.
    """

    def __init__(self, most: int = 500_000):
        self.most = most
        self._bits = 0
        self._targets: dict[int, int] = {}  # source -> the hash of its first target
        self._again: dict[Repeated, Counter[int]] = {"duplicates": Counter(), "conflicts": Counter()}

    def add(self, source: str, target: str) -> Repeated | None:
        """What this pair is to those before it."""
        key = text_hash(source)
        if key & ((1 << self._bits) - 1):
            return None
        value = text_hash(target)
        if key not in self._targets:
            self._targets[key] = value
            if len(self._targets) > self.most:
                self._thin_out()
            return None
        kind: Repeated = "duplicates" if self._targets[key] == value else "conflicts"
        self._again[kind][key] += 1
        return kind

    @property
    def sources(self) -> int:
        return len(self._targets) << self._bits

    def counts(self) -> dict[str, int]:
        return {kind: counts.total() << self._bits for kind, counts in self._again.items()}

    def _thin_out(self) -> None:
        self._bits += 1
        mask = (1 << self._bits) - 1
        self._targets = {key: value for key, value in self._targets.items() if not key & mask}
        for kind, counts in self._again.items():
            self._again[kind] = Counter({key: count for key, count in counts.items() if not key & mask})

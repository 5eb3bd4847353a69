"""Duplicate pairs: estimated in bounded memory, or exact from a digest of each pair."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seqwright.data.split import text_hash

DuplicateKind = Literal["duplicates", "conflicts"]
Flags = NDArray[np.bool_]

DIGEST = 16  # bytes: among ten million texts, two have the same digest with a probability of 10^-24
REMEMBERED = 1000  # further targets of one source


class DuplicateCounter:
    """Counts distinct sources, duplicate pairs, and pairs whose source occurred before with other targets.

    Exact up to `most` distinct sources with few targets each. Beyond, it keeps the sources whose hash ends in
    k zero bits and multiplies by 2^k (adaptive sampling, Flajolet 1990). It keeps all pairs of a source or
    none, so the shares stay unbiased.
    """

    def __init__(self, most: int = 500_000):
        self.most = most
        self._bits = 0
        self._targets: dict[int, int] = {}  # hash of a source -> hash of its first target
        self._others: dict[int, set[int]] = {}  # hash of a source -> hashes of its further targets
        self._counts: dict[DuplicateKind, Counter[int]] = {"duplicates": Counter(), "conflicts": Counter()}

    def add(self, source: str, target: str) -> DuplicateKind | None:
        """Count a pair, and return how it relates to the pairs before it."""
        key = text_hash(source)
        if key & ((1 << self._bits) - 1):
            return None
        value = text_hash(target)
        if key not in self._targets:
            self._targets[key] = value
            if len(self._targets) > self.most:
                self._thin_out()
            return None
        known = self._targets[key] == value or value in self._others.get(key, ())
        kind: DuplicateKind = "duplicates" if known else "conflicts"
        if not known and len(others := self._others.setdefault(key, set())) < REMEMBERED:
            others.add(value)
        self._counts[kind][key] += 1
        return kind

    @property
    def sources(self) -> int:
        return len(self._targets) << self._bits

    def counts(self) -> dict[str, int]:
        return {kind: counts.total() << self._bits for kind, counts in self._counts.items()}

    def _thin_out(self) -> None:
        self._bits += 1
        mask = (1 << self._bits) - 1
        self._targets = {key: value for key, value in self._targets.items() if not key & mask}
        self._others = {key: values for key, values in self._others.items() if not key & mask}
        for kind, counts in self._counts.items():
            self._counts[kind] = Counter({key: count for key, count in counts.items() if not key & mask})


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


def duplicate_flags(digests: bytes | bytearray) -> Flags:
    """Return which of the concatenated digests occurred before (N,). Needs about 50 bytes for each."""
    keys, order, new = _grouped(digests)
    flags = np.zeros(len(keys), np.bool_)
    flags[order] = ~new
    return flags


def conflict_flags(sources: bytes | bytearray, pairs: bytes | bytearray) -> Flags:
    """Return which pairs differ from the first pair with their source (N,). Needs about 90 bytes for each."""
    _, order, new = _grouped(sources)
    keys = _keys(pairs)
    first = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    flags = np.zeros(len(order), np.bool_)
    flags[order] = (keys[order] != keys[first]).any(axis=1)
    return flags


def _grouped(digests: bytes | bytearray) -> tuple[NDArray[np.uint64], NDArray[np.intp], Flags]:
    """Return the keys, a stable order that groups equal keys, and where in that order a new key begins."""
    keys = _keys(digests)
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    new = np.zeros(len(keys), np.bool_)
    new[:1] = True
    for half in keys.T:  # one after the other, to save memory
        new[1:] |= half[order[1:]] != half[order[:-1]]
    return keys, order, new


def _keys(digests: bytes | bytearray) -> NDArray[np.uint64]:
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)

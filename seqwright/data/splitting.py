"""Parts for training, validation and test, and what leaks from one into another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from seqwright.data.tally import PLACES_KEPT, Pair, Place
from seqwright.errors import ConfigError

Part = Literal["train", "valid", "test"]


@dataclass(frozen=True)
class Fractions:
    """The shares of the sources that are held out; the rest is for training."""

    valid: float = 0.05
    test: float = 0.05

    def __post_init__(self) -> None:
        if not (self.valid >= 0 and self.test >= 0 and self.valid + self.test < 1):
            raise ConfigError(
                f"fractions valid={self.valid} and test={self.test} must be at least 0 and below 1 together"
            )


@dataclass(frozen=True)
class Overlap:
    """Held-out pairs whose source is also in the training part, and where they stand."""

    held_out: int
    leaked: int
    places: tuple[Place, ...]


def text_hash(text: str, seed: int = 0) -> int:
    """64 bits of a text, the same on every machine and in every run."""
    digest = hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=8, salt=seed.to_bytes(8, "little", signed=True)
    )
    return int.from_bytes(digest.digest(), "little")


def part_of(source: str, seed: int = 0, fractions: Fractions | None = None) -> Part:
    """Where a pair belongs, by its source alone: equal sources stay together, new pairs move no old ones."""
    shares = fractions or Fractions()
    place = text_hash(source, seed) / 2**64
    if place < shares.test:
        return "test"
    return "valid" if place < shares.test + shares.valid else "train"


def overlap(training: Iterable[Pair], held_out: Iterable[Pair]) -> Overlap:
    """Leaks: exact sources in both parts. Memory grows with the held-out part only."""
    waiting: dict[int, list[Place]] = {}
    total = 0
    for pair in held_out:
        waiting.setdefault(text_hash(pair.source), []).append(pair.place)
        total += 1
    leaked: list[Place] = []
    for pair in training:
        leaked += waiting.pop(text_hash(pair.source), ())
    return Overlap(total, len(leaked), tuple(sorted(leaked)[:PLACES_KEPT]))

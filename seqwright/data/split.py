"""Parts for training, validation and test, and what leaks from one into another."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from seqwright.data.read_report import PLACES_KEPT, Pair, Place
from seqwright.errors import ConfigError

Part = Literal["train", "valid", "test"]

NAMES: dict[str, str] = {"train": "training", "valid": "validation", "test": "test"}
ENOUGH = 20  # different sources: of fewer, a share that is held out may be none


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

    def part(self, place: float) -> Part:
        """Of a pair at a place from 0 to 1."""
        if place < self.test:
            return "test"
        return "valid" if place < self.test + self.valid else "train"


@dataclass(frozen=True)
class Overlap:
    """Held-out pairs whose source is also in training, and where they stand; near: but for case or spaces."""

    held_out: int
    leaked: int
    places: tuple[Place, ...]
    near: int = 0
    near_places: tuple[Place, ...] = ()


def text_hash(text: str, seed: int = 0) -> int:
    """64 bits of a text, the same on every machine and in every run."""
    digest = hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=8, salt=seed.to_bytes(8, "little", signed=True)
    )
    return int.from_bytes(digest.digest(), "little")


def place_of(source: str, split: int) -> float:
    """A number from 0 to 1 for a source, evenly spread; another `split` gives it another one."""
    return text_hash(source, split) / 2**64


def part_of(source: str, split: int, fractions: Fractions | None = None) -> Part:
    """Where a pair belongs, by its source alone: equal sources stay together, new pairs move no old ones."""
    return (fractions or Fractions()).part(place_of(source, split))


def divisible(places: Collection[float], *, tested: bool) -> bool:
    """Whether training finds a share to hold out of so few sources: it tries more and more of them until no
    part is empty, and can do without a test; `tested`: there is one elsewhere.
    """

    def parts(share: float) -> set[Part]:
        fractions = Fractions(share, 0.0 if tested else share)
        return {fractions.part(place) for place in places}

    least, *more = (number / 100 for number in range(10, 50))
    return {"train", "valid"} <= parts(least) or any(len(parts(share)) == 3 - tested for share in more)


def folded(text: str) -> str:
    """The text without what case and spaces say."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


class HeldOut:
    """Held-out sources of one part or several, waiting to be met in training. Memory grows with their number
    only.
    """

    def __init__(self, *parts: Iterable[Pair]):
        self._places: list[Place] = []
        self._ends: list[int] = []  # of each part, in numbers of pairs
        self._exact: dict[int, list[int]] = {}
        self._folded: dict[int, list[int]] = {}
        for pairs in parts:
            for number, pair in enumerate(pairs, start=len(self._places)):
                self._places.append(pair.place)
                self._exact.setdefault(text_hash(pair.source), []).append(number)
                self._folded.setdefault(text_hash(folded(pair.source)), []).append(number)
            self._ends.append(len(self._places))
        self._leaked: list[int] = []
        self._near: list[int] = []

    def meet(self, source: str) -> None:
        """A source of training."""
        self._leaked += self._exact.pop(text_hash(source), ())
        self._near += self._folded.pop(text_hash(folded(source)), ())

    def overlaps(self) -> list[Overlap]:
        """One for each part."""
        return [self._overlap(range(*ends)) for ends in pairwise([0, *self._ends])]

    def _overlap(self, part: range) -> Overlap:
        leaked = sorted(number for number in self._leaked if number in part)
        near = sorted(number for number in set(self._near) - set(leaked) if number in part)
        return Overlap(
            held_out=len(part),
            leaked=len(leaked),
            places=self._first(leaked),
            near=len(near),
            near_places=self._first(near),
        )

    def _first(self, numbers: list[int]) -> tuple[Place, ...]:
        return tuple(self._places[number] for number in numbers[:PLACES_KEPT])

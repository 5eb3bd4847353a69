"""The split into training, validation and test examples, and leaks between these parts."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqwright.data.images import archive_above, common_folder, is_archive, is_packed, open_home
from seqwright.data.read_report import PLACES_KEPT, Place
from seqwright.data.readers.files import only_folder
from seqwright.errors import ConfigError

if TYPE_CHECKING:
    from seqwright.config import DataConfig

Part = Literal["train", "valid", "test"]

NAMES: dict[str, str] = {"train": "training", "valid": "validation", "test": "test"}
PARTS: dict[str, Part] = {  # names of files and folders
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "dev", "val"), "valid"),
    **dict.fromkeys(("test", "eval", "t10k"), "test"),
}
FEW = 20  # groups of a stratum; the shares of more groups are exact enough
ENOUGH = 20  # distinct groups: with fewer, a part of the split may be empty


def parts_in(folder: str) -> dict[Part, list[str]]:
    """Return the parts that the files or sub-folders of a folder or an archive are named after, such as
    `train` and `test`; of images in packed files, their parts. They may lie in the only folder that it holds.

    Nothing without a part to hold out, because `train` can be a label, or if two names mean the same part.
    """
    if os.path.isdir(folder):
        folder = only_folder(folder)
        names = sorted(os.listdir(folder))
    elif (is_archive(folder) and os.path.isfile(folder)) or archive_above(folder):
        folder = os.path.normpath(os.path.join(folder, common_folder(open_home(folder).image_names)))
        names = sorted({name.partition("/")[0] for name in open_home(folder).names if "/" in name})
    else:
        return {}
    packed = [name for name in names if is_packed(name)]
    found: dict[Part, list[str]] = {}
    for name in packed or names:
        words = re.split(r"[-_.]" if packed else r"[.]", name.lower())
        part = PARTS.get(words[0], "train" if packed else None)  # data_batch_1.bin
        if part is not None:
            found.setdefault(part, []).append(os.path.join(folder, name))
    once = packed or all(len(paths) == 1 for paths in found.values())
    clear = "train" in found and len(found) > 1 and once
    return dict(sorted(found.items(), key=lambda item: list(NAMES).index(item[0]))) if clear else {}


class SplitRule(StrEnum):
    """How the parts are taken from the training files."""

    BY_GROUP = "by group"  # the hash of its group decides the part of an example
    BY_LABEL = "by label"  # the same, with equal shares of each label
    IN_ORDER = "in order"  # first the training examples, then those for validation, then those for the test
    BY_TIME = "by time"  # the same, by the times of the examples


@dataclass(frozen=True)
class Fractions:
    """The shares of the groups that are held out; the rest is for training."""

    valid: float = 0.05
    test: float = 0.05

    def __post_init__(self) -> None:
        if not (self.valid >= 0 and self.test >= 0 and self.valid + self.test < 1):
            raise ConfigError(
                f"fractions valid={self.valid} and test={self.test} must be at least 0 and below 1 together"
            )

    def part(self, place: float) -> Part:
        """Return the part of a group whose hash is at this place from 0 to 1."""
        if place < self.test:
            return "test"
        return "valid" if place < self.test + self.valid else "train"


def fractions_of(data: DataConfig) -> Fractions:
    """Return the shares of a configuration. A part with files of its own takes nothing from the training
    files.
    """
    if data.rows is not None:
        _, *held_out = (rows / sum(data.rows) for rows in data.rows)
        return Fractions(*held_out)
    valid = 0.0 if data.valid else data.held_out
    return Fractions(valid, 0.0 if data.test or data.valid else data.held_out)


@dataclass(frozen=True)
class Overlap:
    """Held-out examples whose group is also in training, and their places; near: but for case or spaces."""

    held_out: int
    leaked: int
    places: tuple[Place, ...]
    near: int = 0
    near_places: tuple[Place, ...] = ()


def text_hash(text: str, seed: int = 0) -> int:
    """Return 64 bits of a text, the same on every machine and in every run."""
    salt = seed.to_bytes(8, "little", signed=True)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt)
    return int.from_bytes(digest.digest(), "little")


def place_of(group: str, split: int) -> float:
    """Return a number from 0 to 1 for a group, evenly spread, by itself alone: equal groups stay together,
    and new data moves no old ones. Another `split` gives another number.
    """
    return text_hash(group, split) / 2**64


def place_in_order(number: int, count: int) -> float:
    """Return a number from 0 to 1 for an example of `count`: the last ones come first, for the test."""
    return 1 - (number + 0.5) / count


class Strata:
    """Places of groups such that each stratum, such as the texts of one label, is divided by the same shares.

    A group is placed by the rank of its hash among the groups of its stratum: the only group of a stratum is
    for training. The places of few groups are shifted by the hash of their stratum, so that many small strata
    together are divided by the same shares. A group that occurs in several strata belongs to the first one.
    """

    def __init__(self, split: int):
        self.split = split
        self._hashes, self._strata = array("Q"), array("L")
        self._numbers: dict[str, int] = {}

    def add(self, group: str, stratum: str) -> None:
        self._hashes.append(text_hash(group, self.split))
        self._strata.append(self._numbers.setdefault(stratum, len(self._numbers)))

    def places(self) -> StratifiedPlaces:
        hashes, first = np.unique(np.array(self._hashes, dtype=np.uint64), return_index=True)
        strata = np.array(self._strata, dtype=np.int64)[first]
        order = np.argsort(strata, kind="stable")  # within a stratum by hash, as `hashes` is sorted
        counts = np.bincount(strata, minlength=len(self._numbers))
        ranks = np.empty(len(hashes))
        ranks[order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
        drawn = np.array([place_of(stratum, self.split) for stratum in self._numbers])
        shifts = np.where((counts > 1) & (counts < FEW), drawn, 0.5)
        return StratifiedPlaces(self.split, hashes, (ranks + shifts[strata]) / counts[strata])


@dataclass(frozen=True)
class StratifiedPlaces:
    """The place from 0 to 1 of each group, found by its hash."""

    split: int
    hashes: np.ndarray
    values: np.ndarray

    def __call__(self, group: str) -> float:
        return float(self.values[np.searchsorted(self.hashes, np.uint64(text_hash(group, self.split)))])


def divisible(places: Collection[float], *, tested: bool) -> bool:
    """Whether training finds a share of so few groups to hold out: it tries more and more of them until no
    part is empty, and can do without a test split; `tested`: there is a test file.
    """

    def parts(share: float) -> set[Part]:
        fractions = Fractions(share, 0.0 if tested else share)
        return {fractions.part(place) for place in places}

    least, *more = (number / 100 for number in range(10, 50))
    return {"train", "valid"} <= parts(least) or any(len(parts(share)) == 3 - tested for share in more)


def folded(text: str) -> str:
    """Return the text without case and without differences of spaces."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


class HeldOut:
    """Groups of held-out examples, to be found again in training. Memory grows with their number only.

    key: the group of an example.
    """

    def __init__(self, *parts: Iterable[Any], key: Callable[[Any], str] = lambda example: example.source):
        self._places: list[Place] = []
        self._ends: list[int] = []  # of each part, in numbers of examples
        self._exact: dict[int, list[int]] = {}
        self._folded: dict[int, list[int]] = {}
        for examples in parts:
            for number, example in enumerate(examples, start=len(self._places)):
                self._places.append(example.place)
                self._exact.setdefault(text_hash(key(example)), []).append(number)
                self._folded.setdefault(text_hash(folded(key(example))), []).append(number)
            self._ends.append(len(self._places))
        self._leaked: list[int] = []
        self._near: list[int] = []

    def meet(self, group: str) -> None:
        """Note a group of the training data."""
        self._leaked += self._exact.pop(text_hash(group), ())
        self._near += self._folded.pop(text_hash(folded(group)), ())

    def overlaps(self) -> list[Overlap]:
        """Return one overlap for each part."""
        return [self._overlap(range(*ends)) for ends in pairwise([0, *self._ends])]

    def _overlap(self, part: range) -> Overlap:
        def first(numbers: list[int]) -> tuple[Place, ...]:
            return tuple(self._places[number] for number in numbers[:PLACES_KEPT])

        leaked = sorted(number for number in self._leaked if number in part)
        near = sorted(number for number in set(self._near) - set(leaked) if number in part)
        return Overlap(len(part), len(leaked), first(leaked), len(near), first(near))

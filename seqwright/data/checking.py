"""Statistics and findings over a stream of pairs: one pass, bounded memory, before any training.

checker = Checker()
for pair in files.read(tally): checker.add(pair)
report = checker.report()
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from seqwright.data.alignment import lag_in_window
from seqwright.data.exchange import Reservoir, exchanged
from seqwright.data.fields import split_parts
from seqwright.data.findings import TROUBLES, Finding, finding
from seqwright.data.repetition import Repetitions
from seqwright.data.tally import Count, Pair, Place

WINDOW = 500
LONG_ENOUGH = 50
LENGTH_RATIO = 9
RARE = 5

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_MOJIBAKE = re.compile("\ufffd|[ÂÃ][\x80-\xbf]|â€|Ð[\x80-\xbf]")
_SPACING = re.compile(r"^\s|\s\s|\s$")


class Lengths:
    """A distribution of lengths, as exact counts."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, length: int) -> None:
        self.counts[length] += 1

    @property
    def mean(self) -> float:
        return sum(length * count for length, count in self.counts.items()) / max(1, self.counts.total())

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    def quantile(self, share: float) -> int:
        """The smallest length that at least this share of texts do not exceed."""
        needed, seen = share * self.counts.total(), 0
        for length in sorted(self.counts):
            seen += self.counts[length]
            if seen >= needed:
                return length
        return 0


class Side:
    """What one side of the pairs is made of."""

    def __init__(self) -> None:
        self.characters, self.words = Lengths(), Lengths()
        self.alphabet: Counter[str] = Counter()

    def add(self, text: str) -> None:
        self.characters.add(len(text))
        self.words.add(len(text.split()))
        self.alphabet.update("".join(split_parts(text)[::2]))

    @property
    def rare(self) -> list[str]:
        """Characters that come so seldom that a model can hardly learn them."""
        return sorted(character for character, count in self.alphabet.items() if count < RARE)

    @property
    def scripts(self) -> dict[str, float]:
        """Shares of the letters by script, the first word of their Unicode names: LATIN, CYRILLIC, HANGUL."""
        counts: Counter[str] = Counter()
        for character, count in self.alphabet.items():
            if character.isalpha():
                counts[unicodedata.name(character, "UNNAMED").split(" ")[0].split("-")[0]] += count
        return {script: count / counts.total() for script, count in counts.most_common()}


@dataclass(frozen=True)
class Report:
    """What is known about a data set. Counts of repetitions are estimates if sources are very many."""

    pairs: int
    source: Side
    target: Side
    shared_alphabet: float  # of all distinct characters, the share that both sides use
    sources: int
    copies: int
    duplicates: int
    conflicts: int
    findings: tuple[Finding, ...]


class Checker:
    """Takes pairs one by one."""

    def __init__(self) -> None:
        self.pairs = 0
        self.source, self.target = Side(), Side()
        self._seen = {name: Count() for name in TROUBLES}
        self._composed = 0
        self._repetitions = Repetitions()
        self._reservoir = Reservoir()
        self._window: list[Pair] = []

    def add(self, pair: Pair) -> None:
        self.pairs += 1
        source, target, place = pair
        self.source.add(source)
        self.target.add(target)
        for name in _oddities(source, target):
            self._seen[name].add(place)
        self._look_at_accents(source, target, place)
        repeated = self._repetitions.add(source, target)
        if repeated:
            self._seen[repeated].add(place)
        self._reservoir.add(pair)
        self._window.append(pair)
        if len(self._window) == WINDOW:
            self._close_window()

    def report(self) -> Report:
        copies = self._seen["copies"].count
        repeated = self._repetitions.counts()
        swapped = exchanged(self._reservoir.pairs)
        counts = {name: seen.count for name, seen in self._seen.items()} | repeated
        counts["swapped"] = round(len(swapped) * self.pairs / max(1, len(self._reservoir.pairs)))
        if not self._composed:
            counts["mixed_normalisation"] = 0
        places = {name: tuple(seen.places) for name, seen in self._seen.items()}
        places["swapped"] = tuple(pair.place for pair in swapped[:5])
        both = self.source.alphabet.keys() & self.target.alphabet.keys()
        either = self.source.alphabet.keys() | self.target.alphabet.keys()
        return Report(
            pairs=self.pairs,
            source=self.source,
            target=self.target,
            shared_alphabet=len(both) / max(1, len(either)),
            sources=self._repetitions.sources,
            copies=copies,
            duplicates=repeated["duplicates"],
            conflicts=repeated["conflicts"],
            findings=tuple(
                finding(name, count, self.pairs, places[name]) for name, count in counts.items() if count
            ),
        )

    def _look_at_accents(self, source: str, target: str, place: Place) -> None:
        """Texts that NFC would change, and texts that NFD would: only both together are a trouble."""
        texts = [text for text in (source, target) if not text.isascii()]
        if any(not unicodedata.is_normalized("NFC", text) for text in texts):
            self._seen["mixed_normalisation"].add(place)
        elif any(not unicodedata.is_normalized("NFD", text) for text in texts):
            self._composed += 1

    def _close_window(self) -> None:
        lengths = np.array([(len(source), len(target)) for source, target, _ in self._window])
        if lag_in_window(lengths[:, 0], lengths[:, 1]):
            self._seen["misaligned"].add(self._window[0].place)
        self._window = []


def check(pairs: Iterable[Pair]) -> Report:
    checker = Checker()
    for pair in pairs:
        checker.add(pair)
    return checker.report()


def _oddities(source: str, target: str) -> list[str]:
    """The names of what is odd about one pair on its own."""
    both = f"{source}\t{target}"  # one search instead of two; a tab is none of the characters searched for
    found = []
    if source == target:
        found.append("copies")
    if _is_lopsided(len(source), len(target)):
        found.append("length_ratio")
    if '"' in both and (_is_quoted(source) or _is_quoted(target)):
        found.append("quotes")
    if _CONTROLS.search(both):
        found.append("control_characters")
    if not both.isascii():
        if _INVISIBLE.search(both):
            found.append("invisible_characters")
        if _MOJIBAKE.search(both):
            found.append("mojibake")
    if _SPACING.search(source) or _SPACING.search(target):
        found.append("spacing")
    return found


def _is_lopsided(left: int, right: int) -> bool:
    return max(left, right) > LONG_ENOUGH and max(left, right) > LENGTH_RATIO * min(left, right)


def _is_quoted(text: str) -> bool:
    return text.count('"') % 2 == 1 or (len(text) > 1 and text[0] == text[-1] == '"')

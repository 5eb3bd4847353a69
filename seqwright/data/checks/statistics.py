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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqwright.data.checks.duplicates import Repetitions
from seqwright.data.checks.findings import TROUBLES, Finding, finding
from seqwright.data.checks.length_ratio import Proportions
from seqwright.data.checks.misaligned import lag_in_window
from seqwright.data.checks.swapped import Reservoir, exchanged
from seqwright.data.fields import split_parts
from seqwright.data.read_report import EXAMPLES_KEPT, PLACES_KEPT, Count, Pair

WINDOW = 500
MOSTLY = 0.5  # of the pairs in a window
RARE = 5

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069]")
_MOJIBAKE = re.compile("\ufffd|[ÂÃ][\x80-\xbf]|â€|Ð[\x80-\xbf]")
_SPACING = re.compile(r"^\s|\s\s|\s$")
_LATIN = "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02af"
_ALIKE = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγεικνορτυφ\u0400-\u052f"  # Greek letters with a Latin double, and all Cyrillic ones
_MARKS = "[\u02b0-\u036f]*"  # modifier letters and accents, which stand between letters of the IPA
_MIXED = re.compile(
    f"[{_LATIN}]{_MARKS}[{_ALIKE}]|[{_ALIKE}]{_MARKS}[{_LATIN}]"
    rf"|(?:^|\s)[{_LATIN}]{_MARKS}\s[{_ALIKE}]{_MARKS}(?:\s|$)"  # single letters between spaces: phones
)


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

    def to_json(self) -> dict[str, Any]:
        counts = {str(length): self.counts[length] for length in sorted(self.counts)}
        return {"mean": self.mean, "longest": self.longest, "counts": counts}

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

    def to_json(self) -> dict[str, Any]:
        return {
            "characters": self.characters.to_json(),
            "words": self.words.to_json(),
            "alphabet": dict(self.alphabet.most_common()),
            "scripts": self.scripts,
        }

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
                counts[_script(character)] += count
        return {script: count / counts.total() for script, count in counts.most_common()}


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "UNNAMED")
    return "LATIN" if name.endswith("ORDINAL INDICATOR") else name.split(" ")[0].split("-")[0]


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


class Accents:
    """Which of the two ways of writing accents there are: in one character (NFC), or as marks (NFD)."""

    def __init__(self) -> None:
        self.composed, self.marks = False, False

    @property
    def mixed(self) -> bool:
        return self.composed and self.marks

    def add(self, source: str, target: str) -> bool:
        """Whether NFC would change this pair."""
        texts = [text for text in (source, target) if not text.isascii()]
        if any(not unicodedata.is_normalized("NFC", text) for text in texts):
            self.marks = True
            return True
        self.composed |= any(not unicodedata.is_normalized("NFD", text) for text in texts)
        return False


class Checker:
    """Takes pairs one by one."""

    def __init__(self) -> None:
        self.pairs = 0
        self.source, self.target = Side(), Side()
        self._seen = {name: Count() for name in TROUBLES}
        self._accents = Accents()
        self._repetitions = Repetitions()
        self._reservoir = Reservoir()
        self._proportions = Proportions()
        self._window: list[Pair] = []
        self._copying = False  # whether in some window most targets are their own sources

    def add(self, pair: Pair) -> None:
        self.pairs += 1
        source, target, place = pair
        self.source.add(source)
        self.target.add(target)
        for name in _oddities(source, target):
            self._seen[name].add(place, pair)
        if self._accents.add(source, target):
            self._seen["mixed_normalisation"].add(place, pair)
        repeated = self._repetitions.add(source, target)
        if repeated:
            self._seen[repeated].add(place, pair)
        self._reservoir.add(pair)
        self._proportions.add(pair)
        self._window.append(pair)
        if len(self._window) == WINDOW:
            self._close_window()

    def report(self) -> Report:
        repeated = self._repetitions.counts()
        lopsided = "length_ratio" if self._proportions.related else "free_lengths"
        seen = {**self._seen, "swapped": self._exchanged(), lopsided: self._proportions.lopsided()}
        for name, count in repeated.items():
            seen[name] = replace(seen[name], count=count)
        if not self._accents.mixed:
            del seen["mixed_normalisation"]
        both = self.source.alphabet.keys() & self.target.alphabet.keys()
        either = self.source.alphabet.keys() | self.target.alphabet.keys()
        return Report(
            pairs=self.pairs,
            source=self.source,
            target=self.target,
            shared_alphabet=len(both) / max(1, len(either)),
            sources=self._repetitions.sources,
            copies=self._seen["copies"].count,
            duplicates=repeated["duplicates"],
            conflicts=repeated["conflicts"],
            findings=tuple(finding(name, found, self.pairs) for name, found in seen.items() if found.count),
        )

    def _exchanged(self) -> Count:
        """Judged in the sample, and counted as if it were everything."""
        found, sample = exchanged(self._reservoir.pairs), len(self._reservoir.pairs)
        places = [pair.place for pair in found[:PLACES_KEPT]]
        return Count(round(len(found) * self.pairs / max(1, sample)), places, found[:EXAMPLES_KEPT])

    def _close_window(self) -> None:
        lengths = np.array([(len(source), len(target)) for source, target, _ in self._window])
        if lag := lag_in_window(lengths[:, 0], lengths[:, 1]):
            chained = not self._copying and self._echo(lag) >= MOSTLY
            self._seen["chained" if chained else "misaligned"].add(self._window[0].place)
        self._copying |= self._echo(0) >= MOSTLY
        self._window = []

    def _echo(self, lag: int) -> float:
        """The share of the window whose targets are the sources so many rows on."""
        sources, targets = ([pair[side] for pair in self._window] for side in (0, 1))
        shifted = zip(sources[max(lag, 0) :], targets[max(-lag, 0) :], strict=False)
        return sum(source == target for source, target in shifted) / len(self._window)


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
    if '"' in both and (_is_quoted(source) or _is_quoted(target)):
        found.append("quotes")
    if CONTROLS.search(both):
        found.append("control_characters")
    if not both.isascii():
        if _INVISIBLE.search(both):
            found.append("invisible_characters")
        if _MOJIBAKE.search(both):
            found.append("mojibake")
        if _MIXED.search(both):
            found.append("mixed_scripts")
    if _SPACING.search(source) or _SPACING.search(target):
        found.append("spacing")
    return found


def _is_quoted(text: str) -> bool:
    return text.count('"') % 2 == 1 or (len(text) > 1 and text[0] == text[-1] == '"')

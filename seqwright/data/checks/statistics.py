"""Statistics and findings of a stream of texts: one pass, bounded memory, before any training.

builder = StatisticsBuilder(("source", "target"))
for source, target, place in files.read(report): builder.add((source, target), place)
statistics = builder.build()
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqwright.data.checks.duplicates import DuplicateCounter
from seqwright.data.checks.findings import FINDING_TEXTS, Finding, finding
from seqwright.data.checks.length_ratio import LengthRatios
from seqwright.data.checks.misaligned import lag_in_window
from seqwright.data.checks.swapped import Reservoir, find_swapped
from seqwright.data.fields import has_fields, split_parts
from seqwright.data.read_report import Occurrences, Place, TextRow

PAIR_COLUMNS = ("source", "target")
WINDOW = 500
MOSTLY = 0.5  # of the pairs in a window
RARE = 5

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_LATIN = "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02af"
_ALIKE = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγεικνορτυφ\u0400-\u052f"  # Greek letters that look Latin, and all Cyrillic ones
_MARKS = "[\u02b0-\u036f]*"  # modifier letters and accents, which occur between letters of the IPA
_BEYOND_ASCII = {
    "invisible_characters": re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069]"),
    "mojibake": re.compile("\ufffd|[ÂÃ][\x80-\xbf]|â€|Ð[\x80-\xbf]"),
    "mixed_scripts": re.compile(
        f"[{_LATIN}]{_MARKS}[{_ALIKE}]|[{_ALIKE}]{_MARKS}[{_LATIN}]"
        rf"|(?:^|\s)[{_LATIN}]{_MARKS}\s[{_ALIKE}]{_MARKS}(?:\s|$)"  # single letters between spaces: phones
    ),
}


class LengthHistogram(Counter[int]):
    """The number of texts of each length."""

    @property
    def mean(self) -> float:
        return sum(length * count for length, count in self.items()) / max(1, self.total())

    @property
    def longest(self) -> int:
        return max(self, default=0)

    def to_json(self) -> dict[str, Any]:
        counts = {str(length): count for length, count in sorted(self.items())}
        return {"mean": self.mean, "longest": self.longest, "counts": counts}


class TextColumn:
    """The lengths and characters of one column of texts."""

    def __init__(self) -> None:
        self.characters, self.words = LengthHistogram(), LengthHistogram()
        self.alphabet: Counter[str] = Counter()

    def add(self, text: str) -> None:
        self.characters[len(text)] += 1
        self.words[len(text.split())] += 1
        self.alphabet.update("".join(split_parts(text)[::2]) if has_fields(text) else text)

    def to_json(self) -> dict[str, Any]:
        lengths = {"characters": self.characters.to_json(), "words": self.words.to_json()}
        return {**lengths, "alphabet": dict(self.alphabet.most_common()), "scripts": self.scripts}

    @property
    def rare(self) -> list[str]:
        """Characters that occur too rarely for a model to learn them."""
        return sorted(character for character, count in self.alphabet.items() if count < RARE)

    @property
    def scripts(self) -> dict[str, float]:
        """Shares of the letters by script, the first word of their Unicode names: LATIN, CYRILLIC, HANGUL."""
        counts: Counter[str] = Counter()
        for letter, count in self.alphabet.items():
            if letter.isalpha():
                name = unicodedata.name(letter, "UNNAMED")
                latin = name.endswith("ORDINAL INDICATOR")
                counts["LATIN" if latin else name.split(" ")[0].split("-")[0]] += count
        return {script: count / counts.total() for script, count in counts.most_common()}


@dataclass(frozen=True)
class Statistics:
    """The statistics of a data set. `distinct` and the counts of duplicates are estimates in large data.

    In pairs, `distinct` counts the sources; in groups it counts the groups, elsewhere the examples.
    """

    examples: int
    distinct: int
    columns: Mapping[str, TextColumn]
    findings: tuple[Finding, ...]

    @property
    def shared_alphabet(self) -> float:
        """The share of all distinct characters that both columns of pairs use."""
        left, right = (column.alphabet.keys() for column in self.columns.values())
        return len(left & right) / max(1, len(left | right))


class Accents:
    """The normalisation forms in use: accents in one character (NFC), or as separate marks (NFD)."""

    composed = marks = False

    @property
    def mixed(self) -> bool:
        return self.composed and self.marks

    def add(self, texts: Iterable[str]) -> bool:
        """Return whether NFC would change one of the texts."""
        accented = [text for text in texts if not text.isascii()]
        if any(not unicodedata.is_normalized("NFC", text) for text in accented):
            self.marks = True
            return True
        self.composed |= any(not unicodedata.is_normalized("NFD", text) for text in accented)
        return False


class StatisticsBuilder:
    """Collects examples with texts in the named columns. Two columns are also compared with each other."""

    def __init__(self, columns: Iterable[str] = PAIR_COLUMNS) -> None:
        self.examples = 0
        self.columns = {name: TextColumn() for name in columns}
        self._seen = {name: Occurrences() for name in FINDING_TEXTS}
        self._accents = Accents()
        self._duplicates = DuplicateCounter()
        self._comparison = _Comparison(self._seen) if len(self.columns) == 2 else None
        self._grouped = False  # whether texts belong to something else, such as a conversation or an image

    def add(self, texts: tuple[str, ...], place: Place, source: str | None = None) -> None:
        """Count an example; `source` identifies its input where that is not a text, or is more than one."""
        self.examples += 1
        if not texts:
            return
        row = TextRow(texts, place)
        for column, text in zip(self.columns.values(), texts, strict=True):
            column.add(text)
        for name in _oddities(texts):
            self._seen[name].add(place, row)
        if self._accents.add(texts):
            self._seen["mixed_normalisation"].add(place, row)
        if source is not None:
            self._grouped = True
            repeated = self._duplicates.add(source, "\t".join(texts))
        elif self._comparison is not None:
            self._comparison.add(row)
            repeated = self._duplicates.add(*texts)
        else:
            repeated = self._duplicates.add("\t".join(texts), "")
        if repeated:
            self._seen[repeated].add(place, row)

    def build(self) -> Statistics:
        seen = dict(self._seen)
        if self._comparison is not None and not self._grouped:
            seen |= self._comparison.results(self.examples)
        for name, count in self._duplicates.counts().items():
            seen[name] = replace(seen[name], count=count)
        if self._grouped:
            del seen["conflicts"]  # a group has several examples
        if not self._accents.mixed:
            del seen["mixed_normalisation"]
        names = tuple(self.columns)
        findings = (finding(name, found, self.examples, names) for name, found in seen.items())
        found = tuple(filter(None, findings))
        distinct = self._duplicates.sources if self.columns else self.examples
        return Statistics(self.examples, distinct, self.columns, found)


class _Comparison:
    """The checks that compare two columns: copies, alignment, swapped texts and length ratios."""

    def __init__(self, seen: dict[str, Occurrences]) -> None:
        self._seen = seen
        self._sample = Reservoir()
        self._ratios = LengthRatios()
        self._window: list[TextRow] = []
        self._copying = False  # whether in some window most targets equal their sources

    def add(self, row: TextRow) -> None:
        left, right = row.texts
        if left == right:
            self._seen["copies"].add(row.place, row)
        self._sample.add(row)
        self._ratios.add(row)
        self._window.append(row)
        if len(self._window) == WINDOW:
            self._close_window()

    def results(self, examples: int) -> dict[str, Occurrences]:
        """Return the findings that need all rows; the number of swapped rows is scaled up from the sample."""
        swapped, sample = find_swapped(self._sample.rows), len(self._sample.rows)
        estimate = round(len(swapped) * examples / max(1, sample))
        return {
            "swapped": Occurrences.starting_with(swapped, estimate),
            "length_ratio" if self._ratios.related else "free_lengths": self._ratios.outliers(),
        }

    def _close_window(self) -> None:
        lengths = np.array([(len(left), len(right)) for (left, right), _ in self._window])
        if lag := lag_in_window(*lengths.T):
            chained = not self._copying and self._copied_share(lag) >= MOSTLY
            self._seen["chained" if chained else "misaligned"].add(self._window[0].place)
        self._copying |= self._copied_share(0) >= MOSTLY
        self._window = []

    def _copied_share(self, lag: int) -> float:
        """Return the share of the window whose right text equals the left text `lag` rows later."""
        left, right = zip(*(row.texts for row in self._window), strict=True)
        shifted = zip(left[max(lag, 0) :], right[max(-lag, 0) :], strict=False)
        return sum(a == b for a, b in shifted) / len(self._window)


def _oddities(texts: tuple[str, ...]) -> list[str]:
    """Return the names of the findings about one example alone."""
    joined = "\t".join(texts)  # one search for all; no pattern matches a tab
    found, running = [], "\n" in joined  # in running text, quotes and spaces span lines
    if '"' in joined and not running:
        quoted = (text.count('"') % 2 or (len(text) > 1 and text[0] == text[-1] == '"') for text in texts)
        found += ["quotes"] if any(quoted) else []
    if CONTROLS.search(joined):
        found.append("control_characters")
    if not joined.isascii():
        found += [name for name, pattern in _BEYOND_ASCII.items() if pattern.search(joined)]
    if not running and any(len(text) != len(" ".join(text.split())) for text in texts):
        found.append("spacing")
    return found

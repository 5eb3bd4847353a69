"""Alignment of outputs with their closest references: edits, and confusions between symbols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from seqwright.data.task import Mistake
from seqwright.evaluation.text_outputs import Writing, edits_for

CONFUSIONS = 50  # kept at most


@dataclass(frozen=True)
class Confusion:
    """One symbol in place of another: an empty `output` is a missing symbol, an empty `expected` an extra."""

    expected: str
    output: str
    count: int

    @property
    def right(self) -> bool:
        return self.expected == self.output

    def to_json(self) -> dict[str, Any]:
        return {"expected": self.expected, "said": self.output, "count": self.count}


def mistakes_of(
    outputs: Sequence[str], references: Sequence[Sequence[str]], writing: Writing
) -> list[Mistake]:
    from rapidfuzz.distance import Levenshtein

    rate = edits_for(writing)
    found = []
    for output, given in zip(outputs, references, strict=True):
        edits, expected = rate.closest(output, given)
        symbols = rate.symbols(output)
        changes = []
        for change in Levenshtein.editops(expected, symbols):
            before = "" if change.tag == "insert" else expected[change.src_pos]
            changes.append((before, "" if change.tag == "delete" else symbols[change.dest_pos]))
        closest = next(reference for reference in given if rate.symbols(reference) == expected)
        found.append(Mistake(closest, edits, edits / max(len(symbols), len(expected), 1), tuple(changes)))
    return found


def count_changes(mistakes: Iterable[Mistake], writing: Writing) -> Counter[tuple[str, str]]:
    """Count the changes (expected, output); in running text, only a word in place of another word."""
    changes = (change for mistake in mistakes for change in mistake.changes)
    if writing != "text":
        return Counter(changes)
    return Counter(change for change in changes if all(word[:1].isalnum() for word in change))


def confusions_of(mistakes: Iterable[Mistake], writing: Writing) -> tuple[Confusion, ...]:
    """Return the most frequent confusions first; in running text a single occurrence counts as chance."""
    counts = count_changes(mistakes, writing)
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    least = 2 if writing == "text" else 1
    return tuple(Confusion(*change, count) for change, count in ranked[:CONFUSIONS] if count >= least)


def worst(mistakes: Sequence[Mistake], count: int) -> list[int]:
    """Return the numbers of the items with the largest share of edits; of equals the longer first."""
    wrong = [item for item, mistake in enumerate(mistakes) if mistake.edits]
    return sorted(wrong, key=lambda item: (-mistakes[item].share, -mistakes[item].edits, item))[:count]

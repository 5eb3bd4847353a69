"""Outputs laid against their closest references: how wrong each is, and what was said for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seqwright.data.task import Mistake
from seqwright.evaluation.text_outputs import Writing, edits_for

CONFUSIONS = 50  # that are kept


@dataclass(frozen=True)
class Confusion:
    """A symbol that was said in the place of another; "" is nothing: a symbol left out, or one too many."""

    expected: str
    said: str
    count: int


def mistakes_of(
    outputs: Sequence[str], references: Sequence[Sequence[str]], writing: Writing
) -> list[Mistake]:
    from rapidfuzz.distance import Levenshtein

    rate = edits_for(writing)
    found = []
    for output, given in zip(outputs, references, strict=True):
        edits, wanted = rate.closest(output, given)
        said = rate.symbols(output)
        changes = tuple(
            (
                wanted[change.src_pos] if change.tag != "insert" else "",
                said[change.dest_pos] if change.tag != "delete" else "",
            )
            for change in Levenshtein.editops(wanted, said)
        )
        closest = next(reference for reference in given if rate.symbols(reference) == wanted)
        found.append(Mistake(closest, edits, edits / max(len(said), len(wanted), 1), changes))
    return found


def count_changes(mistakes: Iterable[Mistake], writing: Writing) -> Counter[tuple[str, str]]:
    """How often what was said for what. In running text only a word for a word is a confusion: words that are
    left out, added or moved say nothing about another word, and signs do not either.
    """
    changes = (change for mistake in mistakes for change in mistake.changes)
    if writing != "text":
        return Counter(changes)
    return Counter(change for change in changes if all(word[:1].isalnum() for word in change))


def confusions_of(mistakes: Iterable[Mistake], writing: Writing) -> tuple[Confusion, ...]:
    """The most frequent first; a word that came once for another is chance."""
    counts = count_changes(mistakes, writing)
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    least = 2 if writing == "text" else 1
    return tuple(Confusion(*change, count) for change, count in ranked[:CONFUSIONS] if count >= least)


def worst(mistakes: Sequence[Mistake], count: int) -> list[int]:
    """The numbers of the items that are most wrong for their length; of equally wrong ones the longer."""
    wrong = [item for item, mistake in enumerate(mistakes) if mistake.edits]
    return sorted(wrong, key=lambda item: (-mistakes[item].share, -mistakes[item].edits, item))[:count]

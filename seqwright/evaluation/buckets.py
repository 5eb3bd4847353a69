"""Buckets of items by length, rarity and end of the output: their scores show where a model fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seqwright.data.fields import split_parts
from seqwright.data.store import Store
from seqwright.data.task import Bucket
from seqwright.data.tokenizer import Tokenizer
from seqwright.evaluation.text_outputs import Writing, edits_for
from seqwright.files import read_json

UNITS: dict[Writing, str] = {"text": "words", "symbols": "symbols", "characters": "characters"}
LENGTHS = {writing: f"length of the source in {unit}" for writing, unit in UNITS.items()}
RARITY = "count of the rarest source symbol in training"
CHARACTERS = "count of the rarest source character in the data files"
ENDING = "how the output ended"
PARTS = 5  # buckets of lengths


class Rarity(NamedTuple):
    """How often the rarest symbol of each source occurs; `name` states what is counted."""

    name: str
    times: Callable[[Sequence[str]], list[int]]


def by_length(sources: Sequence[str], writing: Writing) -> tuple[Bucket, ...]:
    """Return about five buckets of equal size, by words, symbols or characters; features do not count."""
    symbols = str.split if writing == "text" else edits_for(writing).symbols
    lengths = [sum(len(symbols(part)) for part in split_parts(source)[::2]) for source in sources]
    buckets: list[Bucket] = []
    left, size, low = len(lengths), 0, None
    for length, count in sorted(Counter(lengths).items()):  # equal lengths are in one bucket
        low, size = length if low is None else low, size + count
        if size >= left / max(PARTS - len(buckets), 1) or size == left:
            name = f"{low}" if low == length else f"{low}–{length}"
            buckets.append(Bucket(name, tuple(i for i, n in enumerate(lengths) if low <= n <= length)))
            left, size, low = left - size, 0, None
    return tuple(buckets)


def by_tenth(shares: Sequence[float]) -> tuple[Bucket, ...]:
    """Return buckets by tenths, for numbers from 0 to 1."""
    groups: dict[int, list[int]] = {}
    for item, share in enumerate(shares):
        groups.setdefault(min(int(10 * share), 9), []).append(item)
    return tuple(Bucket(f"{k / 10:.1f}–{(k + 1) / 10:.1f}", tuple(groups[k])) for k in sorted(groups))


def by_rarity(sources: Sequence[str], rarity: Rarity) -> tuple[Bucket, ...]:
    """Return buckets by powers of ten."""
    groups: dict[int, list[int]] = {}
    for item, times in enumerate(rarity.times(sources)):
        groups.setdefault(min(len(str(times)), 5) if times else 0, []).append(item)
    names = ("never", "1–9", "10–99", "100–999", "1,000–9,999", "10,000 or more")
    return tuple(Bucket(names[digits], tuple(groups[digits])) for digits in sorted(groups))


def by_ending(reasons: Sequence[str]) -> tuple[Bucket, ...]:
    """Return buckets by finish reason; none if all are the same."""
    groups: dict[str, list[int]] = {}
    for item, reason in enumerate(reasons):
        groups.setdefault(reason, []).append(item)
    return tuple(Bucket(kind, tuple(groups[kind])) for kind in sorted(groups)) if len(groups) > 1 else ()


def rarity_of_run(folder: Path, tokenizer: Tokenizer) -> Rarity | None:
    """Count source tokens in the prepared training data, or characters by the alphabet in data.json."""
    if (folder / "data" / "train" / "store.json").exists():
        counts = token_counts(Store.open(folder / "data" / "train"), tokenizer.size)
        encode = tokenizer.encode_batch
        return Rarity(RARITY, lambda texts: [int(counts[ids].min()) if ids else 0 for ids in encode(texts)])
    known = read_json(folder / "data.json") if (folder / "data.json").exists() else {}
    alphabet: dict[str, int] = known.get("source", {}).get("alphabet", {})

    def rarest(source: str) -> int:
        return min((alphabet.get(c, 0) for part in split_parts(source)[::2] for c in part), default=0)

    return Rarity(CHARACTERS, lambda sources: [*map(rarest, sources)]) if alphabet else None


def token_counts(store: Store, vocabulary: int, column: str = "source") -> np.ndarray:
    """Count each token in a column of ids (V,)."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    for rows in store.column(column).blocks():
        counts += np.bincount(rows.flat, minlength=vocabulary)[:vocabulary]
    return counts

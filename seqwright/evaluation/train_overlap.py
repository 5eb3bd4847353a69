"""Which items a model was trained on or chosen by, as the prepared pairs in its run folder say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seqwright.data.split import Part
from seqwright.data.store import HEADER, Ragged, Store
from seqwright.data.tokenizer import UNK
from seqwright.tasks.text_to_text import Translation

CHUNK = 1 << 16  # prepared pairs that are looked at together


def known_from(part: Part, folder: Path, task: Translation, sources: Sequence[str]) -> np.ndarray | None:
    """Whether each source was in this part of the data (N,); None where the folder does not have its pairs
    any more. Sources are compared by their tokens; what has unknown ones is taken to be new.
    """
    if not (folder / "data" / part / HEADER).exists():
        return None
    store, rows = Store.open(folder / "data" / part), task.source.encode_batch(sources)
    known = np.array([bool(row) and UNK not in row for row in rows])
    hashes, found = row_hashes(Ragged.of(rows)), np.zeros(len(rows), np.bool_)
    for start in range(0, len(store), CHUNK):
        prepared, _ = store.gather(np.arange(start, min(start + CHUNK, len(store))))
        found |= np.isin(hashes, row_hashes(prepared))
    return found & known


def row_hashes(rows: Ragged) -> np.ndarray:
    """64 bits for each row (N,): the sum over its tokens of a hash of token and place, by the finalizer of
    SplitMix64 (Steele, Lea & Flood 2014).
    """
    ends = np.cumsum(rows.lengths)
    places = np.arange(len(rows.flat)) - np.repeat(ends - rows.lengths, rows.lengths)
    mixed = (places.astype(np.uint64) << np.uint64(32)) + rows.flat.astype(np.uint64) + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed ^ (mixed >> np.uint64(31)))])
    return sums[ends] - sums[ends - rows.lengths]

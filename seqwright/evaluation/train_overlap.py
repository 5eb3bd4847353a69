"""Overlap of evaluated items with the training and validation data in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqwright.data.split import Part
from seqwright.data.store import HEADER, Ragged, Store
from seqwright.data.task import Task
from seqwright.data.tokenizer import UNK


def known_from(part: Part, folder: Path, task: Task[Any, Any], examples: Sequence[Any]) -> np.ndarray | None:
    """Return whether each input is in this part of the data (N,); None where the run has no prepared data.

    Inputs are compared by the first column of their rows; one with unknown tokens counts as new.
    """
    if not (folder / "data" / part / HEADER).exists():
        return None
    name = task.columns(readable=False)[0].name
    rows = [row.columns[name] for row in task.encode(examples)]
    known = np.array([len(row) > 0 and UNK not in row for row in rows])
    hashes, found = row_hashes(Ragged.of(rows)), np.zeros(len(rows), np.bool_)
    for prepared in Store.open(folder / "data" / part).column(name).blocks():
        found |= np.isin(hashes, row_hashes(prepared))
    return found & known


def row_hashes(rows: Ragged) -> np.ndarray:
    """Hash each row to 64 bits (N,): the sum of SplitMix64 (Steele et al. 2014) of token and position."""
    ends = np.cumsum(rows.lengths)
    places = np.arange(len(rows.flat)) - np.repeat(ends - rows.lengths, rows.lengths)
    mixed = (places.astype(np.uint64) << np.uint64(32)) + rows.flat.astype(np.uint64) + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed ^ (mixed >> np.uint64(31)))])
    return sums[ends] - sums[ends - rows.lengths]

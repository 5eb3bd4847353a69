"""The pairs for all contenders, as a file of ids, and the count of their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.shapes import sentences
from seqwright.data.batch import Batch, collate
from seqwright.data.plan import Batching, Plan, RowLengths
from seqwright.data.store import StoredColumn


@dataclass(frozen=True)
class Pairs:
    """Parallel rows of ids without begin and end symbols."""

    source: StoredColumn
    target: StoredColumn

    @classmethod
    def load(cls, path: str | Path) -> Pairs:
        with np.load(path) as file:
            columns = [
                StoredColumn(file[f"{side}.flat"], file[f"{side}.offsets"]) for side in ("source", "target")
            ]
        return cls(*columns)

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def batch(self, numbers: np.ndarray) -> Batch:
        """A batch of Seqwright with these pairs."""
        return collate(self.source.gather(numbers), self.target.gather(numbers), numbers)

    def batches(self, tokens: int) -> list[np.ndarray]:
        """The batches of the first epoch of Seqwright, as numbers of pairs."""
        lengths = RowLengths(self.source.lengths(), self.target.lengths())
        return list(Plan(lengths, Batching(tokens=tokens), seed=1).epoch(0))

    def closed(self, side: str, number: int, end: int) -> np.ndarray:
        """One row with its end symbol, which counts as a token on both sides for every contender."""
        return np.append(getattr(self, side).row(number), end)


def write_ids(path: Path, data: str | None, vocabulary: int) -> None:
    """Write Multi30k with a joint BPE, or random ids of similar lengths (`bench.shapes.sentences`)."""
    arrays = {}
    for side, rows in zip(("source", "target"), sentences(data, vocabulary), strict=True):
        arrays[f"{side}.flat"] = rows.flat
        arrays[f"{side}.offsets"] = np.concatenate([[0], np.cumsum(rows.lengths)])
    np.savez(path, **arrays)


def padding_efficiency(batches: list[Batch]) -> float:
    """Tokens per place of the padded batches, both sides together."""
    places = sum(batch.source.ids.numel() + batch.expected.numel() for batch in batches)
    return sum(batch.tokens for batch in batches) / places

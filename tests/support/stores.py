"""Stores of pairs of id sequences, as `text_to_text` keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from seqwright.data.store import ColumnSpec, Store, StoredRow

numbers = count()


def pair_columns(vocabulary: int, *, texts: bool = False) -> list[ColumnSpec]:
    ids = [ColumnSpec.ids(side, vocabulary) for side in ("source", "target")]
    return [*ids, *(ColumnSpec.text(f"{side}_text") for side in ("source", "target") if texts)]


def pair_row(source, target, texts=None, place=None) -> StoredRow:
    columns = {"source": source, "target": target}
    if texts is not None:
        columns |= {"source_text": texts[0], "target_text": texts[1]}
    return StoredRow(columns, place)


def pair_store(
    folder: Path,
    pairs: Iterable[Sequence],
    *,
    key: str | None = None,
    vocabulary: int = 100,
    texts: bool = False,
    inputs: Sequence[str] = (),
) -> Store:
    """Open or build a store of (source, target), (source, target, texts) or (source, target, texts, place).

    Without a key, it is built.
    """
    rows = (pair_row(*pair) for pair in pairs)
    columns = pair_columns(vocabulary, texts=texts)
    key = f"built {next(numbers)}" if key is None else key
    return Store.open_or_build(folder, rows, columns, key=key, inputs=inputs)

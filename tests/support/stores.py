"""Stores of pairs of id sequences, as `text_to_text` keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from seqwright.data.store import ColumnSpec, Store, StoredRow


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
    key: str = "k",
    vocabulary: int = 100,
    texts: bool = False,
    inputs: Sequence[str] = (),
    build=Store.build,
) -> Store:
    """Build a store from (source, target), (source, target, texts) or (source, target, texts, place)."""
    rows = (pair_row(*pair) for pair in pairs)
    return build(folder, rows, pair_columns(vocabulary, texts=texts), key=key, inputs=inputs)

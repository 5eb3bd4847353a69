"""A batch: what the encoder reads, what the decoder reads, and what it should say.

Everything here is a value made of tensors. Shapes: B rows, S source length, T target length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqwright.data.store import Ragged
from seqwright.data.tokenizer import BEGIN, END, PAD


@dataclass(frozen=True)
class Tokens:
    """Rows of ids, padded with `PAD` on the right. ids (B, S) int64; lengths (B,) int64, None: no padding."""

    ids: Tensor
    lengths: Tensor | None = None

    @property
    def real(self) -> Tensor | None:
        """True where there is a token (B, S); None when every place has one, so that no mask is needed."""
        if self.lengths is None:
            return None
        places = torch.arange(self.ids.shape[1], device=self.ids.device)
        return places < self.lengths[:, None]  # (B, S)


@dataclass(frozen=True)
class Batch:
    """Examples side by side. For a target y the decoder reads `BEGIN` y and should say y `END`.

    source is whatever the encoder takes (`Tokens` for text); target (B, T); expected (B, T) int64, `PAD`
    where nothing is to be said; index (B,) the numbers of the examples in their store.
    """

    source: Any
    target: Tokens
    expected: Tensor
    index: np.ndarray

    @property
    def rows(self) -> int:
        return self.expected.shape[0]

    @property
    def count(self) -> int:
        """The number of tokens to be said, ends included: what a summed loss is divided by."""
        lengths = self.target.lengths
        return self.expected.numel() if lengths is None else int(lengths.sum())


def collate(source: Ragged, target: Ragged, index: np.ndarray) -> Batch:
    """Texts to texts: row i of `source` and of `target` is the example of number `index[i]`."""
    said = padded(target, end=True)
    return Batch(source_tokens(source), padded(target, begin=True), said.ids, index)


def source_tokens(rows: Ragged) -> Tokens:
    """Sources as an encoder reads them: closed by `END`, so that even an empty one can be attended to."""
    return padded(rows, end=True)


def padded(rows: Ragged, *, begin: bool = False, end: bool = False) -> Tokens:
    """Rows as one matrix, with `BEGIN` before and `END` after each where asked for."""
    lengths = rows.lengths.astype(np.int64) + begin + end  # (B,)
    width = int(lengths.max(initial=begin + end))
    places = np.arange(width)
    inside = (places >= begin) & (places < begin + rows.lengths[:, None])  # (B, T)
    ids = np.full(inside.shape, PAD, dtype=np.int64)
    ids[inside] = rows.flat  # a mask is filled row by row: the order in which the rows lie in `flat`
    if begin:
        ids[:, 0] = BEGIN
    if end:
        ids[np.arange(len(lengths)), lengths - 1] = END
    full = bool((lengths == width).all())
    return Tokens(torch.from_numpy(ids), None if full else torch.from_numpy(lengths))

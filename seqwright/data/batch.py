"""A batch: what the encoder reads, what the decoder reads, and the expected output.

Everything here is a value made of tensors. Shapes: B rows, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqwright.data.store import Ragged
from seqwright.data.tokenizer import BEGIN, END, PAD


@dataclass(frozen=True)
class Trees:
    """Dependency trees of the sentences in rows of tokens.

    nodes (B, S) int64: the word that a token belongs to, counted from 1; 0: the root, as the end is, and
    padding. heads (B, W + 1) int64: the head of each word; that of the root is the root. known (B,) bool: the
    rows that have a tree.
    """

    nodes: Tensor
    heads: Tensor
    known: Tensor

    @classmethod
    def of(cls, nodes: Sequence[np.ndarray], heads: Sequence[np.ndarray], places: int) -> Trees | None:
        """Return the trees of rows with `places` tokens; None where no row has one.

        nodes: the word of each token but the last ones. heads: the head of each word from 1 on, empty for a
        row without a tree.
        """
        known = torch.tensor([len(row) > 0 for row in heads])
        if not bool(known.any()):
            return None
        words = max(map(len, heads))
        of_tokens = torch.zeros(len(nodes), places, dtype=torch.int64)
        of_words = torch.zeros(len(heads), words + 1, dtype=torch.int64)
        for i in known.nonzero().flatten().tolist():
            of_tokens[i, : len(nodes[i])] = torch.from_numpy(nodes[i].astype(np.int64))
            of_words[i, 1 : len(heads[i]) + 1] = torch.from_numpy(heads[i].astype(np.int64))
        return cls(of_tokens, of_words, known)

    def rolled(self) -> Trees:
        """Return the rows moved by one."""
        return Trees(self.nodes.roll(1, 0), self.heads.roll(1, 0), self.known.roll(1, 0))

    @cached_property
    def above(self) -> Tensor:
        """1 for each word on the way from a token to the root, its own included: (B, S, W + 1) float."""
        found = torch.zeros(*self.nodes.shape, self.heads.shape[1])
        at = self.nodes
        for _ in range(self.heads.shape[1]):  # no way is longer
            found.scatter_(2, at[..., None], 1.0)
            if not bool(at.any()):
                break
            at = self.heads.gather(1, at)
        found[..., 0] = 0.0  # the root is above all of them
        return found

    @cached_property
    def depth(self) -> Tensor:
        """The number of arcs from a token to the root, (B, S) int64."""
        return self.above.sum(-1).long()

    @cached_property
    def distance(self) -> Tensor:
        """The number of arcs between two tokens, (B, S, S) int64: both ways without what they share."""
        shared = self.above @ self.above.mT
        return self.depth[:, :, None] + self.depth[:, None, :] - 2 * shared.long()


@dataclass(frozen=True)
class Tokens:
    """Rows of ids, padded with `PAD` on the right. ids (B, S) int64; lengths (B,) int64, None: no padding.

    trees: those of the sentences, for positions from syntax.
    """

    ids: Tensor
    lengths: Tensor | None = None
    trees: Trees | None = field(default=None, kw_only=True)

    @property
    def count(self) -> int:
        """The number of tokens, padding excluded."""
        return self.ids.numel() if self.lengths is None else int(self.lengths.sum())

    def rolled(self) -> Tokens:
        """Return the rows moved by one."""
        lengths = None if self.lengths is None else self.lengths.roll(1, 0)
        return Tokens(self.ids.roll(1, 0), lengths, trees=self.trees and self.trees.rolled())

    @property
    def real(self) -> Tensor | None:
        """True where there is a token (B, S); None when every place has one, so that no mask is needed."""
        return None if self.lengths is None else within(self.lengths, self.ids.shape[1])


@dataclass(frozen=True)
class Segments:
    """Rows of sentences, or of turns, each a run of tokens.

    words: the sentences of all rows, one after the other (N, T). counts (B,) int64: the sentences of each
    row; their sum is N.
    """

    words: Tokens
    counts: Tensor

    @classmethod
    def of_tokens(cls, source: Tokens) -> Segments:
        """Return a source without boundaries, in which each token is a sentence."""
        ids, rows = source.ids, len(source.ids)
        if source.lengths is None or source.real is None:
            return cls(Tokens(ids.reshape(-1, 1)), torch.full((rows,), ids.shape[1], device=ids.device))
        return cls(Tokens(ids[source.real][:, None]), source.lengths)

    @property
    def count(self) -> int:
        """The number of tokens, padding excluded."""
        return self.words.count

    @property
    def longest(self) -> int:
        """S, the most sentences of a row."""
        return int(self.counts.max())

    @property
    def index(self) -> tuple[Tensor, Tensor]:
        """The row of each sentence (N,), and its number in that row (N,)."""
        rows, numbers = within(self.counts, self.longest).nonzero(as_tuple=True)
        return rows, numbers

    def rolled(self) -> Segments:
        """Return the rows moved by one."""
        by, words = int(self.counts[-1]), self.words
        lengths = None if words.lengths is None else words.lengths.roll(by, 0)
        return Segments(Tokens(words.ids.roll(by, 0), lengths), self.counts.roll(1, 0))


def within(lengths: Tensor, width: int) -> Tensor:
    """True at the first lengths[b] of `width` places (B, width)."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]


@dataclass(frozen=True)
class Images:
    """Images of one size: pixels (B, H, W, C) uint8."""

    pixels: Tensor

    @property
    def count(self) -> int:
        return len(self.pixels)

    def rolled(self) -> Images:
        """Return the images moved by one row."""
        return Images(self.pixels.roll(1, 0))


@dataclass(frozen=True)
class SpelledTokens(Tokens):
    """Rows of words, with the pieces of all of them end to end, row by row.

    pieces (P,) int64; counts, one for each token that is not padding, int64: the pieces of each.
    """

    pieces: Tensor = field(kw_only=True)
    counts: Tensor = field(kw_only=True)

    def rolled(self) -> SpelledTokens:
        last = self.ids.shape[1] if self.lengths is None else int(self.lengths[-1])
        moved = int(self.counts[len(self.counts) - last :].sum())
        rows, spelled = super().rolled(), (self.pieces.roll(moved), self.counts.roll(last))
        return SpelledTokens(rows.ids, rows.lengths, trees=rows.trees, pieces=spelled[0], counts=spelled[1])


@dataclass(frozen=True)
class Batch:
    """Examples side by side. For a target y the decoder reads `BEGIN` y, and y `END` is expected.

    source is whatever the encoder takes (`Tokens` for text); target (B, T); expected (B, T) int64, `PAD`
    where nothing is expected; index (B,) the numbers of the examples in their store.
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
        """The number of expected tokens, ends included: what a summed loss is divided by."""
        return self.target.count

    @property
    def tokens(self) -> int:
        """The tokens of both sides, without padding: what speed is counted in."""
        return self.count + self.source.count

    def with_shuffled_inputs(self) -> Batch:
        """Return the batch in which each row has the source of its neighbour."""
        return replace(self, source=self.source.rolled())


@dataclass(frozen=True)
class HeadBatch:
    """Inputs, and what the head of an encoder is to predict for them.

    expected: one class or one row of numbers per input, or one id per token. count: of the predictions, by
    which a summed loss is divided.
    """

    source: Any
    expected: Tensor
    index: np.ndarray
    count: int

    @property
    def rows(self) -> int:
        return len(self.index)

    @property
    def tokens(self) -> int:
        return self.source.count

    def with_shuffled_inputs(self) -> HeadBatch:
        """Return the batch in which each row has the source of its neighbour."""
        return replace(self, source=self.source.rolled())


@dataclass(frozen=True)
class Past:
    """What is known before forecasts: values (B, lookback); features (B, lookback + horizon, F), of which the
    future is known, too; ids (B,) of the series. `apart` rows belong to one window, one for each channel.
    """

    values: Tensor
    horizon: int
    apart: int = 1
    features: Tensor | None = None
    ids: Tensor | None = None

    @property
    def count(self) -> int:
        """The numbers that are read and predicted."""
        return len(self.values) * (self.values.shape[1] + self.horizon)

    def rolled(self) -> Past:
        """Return the windows moved by one: each channel gets the past of the same channel."""
        features = None if self.features is None else self.features.roll(self.apart, 0)
        return replace(self, values=self.values.roll(self.apart, 0), features=features)


def collate(source: Ragged, target: Ragged, index: np.ndarray) -> Batch:
    """Return a batch of texts to texts: row i of both sides is the example of number `index[i]`."""
    return with_targets(source_tokens(source), target, index)


def with_targets(source: Any, target: Ragged, index: np.ndarray) -> Batch:
    """Return a batch of sources that an encoder reads, and of texts to write for them."""
    return Batch(source, padded(target, begin=True), padded(target, end=True).ids, index)


def source_tokens(rows: Ragged) -> Tokens:
    """Return sources as an encoder reads them, with an `END` so that even an empty one has a token."""
    return padded(rows, end=True)


def segments(texts: Ragged, sentences: Ragged) -> Segments:
    """Return texts cut into sentences of at least one token each.

    Row i of `sentences` has their lengths, which add up to that of text i.
    """
    counts = torch.from_numpy(sentences.lengths.astype(np.int64))
    return Segments(padded(Ragged(texts.flat, sentences.flat)), counts)


def between(rows: Ragged, marker: int, *, empty: int) -> tuple[Ragged, Ragged]:
    """Return texts without the markers between their parts, and the lengths of the parts, for `segments`.

    A part without tokens is left out; a text without any becomes the token `empty`.
    """
    texts, lengths = [], []
    for ids in np.split(rows.flat, np.cumsum(rows.lengths)[:-1]):
        parts = [part[part != marker] for part in np.split(ids, np.flatnonzero(ids == marker))]
        filled = [part for part in parts if len(part)] or [np.array([empty], ids.dtype)]
        texts.append(np.concatenate(filled))
        lengths.append(np.array([len(part) for part in filled]))
    return Ragged.of(texts), Ragged.of(lengths)


def padded(rows: Ragged, *, begin: bool = False, end: bool = False) -> Tokens:
    """Return rows as one matrix, optionally with `BEGIN` before and `END` after each."""
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

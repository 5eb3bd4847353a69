"""Training of a unigram vocabulary by expectation-maximisation (Kudo 2018, section 3.2), over distinct words.

The trainer of the `tokenizers` library iterates over hash tables in random order, so its scores differ from
run to run. Here all sums have a fixed order: the same data give the same bytes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqwright.data.tokenizer import ranked

CHARACTERS = 2_000_000  # of distinct text, from the most frequent words, for seeds and expectations
WORD_LENGTH = 24  # longer words are cut, so that products of probabilities stay within float64
SEEDS_PER_PIECE = 10
KEPT_PER_ROUND = 0.75
STEPS_PER_ROUND = 2

Array = NDArray[np.float64]


def learn_unigram(words: Counter[str], room: int, max_piece: int) -> list[tuple[str, float]]:
    """Return `room` pieces with their log probabilities, most likely first; every character is a piece."""
    characters = sorted({character for word in words for character in word})
    chunks = _frequent_chunks(words)
    weights = np.array([count for _, count in chunks], float)
    pieces = [*characters, *_seeds(chunks, max_piece, SEEDS_PER_PIECE * room)]
    protected = np.arange(len(pieces)) < len(characters)
    corpus = Lattices([text for text, _ in chunks], pieces, max_piece)
    alternatives = Lattices(pieces, pieces, max_piece)
    chances = np.array([len(piece) for piece in pieces], float)
    chances /= chances.sum()
    target = max(room, len(characters))
    while True:
        for _ in range(STEPS_PER_ROUND):  # pieces below 0.5 are dropped; characters always stay
            expected = corpus.expected(chances, weights)
            counts = np.where(expected < 0.5, 0.0, expected)
            counts = np.where(protected, np.maximum(expected, 0.1), counts)
            chances = counts / counts.sum()
        alive = (chances > 0) | protected
        if alive.sum() <= target:
            break
        losses = np.where(protected, np.inf, expected * alternatives.advantage(chances))
        losses[~alive] = -1.0
        keep = max(target, int(KEPT_PER_ROUND * alive.sum()))
        chances[np.argsort(-losses, kind="stable")[keep:]] = 0.0
        corpus.drop(chances > 0)
        alternatives.drop(chances > 0)
    scored = [(pieces[k], round(float(np.log(chances[k])), 6)) for k in np.flatnonzero(alive)]
    return sorted(scored, key=lambda item: (-item[1], item[0]))


class Lattices:
    """All segmentations of texts into pieces, as edges: `piece` leads from `start` to `end` in `text`."""

    def __init__(self, texts: Sequence[str], pieces: Sequence[str], max_piece: int):
        number = {piece: k for k, piece in enumerate(pieces)}
        flat = array("i")
        for row, text in enumerate(texts):
            for start in range(len(text)):
                for end in range(start + 1, min(start + max_piece, len(text)) + 1):
                    piece = number.get(text[start:end])
                    if piece is not None:
                        flat.extend((row, start, end, piece))
        self.edges = np.frombuffer(flat, np.int32).reshape(-1, 4).T
        self.lengths = np.array([len(text) for text in texts], np.int64)

    def drop(self, alive: NDArray[np.bool_]) -> None:
        self.edges = self.edges[:, alive[self.edges[3]]]

    def expected(self, chances: Array, weights: Array) -> Array:
        """Return the expected count of each piece over all segmentations (forward-backward)."""
        rows, longest = len(self.lengths), int(self.lengths.max())
        forward, backward = np.zeros((rows, longest + 1)), np.zeros((rows, longest + 1))
        forward[:, 0] = 1.0
        backward[np.arange(rows), self.lengths] = 1.0
        for end, (text, start, _, piece) in self._by(2):
            forward[:, end] += np.bincount(text, forward[text, start] * chances[piece], rows)
        for start, (text, _, ends, piece) in reversed(list(self._by(1))):
            backward[:, start] += np.bincount(text, backward[text, ends] * chances[piece], rows)
        text, start_of, end_of, piece = self.edges
        through = forward[text, start_of] * chances[piece] * backward[text, end_of]
        share = weights / np.maximum(backward[:, 0], np.finfo(float).tiny)
        return np.bincount(piece, through * share[text], len(chances)).astype(np.float64)

    def advantage(self, chances: Array) -> Array:
        """Return how much more likely a piece is than its best segmentation into others; texts are pieces."""
        with np.errstate(divide="ignore"):
            scores = np.log(chances)
        rows, longest = len(self.lengths), int(self.lengths.max())
        best = np.full((rows, longest + 1), -np.inf)
        best[:, 0] = 0.0
        for end, (text, start, _, piece) in self._by(2):
            other = text != piece
            paths = best[text[other], start[other]] + scores[piece[other]]
            np.maximum.at(best[:, end], text[other], paths)
        alive = chances > 0
        return np.subtract(scores, best[np.arange(rows), self.lengths], out=np.zeros(rows), where=alive)

    def _by(self, column: int) -> list[tuple[int, NDArray[np.int32]]]:
        """Return the edges in groups of equal start or end, in ascending order."""
        order = np.argsort(self.edges[column], kind="stable")
        edges = self.edges[:, order]
        values, firsts = np.unique(edges[column], return_index=True)
        return list(zip(values.tolist(), np.split(edges, firsts[1:], axis=1), strict=True))


def _frequent_chunks(words: Counter[str]) -> list[tuple[str, int]]:
    chunks: Counter[str] = Counter()
    characters = 0
    for word, count in ranked(words):
        characters += len(word)
        if characters > CHARACTERS and chunks:
            break
        for start in range(0, len(word), WORD_LENGTH):
            chunks[word[start : start + WORD_LENGTH]] += count
    return ranked(chunks)


def _seeds(chunks: list[tuple[str, int]], max_piece: int, most: int) -> list[str]:
    """Return the substrings that occur at least twice, the best `most` by count times length.

    A substring is counted only if its prefix occurs twice, which keeps the table small.
    """
    found: list[tuple[float, str]] = []
    frequent: set[str] | None = None
    for length in range(2, max_piece + 1):
        counts: Counter[str] = Counter()
        for text, count in chunks:
            for start in range(len(text) - length + 1):
                if frequent is None or text[start : start + length - 1] in frequent:
                    counts[text[start : start + length]] += count
        frequent = {piece for piece, count in counts.items() if count > 1}
        if not frequent:
            break
        found += [(-length * counts[piece], piece) for piece in frequent]
    return [piece for _, piece in sorted(found)[:most]]

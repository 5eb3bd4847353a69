"""Why texts are near a context: how much nearer each of its words brings them.

A word counts as much as the cosine falls without it: leave-one-out, or erasure (Li et al. 2016, Understanding
Neural Networks through Representation Erasure, arXiv 1612.08220, section 3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

METHOD = "cosine − cosine without the word"
WORD = re.compile(r"\S+")

Vectors = Callable[[Sequence[tuple[str, ...]]], np.ndarray]  # contexts of several turns -> (N, D) of length 1


class Neighbour(NamedTuple):
    """A text near a context: its number and its vector (D,), and the turns that it followed in the data."""

    id: int
    text: str
    vector: np.ndarray
    context: tuple[str, ...] = ()


def without_each_word(turns: Sequence[str]) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    """Return the words of turns, each with the number of its turn, and the turns without each of them.

    A turn of one word is left out with it.
    """
    words, rest = [], []
    for number, turn in enumerate(turns):
        for match in WORD.finditer(turn):
            left = " ".join((turn[: match.start()].rstrip(), turn[match.end() :].lstrip())).strip()
            words.append({"text": match[0], "turn": number})
            rest.append(tuple(t for t in (*turns[:number], left, *turns[number + 1 :]) if t))
    return words, rest


def neighbours(
    turns: Sequence[str], found: Sequence[Neighbour], vectors: Vectors, *, least: float
) -> dict[str, Any]:
    """Return the words of a context, and for each text near it the cosine, the effect of every word on it,
    and how alike the context is that it followed in the data.

    least: a text with a lower cosine does not fit.
    """
    words, rest = without_each_word(turns)
    texts = np.stack([one.vector for one in found])  # (K, D)
    whole, *reduced = vectors([tuple(turns), *rest]) @ texts.T  # (K,) each
    known = [one.context for one in found if one.context]
    alike = iter((vectors(known) @ vectors([tuple(turns)])[0]).tolist() if known else [])
    return {
        "method": METHOD,
        "least": least,
        "words": words,
        "texts": [
            {
                "id": one.id,
                "text": one.text,
                "cosine": float(whole[k]),
                "effects": [float(whole[k] - row[k]) for row in reduced],
                "context": list(one.context),
                "alike": next(alike) if one.context else None,
            }
            for k, one in enumerate(found)
        ],
    }

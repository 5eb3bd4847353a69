"""BERT's masking: some tokens of a text are hidden, and the model predicts them (Devlin et al. 2019, 3.1)."""

from __future__ import annotations

import numpy as np

from seqwright.data.fields import SYMBOL
from seqwright.data.tokenizer import FIRST, PAD

BLANK = "[MASK]"  # as a user writes it
MARKER = f"{SYMBOL}MASK"  # its entry in a tokenizer, which no text can spell
SHARE = 0.15  # of the tokens are predicted
HIDDEN, RANDOM = 0.8, 0.1  # of those become the blank, and another token; the rest stay


def masked(ids: np.ndarray, *, blank: int, vocabulary: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what the model reads and what it is to predict, `PAD` where nothing is, both (N,) int64.

    At least one token is predicted, never a special one. The draw depends on the seed and the ids alone.
    """
    ids, draw = ids.astype(np.int64), np.random.default_rng(seed)
    places = np.flatnonzero((ids >= FIRST) & (ids != blank))
    count = min(max(round(SHARE * len(places)), 1), len(places))
    chosen, fate = draw.permutation(places)[:count], draw.random(count)
    others = draw.integers(FIRST, max(vocabulary - 1, FIRST + 1), count)
    others += others >= blank  # any token but the blank
    read, expected = ids.copy(), np.full_like(ids, PAD)
    expected[chosen] = ids[chosen]
    read[chosen] = np.where(fate < HIDDEN, blank, np.where(fate < HIDDEN + RANDOM, others, ids[chosen]))
    return read, expected

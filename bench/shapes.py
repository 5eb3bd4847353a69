"""The two model shapes of the benchmarks, and their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqwright.data.batch import Batch, collate
from seqwright.data.plan import Batching, Plan, RowLengths
from seqwright.data.store import Ragged


@dataclass(frozen=True)
class Shape:
    """A Transformer with as many encoder as decoder layers, one vocabulary, tied embeddings, pre-norm."""

    layers: int
    size: int
    hidden: int
    heads: int
    dropout: float
    tokens: int  # target tokens in a training batch
    vocabulary: int = 8000


SHAPES = {
    "tiny": Shape(layers=4, size=128, hidden=256, heads=4, dropout=0.3, tokens=4096),
    "base": Shape(layers=6, size=512, hidden=2048, heads=8, dropout=0.1, tokens=2048),
}


def sentences(data: str | None, vocabulary: int, seed: int = 1) -> tuple[Ragged, Ragged]:
    """Pairs as ids: Multi30k with a joint BPE, or without its folder random ids of similar lengths."""
    if data is None:
        return _random_pairs(vocabulary, np.random.default_rng(seed))
    from seqwright.data.tokenizer import train_tokenizer

    texts = [
        (Path(data) / "lc.norm.tok" / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("en", "de")
    ]
    tokenizer = train_tokenizer("bpe", texts[0] + texts[1], max_size=vocabulary)
    source, target = (Ragged.of(tokenizer.encode_batch(side)) for side in texts)
    return source, target


def _random_pairs(vocabulary: int, random: np.random.Generator, count: int = 29000) -> tuple[Ragged, Ragged]:
    """Log-normal lengths with mean 14 and deviation 5, correlated like those of translations."""
    common = random.normal(size=count)
    lengths = [
        np.clip(np.exp(2.56 + 0.35 * (0.85 * common + 0.53 * random.normal(size=count))), 2, 60).astype(
            np.int64
        )
        for _ in range(2)
    ]
    source, target = (Ragged(random.integers(4, vocabulary, int(n.sum())), n) for n in lengths)
    return source, target


def training_batches(pairs: tuple[Ragged, Ragged], tokens: int, count: int) -> list[Batch]:
    """The first `count` batches of an epoch."""
    lengths = RowLengths(*(side.lengths.astype(np.int32) for side in pairs))
    epoch = Plan(lengths, Batching(tokens=tokens), seed=1).epoch(0)
    take = taking(pairs)
    return [take(epoch[k]) for k in range(min(count, len(epoch)))]


def taking(pairs: tuple[Ragged, Ragged]) -> Callable[[np.ndarray], Batch]:
    """Return a function that makes a batch of the pairs with the given numbers."""
    starts = [np.concatenate([[0], np.cumsum(side.lengths)]) for side in pairs]

    def rows(side: int, index: np.ndarray) -> Ragged:
        flat = np.concatenate([pairs[side].flat[starts[side][i] : starts[side][i + 1]] for i in index])
        return Ragged(flat, pairs[side].lengths[index])

    return lambda index: collate(rows(0, index), rows(1, index), index)

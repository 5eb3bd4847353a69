"""The order of training: the batches of every epoch, computed and never stored.

A plan is a pure function of (lengths of the data, seed, epoch, batching), the same on every machine. It gives
any batch of any epoch directly, and a `Cursor` is all there is to save.

An epoch: permute the examples; cut the permutation into windows; sort each window by both lengths; cut the
sorted window into batches that fit the budget; permute the batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from seqwright.config import TrainingConfig
from seqwright.config.validation import Whole
from seqwright.errors import ConfigError, ModelError

RULE = 1  # increases when the same arguments would give other batches


class RowLengths(NamedTuple):
    """The lengths of all examples, begin and end not counted, (n,) int32 each.

    counted: the tokens that `training.tokens` limits, a translation's target. context: what is read along
    with them, its source.
    """

    context: np.ndarray
    counted: np.ndarray

    def select(self, numbers: np.ndarray) -> RowLengths:
        return RowLengths(self.context[numbers], self.counted[numbers])


@dataclass(frozen=True)
class Batching:
    """How examples become batches. Lengths include the end symbol, and padding counts.

    A batch is as many rows as fit, at least one: rows × longest target ≤ `tokens`, rows × longest source ≤
    `source_tokens`, rows ≤ `max_rows`. An example that does not fit is alone in its batch. Without `shuffle`
    every epoch is the same: all examples, from short to long. With a `ramp` of n epochs the budgets grow: the
    first epoch has 1/n of them, the second 2/n (Smith et al. 2018).
    """

    tokens: int = 4096
    source_tokens: int | None = None  # None: 4 × tokens, out of reach unless sources are far longer
    max_rows: int | None = None
    window: int = 1 << 17  # examples sorted together; more pads less and mixes less
    shuffle: bool = True
    ramp: int = 1

    def __post_init__(self) -> None:
        for name in ("tokens", "source_tokens", "max_rows", "window", "ramp"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"batching.{name} is {value}, but must be at least 1")

    def in_epoch(self, number: int) -> Batching:
        """Return the batching of one epoch, counted from 0."""
        if number + 1 >= self.ramp:
            return self
        tokens, source = (
            max(1, whole * (number + 1) // self.ramp) for whole in (self.tokens, self.source_budget)
        )
        return replace(self, tokens=tokens, source_tokens=source, ramp=1)

    @property
    def source_budget(self) -> int:
        return 4 * self.tokens if self.source_tokens is None else self.source_tokens


def batching_of(training: TrainingConfig) -> Batching:
    """Return the batching of a training."""
    return Batching(tokens=training.tokens, ramp=training.ramp)


@dataclass(frozen=True)
class Cursor:
    """A position: batch `batch` of epoch `epoch` is next; `steps` batches with `examples` rows are done."""

    epoch: Whole = 0
    batch: Whole = 0
    steps: Whole = 0
    examples: Whole = 0


class Epoch:
    """The batches of one epoch: `epoch[k]` has the numbers of the examples in batch k, sorted by length."""

    def __init__(self, order: np.ndarray, starts: np.ndarray, ranks: np.ndarray, lengths: RowLengths):
        """order (n,): the examples; starts (m + 1,): the cuts in it; ranks (m,): which cut batch k is."""
        order.setflags(write=False)  # batches are views of it
        self._order, self._starts, self._ranks, self._lengths = order, starts, ranks, lengths

    def __len__(self) -> int:
        return len(self._ranks)

    def __getitem__(self, batch: int) -> np.ndarray:
        rank = self._ranks[batch]
        return self._order[self._starts[rank] : self._starts[rank + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[batch] for batch in range(len(self)))

    @cached_property
    def efficiency(self) -> float:
        """Tokens over places, source and target together: the share of the work that is not padding."""
        real = padded = 0
        for lengths in self._lengths:
            ordered = lengths[self._order] + 1
            real += int(ordered.sum(dtype=np.int64))
            if len(self):
                padded += int(np.maximum.reduceat(ordered, self._starts[:-1]) @ np.diff(self._starts))
        return real / padded if padded else 1.0


class Plan:
    """Every epoch of a training on examples of these lengths."""

    def __init__(self, lengths: RowLengths, batching: Batching, seed: int):
        if seed < 0:
            raise ConfigError(f"seed is {seed}, but must not be negative")
        self.lengths, self.batching, self.seed = lengths, batching, seed

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the order besides the data: a cursor is valid while this stays the same."""
        ramp = {} if self.batching.ramp == 1 else {"ramp": self.batching.ramp}
        fixed = {name: value for name, value in asdict(self.batching).items() if name != "ramp"}
        return {"rule": RULE, "seed": self.seed, **fixed, **ramp}

    def epoch(self, number: int) -> Epoch:
        """Return epoch `number`, counted from 0, independent of earlier calls."""
        count, options = len(self.lengths.counted), self.batching.in_epoch(number)
        # numpy keeps the raw stream of a bit generator, but not what a Generator makes of it (NEP 19): so
        # permutations are sorted raw numbers, and a run may be resumed under another numpy
        random = np.random.PCG64(np.random.SeedSequence([self.seed, number]))
        order = _permutation(count, random) if options.shuffle else np.arange(count, dtype=_index_type(count))
        window = options.window if options.shuffle else max(count, 1)
        starts = [0]
        for begin in range(0, count, window):
            part = order[begin : begin + window]
            turn = int(random.random_raw()) % 4 if options.shuffle else 0
            part[:] = part[_serpentine(self.lengths.context[part], self.lengths.counted[part], turn)]
            cuts = _cuts(self.lengths.context[part] + 1, self.lengths.counted[part] + 1, options)
            starts.extend(begin + cut for cut in cuts)
        batches = len(starts) - 1
        ranks = _permutation(batches, random) if options.shuffle else np.arange(batches)
        return Epoch(order, np.array(starts), ranks, self.lengths)

    def walk(self, cursor: Cursor) -> Iterator[tuple[np.ndarray, Cursor]]:
        """Yield all batches from a position on, without end, each with the position after it."""
        while len(self.lengths.counted):
            epoch = self._epoch_of(cursor)
            for number in range(cursor.batch, len(epoch)):
                batch = epoch[number]
                cursor = _after(cursor, 1, len(batch), len(epoch))
                yield batch, cursor

    def _epoch_of(self, cursor: Cursor) -> Epoch:
        epoch = self.epoch(cursor.epoch)
        if not 0 <= cursor.batch < len(epoch):
            raise ModelError(
                f"batch {cursor.batch} is outside epoch {cursor.epoch} of {len(epoch)} batches: data or "
                "batching changed; restore the old ones, or train in another folder"
            )
        return epoch


def split(batch: np.ndarray, parts: int) -> list[np.ndarray]:
    """Divide a batch into `parts` micro-batches with equally many rows, or one more; some may be empty.

    Neighbours stay together: batches are sorted by length, and each part pads to its own longest row. On
    lengths like those of Multi30k, halves of 4096 tokens pad .038, those of every second row .054.
    """
    return np.array_split(batch, parts)


def cut_by_tokens(order: Sequence[int], lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield runs of sorted rows that hold at most `tokens`, padding included, and at least one row."""
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] > tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def evenly(count: int, wanted: int) -> np.ndarray:
    """Return at most `wanted` of the numbers below `count`, from the first to the last."""
    return np.linspace(0, count - 1, min(count, wanted)).astype(np.int64)


def item_seed(seed: int, epoch: int, index: int) -> int:
    """Return the seed of one example in one epoch, in [0, 2^63): for sampling and noise."""
    digest = hashlib.blake2b(f"{seed} {epoch} {index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _after(cursor: Cursor, steps: int, examples: int, batches: int) -> Cursor:
    """Return the cursor `steps` batches later in an epoch of `batches`; it never points behind the last."""
    epochs, batch = divmod(cursor.batch + steps, batches)
    return Cursor(cursor.epoch + epochs, batch, cursor.steps + steps, cursor.examples + examples)


def _index_type(count: int) -> type[np.signedinteger]:
    return np.int32 if count < 1 << 31 else np.int64


def _permutation(count: int, random: np.random.PCG64) -> np.ndarray:
    keys = random.random_raw(count)
    return np.argsort(keys, kind="stable").astype(_index_type(count))


def _serpentine(source: np.ndarray, target: np.ndarray, turn: int) -> np.ndarray:
    """Return the order by source // 2, then by target, up in one strip and down in the next, without jumps.

    `turn` in 0..3 chooses where strips begin and which go up: a window that is the whole data set would have
    nearly the same batches in every epoch without it.
    """
    strip = (source.astype(np.int64) + turn // 2) // 2
    height = int(target.max(initial=0)) + 1
    key = strip * height + np.where((strip + turn) % 2 == 0, target, height - 1 - target)
    return np.argsort(key, kind="stable")


def _cuts(source: np.ndarray, target: np.ndarray, options: Batching) -> Iterator[int]:
    """Yield the end of each batch, when every batch takes as many of the next rows as fit."""
    start, count = 0, len(target)
    while start < count:
        # no more rows than this can fit, as none pads to less than the first
        most = max(1, min(options.tokens // int(target[start]), options.max_rows or count))
        ahead = slice(start, start + most)
        rows = np.arange(1, len(target[ahead]) + 1)
        fits = rows * np.maximum.accumulate(target[ahead]) <= options.tokens
        fits &= rows * np.maximum.accumulate(source[ahead]) <= options.source_budget
        start += max(1, int(fits.sum()))  # both products only grow: what fits comes first
        yield start

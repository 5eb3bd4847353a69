"""The interface between search and a model, and how search reads scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from seqwright.errors import ModelError

BLOCK = 64  # tokens whose maximum is taken first; of 32 to 160 the fastest at 8,000 tokens


class State(Protocol):
    """The memory of a decoder. `select` and `join` leave the old states as they were."""

    def select(self, rows: Sequence[int]) -> Self:
        """Row i of the result is row rows[i]; rows may repeat, vanish and change places."""

    def join(self, others: Sequence[Self]) -> Self:
        """The rows of this state, then those of others, which may have read more or fewer tokens."""


S = TypeVar("S", bound=State)
Step = Callable[[Tensor, S], tuple[Tensor, S]]
"""tokens (R, T), state -> logits (R, V) after the last token, state."""
Prefill = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""tokens (R, T + 1), state -> log p of each but the first (R, T), state after all but the last."""


def log_probabilities(logits: Tensor, silent: Tensor | None = None) -> Tensor:
    """log softmax, (R, V), in float32 or float64, in new memory, so that filters may write into it.

    A row without a finite maximum (NaN, +inf, or −inf everywhere) becomes NaN as a whole: see `not_numbers`.
    The tokens in `silent` become −inf afterwards, as by a filter, but without the history that filters need.
    """
    log_probs = (logits if logits.dtype is torch.float64 else logits.float()).log_softmax(-1)
    return log_probs if silent is None else log_probs.index_fill_(1, silent, -torch.inf)


def not_numbers(step: int, row: int) -> ModelError:
    return ModelError(
        f"the logits of step {step} for input {row} have no finite maximum (NaN, +inf, or -inf everywhere); "
        "the model's weights are damaged or its training diverged: use an earlier checkpoint"
    )


class Proposals(NamedTuple):
    """The best continuations of a beam, best first: the row of each, its token, and its log-probability."""

    seats: list[int]
    tokens: list[int]
    scores: list[float]


def best_candidates(log_probs: Tensor, carried: Tensor, count: int) -> list[Proposals]:
    """The best `count` continuations of each group of W rows; fewer where no more are possible.

    log_probs (G·W, V), carried (G, W) float64: the log-probability of each row so far. The sums are ranked,
    NaN above all. Only a block whose maximum is among the best `count` can hold one of the best `count`
    tokens, so a large vocabulary is read once for the maxima: four times as fast as one `topk` over it.
    """
    (groups, width), size = carried.shape, log_probs.shape[1]
    if size < 8 * BLOCK:
        sums = (log_probs.view(groups, width, size) + carried[..., None]).flatten(1)
        chosen = sums.topk(min(count, width * size)).indices
        scores = log_probs.view(groups, -1).gather(1, chosen)
        return list(map(_proposals, chosen.tolist(), scores.tolist(), repeat(size)))
    rest = -size % BLOCK
    padded = F.pad(log_probs, (0, rest), value=-torch.inf) if rest else log_probs
    blocks = padded.view(groups, -1, BLOCK)  # (G, W·N, BLOCK)
    carried = carried.repeat_interleave(blocks.shape[1] // width, 1)  # (G, W·N)
    best = (blocks.amax(-1) + carried).topk(min(count, blocks.shape[1])).indices  # (G, C)
    values = blocks.gather(1, best[..., None].expand(-1, -1, BLOCK))  # (G, C, BLOCK)
    sums = values + carried.gather(1, best)[..., None]
    chosen = sums.flatten(1).topk(count).indices  # (G, count)
    scores = values.flatten(1).gather(1, chosen)
    places = [
        [of_group[at // BLOCK] * BLOCK + at % BLOCK for at in ranked]
        for of_group, ranked in zip(best.tolist(), chosen.tolist(), strict=True)
    ]
    return list(map(_proposals, places, scores.tolist(), repeat(size + rest)))


def _proposals(places: list[int], scores: list[float], size: int) -> Proposals:
    """The candidates at these indices into some rows of `size` log-probabilities."""
    possible = scores.index(-math.inf) if -math.inf in scores else len(scores)
    cut = places[:possible]
    return Proposals([place // size for place in cut], [place % size for place in cut], scores[:possible])

"""What search asks of a model, and how it reads the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from seqwright.errors import ModelError

BLOCK = 64  # tokens whose maximum is taken first; of 32 to 160 the fastest at 8,000 tokens


class State(Protocol):
    """What a decoder remembers. `select` leaves the old state as it was."""

    def select(self, rows: Sequence[int]) -> Self:
        """Row i of the result is row rows[i]; rows may repeat, vanish and change places."""


S = TypeVar("S", bound=State)
Step = Callable[
    [Tensor, S], tuple[Tensor, S]
]  # tokens (R, T), state -> logits (R, V) after the last token, state


def select(state: S, rows: Sequence[int], count: int) -> S:
    """The rows of a state that has `count`; nothing is copied where nothing changes."""
    return state if rows == list(range(count)) else state.select(rows)


def log_probabilities(logits: Tensor, silent: Tensor | None = None) -> Tensor:
    """log softmax, (R, V), in float32 or float64, and new memory, so that filters may write into it.

    A row without a finite maximum (NaN, +inf, or −inf everywhere) becomes NaN as a whole: see `not_numbers`.
    The tokens in `silent` become −inf after it, as by a filter, but without the history that filters need.
    """
    log_probs = (logits if logits.dtype is torch.float64 else logits.float()).log_softmax(-1)
    return log_probs if silent is None else log_probs.index_fill_(1, silent, -torch.inf)


def not_numbers(step: int, row: int) -> ModelError:
    return ModelError(
        f"the logits of step {step} for input {row} have no finite maximum (NaN, +inf, or -inf everywhere); "
        "the model's weights are damaged or its training diverged: take an earlier checkpoint"
    )


def best_candidates(log_probs: Tensor, carried: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best continuations of each group of W rows: places in its W·V log-probabilities, and what is there.

    log_probs (G·W, V), carried (G, W) float64: what each row brings along -> (G, C) twice, C ≤ count. The
    sums are ranked, best first, NaN above all. Only a block whose maximum is among the best `count` can hold
    one of the best `count` tokens, so a large vocabulary is read once for the maxima: a quarter of the time
    of one `topk` over everything.
    """
    groups, width = carried.shape
    size = log_probs.shape[1]
    grouped = log_probs.view(groups, width * size)
    if size < 8 * BLOCK:
        sums = (grouped.view(groups, width, size) + carried[..., None]).flatten(1)
        places = sums.topk(min(count, width * size)).indices
        return places, grouped.gather(1, places)
    maxima = _block_maxima(log_probs)  # (G·W, N)
    blocks = maxima.shape[1]
    sums = (maxima.view(groups, width, blocks) + carried[..., None]).flatten(1)
    best = sums.topk(min(count, width * blocks)).indices  # (G, C)
    rows = best // blocks
    columns = (best % blocks * BLOCK)[..., None] + torch.arange(BLOCK, device=best.device)  # (G, C, BLOCK)
    places = ((rows * size)[..., None] + columns.clamp(max=size - 1)).flatten(1)
    values = grouped.gather(1, places).view_as(columns).masked_fill_(columns >= size, -torch.inf)
    chosen = (values + carried.gather(1, rows)[..., None]).flatten(1).topk(count).indices
    return places.gather(1, chosen), values.flatten(1).gather(1, chosen)


def _block_maxima(log_probs: Tensor) -> Tensor:
    """The maximum of each BLOCK tokens, the last block being shorter: (R, V) -> (R, ceil(V / BLOCK))."""
    whole = log_probs.shape[1] // BLOCK * BLOCK
    maxima = log_probs[:, :whole].unflatten(-1, (-1, BLOCK)).amax(-1)
    if whole == log_probs.shape[1]:
        return maxima
    return torch.cat([maxima, log_probs[:, whole:].amax(-1, keepdim=True)], -1)

"""Filters: a filter sets the log-probabilities of tokens that may not follow to −inf, in place.

Nothing is renormalised: the other tokens keep the log-probabilities of the model, so that the score of an
output does not depend on the filters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

IMPOSSIBLE = -1e9  # finite log-probability of a token that must be taken although the model excludes it


class Filter(Protocol):
    """One rule. log_probs (R, V); history (R, t), the tokens so far; inputs, the input of each row."""

    name: str  # the lattice reports "banned by <name>"

    def __call__(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> None: ...


class BannedTokens:
    """These tokens never occur."""

    name = "banned_tokens"

    def __init__(self, tokens: Sequence[int]):
        self.tokens = list(tokens)

    def __call__(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> None:
        log_probs[:, self.tokens] = -torch.inf


class MinimumLength:
    """No end before `length` tokens."""

    name = "min_length"

    def __init__(self, length: int, end: int):
        self.length, self.end = length, end

    def __call__(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> None:
        if history.shape[1] < self.length:
            log_probs[:, self.end].fill_(-torch.inf)


class NoRepeat:
    """No n-gram of this size occurs twice (Paulus et al. 2018, section 2.5)."""

    name = "no_repeat"

    def __init__(self, size: int):
        self.size = size

    def __call__(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> None:
        if history.shape[1] < self.size:
            return
        grams = history.unfold(1, self.size, 1)  # (R, t - n + 1, n)
        context = history[:, history.shape[1] - self.size + 1 :]  # (R, n - 1): the last tokens
        seen = (grams[..., :-1] == context[:, None]).all(-1)  # (R, t - n + 1)
        ceiling = torch.full_like(seen, torch.inf, dtype=log_probs.dtype).masked_fill_(seen, -torch.inf)
        # the minimum, because a token may follow this context in one place and another one elsewhere
        log_probs.scatter_reduce_(1, grams[..., -1], ceiling, "amin")


class ForcedPrefix:
    """Each output begins with the prefix of its input. Prefixes may differ in length."""

    name = "prefix"

    def __init__(self, prefixes: Sequence[Sequence[int]]):
        self.prefixes = prefixes
        self.longest = max(map(len, prefixes), default=0)

    def __call__(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> None:
        forced = self.forced(history.shape[1], inputs)
        if not forced:
            return
        rows, tokens = list(forced), list(forced.values())
        kept = log_probs[rows, tokens]
        log_probs[rows] = -torch.inf
        log_probs[rows, tokens] = kept

    def forced(self, length: int, inputs: Sequence[int]) -> dict[int, int]:
        """Row → the token that it must take after `length` tokens."""
        if length >= self.longest:
            return {}
        prefixes = ((row, self.prefixes[source]) for row, source in enumerate(inputs))
        return {row: prefix[length] for row, prefix in prefixes if length < len(prefix)}


class Rules:
    """All filters of a search. A row whose tokens are all excluded takes its forced token, or ends."""

    def __init__(self, filters: Sequence[Filter], prefix: ForcedPrefix, end: int):
        self.filters, self.prefix, self.end = filters, prefix, end

    def __bool__(self) -> bool:
        return bool(self.filters)

    def apply(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> None:
        for _ in self.stages(log_probs, history, inputs):
            pass

    def stages(self, log_probs: Tensor, history: Tensor, inputs: Sequence[int]) -> Iterator[str]:
        """Apply the filters one by one and yield the name of each afterwards."""
        forced = self.prefix.forced(history.shape[1], inputs)
        fallback = log_probs[:, self.end].tolist()  # the score of the token that is taken if none is left
        for row, token in forced.items():
            fallback[row] = log_probs[row, token].item()
        for part in self.filters:
            part(log_probs, history, inputs)
            yield part.name
        for row, best in enumerate(log_probs.amax(-1).tolist()):
            if best == -math.inf:
                log_probs[row, forced.get(row, self.end)] = max(fallback[row], IMPOSSIBLE)

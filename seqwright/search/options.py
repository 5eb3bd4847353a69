"""The inputs and the options of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from seqwright.config.validation import Count, Whole, check_fields
from seqwright.errors import ConfigError, Problem
from seqwright.search.filters import BannedTokens, Filter, ForcedPrefix, MinimumLength, NoRepeat, Rules
from seqwright.search.stepping import Prefill

Width = Annotated[int, Ge(1), Le(4096)]
LENGTH_RULES: dict[str, Callable[[int], float]] = {  # penalty(length) = rule(length) ** length_penalty
    "wu": lambda length: (5 + length) / 6,  # Wu et al. 2016, eq. 14
    "mean": lambda length: length,  # with a length_penalty of 1 the mean log-probability of a token
    "none": lambda length: 1.0,
}


@dataclass(frozen=True, kw_only=True)
class Start:
    """The inputs of one search. The state before the first step has `rows` rows, one for each input.

    Values per input have one entry for each, so that an output never depends on its neighbours.
    """

    rows: int
    first: int  # the token before the first one, usually called bos
    end: int  # the token that ends an output, usually called eos
    silent: tuple[int, ...] = ()  # tokens that the model scores but no output has: pad, bos
    prefixes: Sequence[Sequence[int]] = ()  # tokens that each output must begin with; empty: none
    limits: Sequence[int] = ()  # maximum length of each output; empty: `max_length` of the options
    seeds: Sequence[int] = ()  # randomness of each output; empty: derived from (seed, row)
    device: torch.device | str | None = None  # the device of the model
    prefill: Prefill | None = None  # reads prefixes in one call; None: their tokens are forced one by one

    def __post_init__(self) -> None:
        sizes = {"prefixes": len(self.prefixes), "limits": len(self.limits), "seeds": len(self.seeds)}
        rule = f"entries for {self.rows} inputs; give one for each, or none"
        problems = [f"{name} has {size} {rule}" for name, size in sizes.items() if size not in (0, self.rows)]
        rule = "it must be at least 1"
        problems += [f"the limit of input {row} is {n}; {rule}" for row, n in enumerate(self.limits) if n < 1]
        raise_all(problems)

    def silent_index(self) -> Tensor | None:
        """The silent tokens as `log_probabilities` takes them."""
        if not self.silent:
            return None
        return torch.tensor(self.silent, dtype=torch.int64, device=self.device)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Lengths and filters. A length counts tokens without the first one; the end is one of `max_length`."""

    min_length: Whole = 0  # no end before this many tokens
    max_length: Count = 256  # steps at most; an output that has not ended by then is cut
    no_repeat: Whole = 0  # n-grams of this size occur once at most (Paulus et al. 2018, section 2.5); 0: off
    banned: tuple[int, ...] = ()  # tokens that never occur
    filters: tuple[Filter, ...] = ()  # further ones, applied in this order before those above

    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("min_length", "max_length"),)  # at most as large

    def __post_init__(self) -> None:
        problems = check_fields(self)
        invalid = {problem.key for problem in problems}
        for smaller, larger in self.ordered:
            value, limit = getattr(self, smaller), getattr(self, larger)
            if not {smaller, larger} & invalid and value > limit:
                problems.append(Problem(smaller, value, f"it must be at most {{{larger}}}, {limit}"))
        raise_all(problems)

    def limits(self, start: Start) -> list[int]:
        return list(start.limits) or [self.max_length] * start.rows

    def rules(self, start: Start) -> Rules:
        """Return the filters in order. The prefix is the last one and wins over the others."""
        prefix = ForcedPrefix(start.prefixes)
        self._check_prefixes(start)
        parts = list(self.filters)
        if self.banned:
            parts.append(BannedTokens(self.banned))
        if self.no_repeat:
            parts.append(NoRepeat(self.no_repeat))
        if self.min_length:
            parts.append(MinimumLength(self.min_length, start.end))
        if prefix.longest:
            parts.append(prefix)
        return Rules(parts, prefix, start.end)

    def check_vocabulary(self, start: Start, size: int) -> None:
        """Raise an error if a given token is not one of the `size` that the model scores."""
        given = {"end": [start.end], "banned": self.banned, "silent": start.silent}
        given |= {f"prefix of input {row}": prefix for row, prefix in enumerate(start.prefixes)}
        wrong = [(name, token) for name, tokens in given.items() for token in tokens if not 0 <= token < size]
        rule = f"is not in the vocabulary, which has 0 to {size - 1}"
        raise_all([f"token {token} ({name}) {rule}" for name, token in wrong])

    def _check_prefixes(self, start: Start) -> None:
        problems, refused = [], {start.end, *self.banned, *start.silent}
        for row, (prefix, limit) in enumerate(zip(start.prefixes, self.limits(start), strict=False)):
            rule = f"in the prefix of input {row} is banned, silent or the end; remove it"
            problems += [f"token {token} {rule}" for token in prefix if token in refused]
            if len(prefix) > limit:
                problems.append(
                    f"the prefix of input {row} has {len(prefix)} tokens, and {limit} are allowed: token "
                    f"{prefix[limit]} is the first beyond the limit; shorten the prefix or raise max_length"
                )
        raise_all(problems)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(SearchOptions):
    """How a token is drawn: temperature, then the best `top_k`, then the nucleus of mass `top_p` among them.

    Temperature 0 is greedy search. Tokens that tie with the last one kept are kept, too.
    """

    temperature: Annotated[float, Ge(0), Lt(math.inf)] = 1.0  # p ∝ exp(log p / temperature)
    top_k: Whole = 0  # Fan et al. 2018; 0: all
    top_p: Annotated[float, Gt(0), Le(1)] = 1.0  # Holtzman et al. 2020; 1: all
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class BeamOptions(SearchOptions):
    """Width, ranking and stopping of a beam.

    A sentence stops when no live hypothesis can still get among its `n_best` ended ones. `patience` stops it
    earlier, when patience · size hypotheses have ended (Kasai et al. 2022); this can miss the best one. A
    beam of one is greedy search: it stops at its first end.
    """

    size: Width = 4
    n_best: Width = 1
    length_penalty: Annotated[float, Ge(-10), Le(10)] = 0.6  # above 0 favours long outputs
    length_rule: Literal["wu", "mean", "none"] = "wu"
    patience: Annotated[float, Gt(0)] = math.inf

    ordered = (*SearchOptions.ordered, ("n_best", "size"))

    def penalty(self, length: int) -> float:
        return LENGTH_RULES[self.length_rule](length) ** self.length_penalty

    @property
    def enough(self) -> float:
        """The number of ended hypotheses that always stops a sentence."""
        return 1 if self.size == 1 else max(self.n_best, self.patience * self.size)


def raise_all(problems: Sequence[Problem | str]) -> None:
    if problems:
        raise ConfigError(*problems)

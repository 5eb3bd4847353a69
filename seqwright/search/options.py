"""What a search is told: where it starts, and how it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqwright.errors import ConfigError
from seqwright.search.filters import BannedTokens, Filter, ForcedPrefix, MinimumLength, NoRepeat, Rules

LENGTH_RULES: dict[str, Callable[[int], float]] = {  # penalty(length) = rule(length) ** length_penalty
    "wu": lambda length: (5 + length) / 6,  # Wu et al. 2016, eq. 14
    "mean": lambda length: length,  # with a length_penalty of 1 the mean log-probability of a token
    "none": lambda length: 1.0,
}


@dataclass(frozen=True, kw_only=True)
class Start:
    """The inputs of one search. The state before the first step has `rows` rows, one for each input.

    What is given per input has one entry for each, so that an output never depends on its neighbours.
    """

    rows: int
    first: int  # the token before the first one, usually called bos
    end: int  # the token that ends an output, usually called eos
    silent: tuple[int, ...] = ()  # tokens that no output has and the model scores all the same: pad, bos
    prefixes: Sequence[Sequence[int]] = ()  # tokens that each output must begin with; empty: none
    limits: Sequence[int] = ()  # maximum length of each output; empty: `max_length` of the options
    seeds: Sequence[int] = ()  # randomness of each output; empty: derived from (seed, row)
    device: torch.device | str | None = None  # where the model wants its tokens

    def __post_init__(self) -> None:
        problems = [
            f"{name} has {len(given)} entries for {self.rows} inputs, give one for each or none"
            for name, given in (("prefixes", self.prefixes), ("limits", self.limits), ("seeds", self.seeds))
            if len(given) not in (0, self.rows)
        ]
        problems += [
            f"the limit of input {row} is {limit}, it must be at least 1"
            for row, limit in enumerate(self.limits)
            if limit < 1
        ]
        raise_all(problems)

    def silent_index(self) -> Tensor | None:
        """The silent tokens as `log_probabilities` takes them."""
        if not self.silent:
            return None
        return torch.tensor(self.silent, dtype=torch.int64, device=self.device)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Lengths and filters. A length counts tokens without the first one; the end is one of `max_length`."""

    min_length: int = 0  # no end before this many tokens
    max_length: int = 256  # steps at most; what has not ended by then is cut
    no_repeat: int = 0  # n-grams of this size occur once at most (Paulus et al. 2018, section 2.5); 0: off
    banned: tuple[int, ...] = ()  # tokens that never occur
    filters: tuple[Filter, ...] = ()  # further ones, applied in this order before those above

    def __post_init__(self) -> None:
        raise_all(self.problems())

    def problems(self) -> list[str]:
        """Every broken rule, each with the value and the range."""
        found = out_of_range(self, min_length=(0, None), max_length=(1, None))
        if not found and self.min_length > self.max_length:
            found.append(f"min_length is {self.min_length}, it must be at most max_length, {self.max_length}")
        return found + out_of_range(self, no_repeat=(0, None))

    def limits(self, start: Start) -> list[int]:
        return list(start.limits) or [self.max_length] * start.rows

    def rules(self, start: Start) -> Rules:
        """The filters in their order; the prefix comes last, and it wins where they contradict it."""
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
        """Every token that was given must be one of the `size` that the model scores."""
        given = [("end", start.end), *(("banned", token) for token in self.banned)]
        given += [("silent", token) for token in start.silent]
        given += [
            (f"prefix of input {row}", token) for row, prefix in enumerate(start.prefixes) for token in prefix
        ]
        raise_all(
            [
                f"token {token} ({where}) is not in the vocabulary, which has 0 to {size - 1}"
                for where, token in given
                if not 0 <= token < size
            ]
        )

    def _check_prefixes(self, start: Start) -> None:
        problems = []
        for row, (prefix, limit) in enumerate(zip(start.prefixes, self.limits(start), strict=False)):
            problems += [
                f"token {token} in the prefix of input {row} is banned, silent or the end; take it out"
                for token in prefix
                if token == start.end or token in self.banned or token in start.silent
            ]
            if len(prefix) > limit:
                problems.append(
                    f"the prefix of input {row} has {len(prefix)} tokens, and {limit} are allowed: token "
                    f"{prefix[limit]} is the first that does not fit; shorten it or raise max_length"
                )
        raise_all(problems)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(SearchOptions):
    """How a token is drawn: temperature, then the best `top_k`, then the nucleus of mass `top_p` among them.

    Temperature 0 is greedy search by definition. Tokens that tie with the last one that stays, stay.
    """

    temperature: float = 1.0  # p ∝ exp(log p / temperature)
    top_k: int = 0  # Fan et al. 2018; 0: all
    top_p: float = 1.0  # Holtzman et al. 2020; 1: all
    seed: int = 0

    def problems(self) -> list[str]:
        found = super().problems() + out_of_range(self, top_k=(0, None))
        if not 0 <= self.temperature < math.inf:
            found.append(f"temperature is {self.temperature}, it must be a number from 0 (greedy) upwards")
        if not 0 < self.top_p <= 1:
            found.append(f"top_p is {self.top_p}, it must be over 0 and at most 1")
        return found


@dataclass(frozen=True, kw_only=True)
class BeamOptions(SearchOptions):
    """Width, ranking and stopping of a beam.

    A sentence stops when no live hypothesis can still come among its `n_best` ended ones. `patience` stops it
    earlier, when patience · size hypotheses have ended (Kasai et al. 2022): 1 is first come, first served,
    and can miss the best. A beam of one is greedy search by definition: it stops at its first end.
    """

    size: int = 4
    n_best: int = 1
    length_penalty: float = 0.6  # over 0 favours long outputs, under 0 short ones
    length_rule: str = "wu"
    patience: float = math.inf

    def problems(self) -> list[str]:
        found = out_of_range(self, size=(1, 4096), n_best=(1, 4096))
        if not found and self.n_best > self.size:
            found.append(f"n_best is {self.n_best}, it must be at most size, {self.size}")
        if not -10 <= self.length_penalty <= 10:
            found.append(f"length_penalty is {self.length_penalty}, it must be a number from -10 to 10")
        if self.length_rule not in LENGTH_RULES:
            found.append(f"length_rule is {self.length_rule!r}, it must be one of {', '.join(LENGTH_RULES)}")
        if not self.patience > 0:
            found.append(f"patience is {self.patience}, it must be over 0")
        return super().problems() + found

    def penalty(self, length: int) -> float:
        return LENGTH_RULES[self.length_rule](length) ** self.length_penalty

    @property
    def enough(self) -> float:
        """Ended hypotheses after which a sentence stops in any case."""
        return 1 if self.size == 1 else max(self.n_best, self.patience * self.size)


def out_of_range(options: object, **ranges: tuple[int, int | None]) -> list[str]:
    """Problems of the options that are no whole number within their range."""
    found = []
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if not isinstance(value, int) or value < low or (high is not None and value > high):
            limits = f"at least {low}" if high is None else f"from {low} to {high}"
            found.append(f"{name} is {value}, it must be a whole number {limits}")
    return found


def raise_all(problems: list[str]) -> None:
    if problems:
        raise ConfigError("; ".join(problems))

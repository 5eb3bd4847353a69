"""Toy models whose logits depend on the input and on the whole history, and slow searches to compare with."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqwright.search import Hypothesis, Start

FIRST, END = 0, 1


@dataclass(frozen=True)
class ToyState:
    """Remembers everything. With a width it checks that rows stay grouped by input, that many together."""

    sources: tuple[int, ...]
    histories: tuple[tuple[int, ...], ...]
    width: int = 0

    @classmethod
    def start(cls, sources: Sequence[int], width: int = 0) -> ToyState:
        return cls(tuple(sources), ((),) * len(sources), width)

    def select(self, rows: Sequence[int]) -> ToyState:
        assert type(rows) is list
        assert all(type(row) is int for row in rows)
        assert rows != list(range(len(self.sources))), "selecting everything in order is wasted work"
        sources = tuple(self.sources[row] for row in rows)
        for place in range(0, len(sources), self.width) if self.width else ():
            group = sources[place : place + self.width]
            assert group == (group[0],) * self.width
        return ToyState(sources, tuple(self.histories[row] for row in rows), self.width)


@dataclass(frozen=True)
class ToyModel:
    """Logits drawn from (seed, input, history); `spread` makes them sharp or flat."""

    size: int
    seed: int = 0
    spread: float = 2.0

    def logits(self, source: int, history: tuple[int, ...]) -> tuple[float, ...]:
        return _drawn(self, source, history)

    def step(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        assert tokens.shape[0] == len(state.sources)
        assert tokens.dtype is torch.int64
        histories = tuple(
            (*history, *new) for history, new in zip(state.histories, tokens.tolist(), strict=True)
        )
        rows = [self.logits(*row) for row in zip(state.sources, histories, strict=True)]
        return torch.tensor(rows, dtype=torch.float64), ToyState(state.sources, histories, state.width)

    def prefill(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        scores = []
        for t in range(tokens.shape[1] - 1):
            logits, state = self.step(tokens[:, t : t + 1], state)
            scores.append(logits.log_softmax(-1).gather(1, tokens[:, t + 1 : t + 2]))
        return torch.cat(scores, 1), state

    def log_probs(self, source: int, tokens: Sequence[int]) -> list[float]:
        """Teacher forcing: the log-probability of each token, all fed through `step`."""
        state, scores = ToyState.start([source]), []
        for token, following in itertools.pairwise([FIRST, *tokens]):
            logits, state = self.step(torch.tensor([[token]]), state)
            scores.append(logits.log_softmax(-1)[0, following].item())
        return scores


@functools.cache
def _drawn(model: ToyModel, source: int, history: tuple[int, ...]) -> tuple[float, ...]:
    generator = random.Random(f"{model.seed}/{source}/{history}")
    return tuple(generator.gauss(0, model.spread) for _ in range(model.size))


def start(rows: int, **given: object) -> Start:
    return Start(rows=rows, first=FIRST, end=END, **given)  # type: ignore[arg-type]


def all_ended(
    model: ToyModel, source: int, penalty: Callable[[int], float], shortest: int, limit: int
) -> list[tuple[float, list[int]]]:
    """Every output that ends within the limit, best first."""
    words = [token for token in range(model.size) if token != END]
    found = []
    for length in range(shortest, limit):
        for tokens in itertools.product(words, repeat=length):
            total = math.fsum(model.log_probs(source, [*tokens, END]))
            found.append((total / penalty(length + 1), list(tokens)))
    return sorted(found, reverse=True)


def patient_beam(
    model: ToyModel, source: int, size: int, penalty: Callable[[int], float], limit: int
) -> list[tuple[float, list[int]]]:
    """Beam search by lists that never stops before the limit: the ended ones, best first."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended = []
    for length in range(1, limit + 1):
        candidates = []
        for total, tokens in live:
            logits, _ = model.step(torch.tensor([[FIRST, *tokens]]), ToyState.start([source]))
            for token, score in enumerate(logits.log_softmax(-1)[0].tolist()):
                candidates.append((total + score, [*tokens, token]))
        candidates.sort(reverse=True)
        ended += [(total / penalty(length), t[:-1]) for total, t in candidates[:size] if t[-1] == END]
        live = [(total, tokens) for total, tokens in candidates[: 2 * size] if tokens[-1] != END][:size]
    return sorted(ended, reverse=True)


def check_scores(model: ToyModel, source: int, hypothesis: Hypothesis) -> None:
    """Tokens, their scores and their sum are those of teacher forcing."""
    ending = [END] if hypothesis.finish_reason == "end" else []
    wanted = model.log_probs(source, [*hypothesis.tokens, *ending])
    torch.testing.assert_close(hypothesis.token_scores, wanted, rtol=0, atol=1e-9)
    assert math.isclose(hypothesis.log_prob, math.fsum(wanted), abs_tol=1e-9)

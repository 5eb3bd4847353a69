"""Hierarchical recurrent attention: against a loop written from the equations, and its gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import TOLERANCE
from torch.testing import assert_close

from seqwright.nn.hierarchical_attention import HierarchicalAttention
from seqwright.nn.masks import AttentionContext, Places

SIZE, MEMORY = 4, 6
TURNS = [[2, 3, 1], [4], []]  # the numbers of words in the turns of each group, first turn first


def attention(**options: Any) -> HierarchicalAttention:
    torch.manual_seed(1)
    part = HierarchicalAttention(SIZE, MEMORY, **options).double()
    torch.nn.init.normal_(part.start)
    return part


def words(turns: list[list[int]]) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [
        [torch.randn(length, MEMORY, dtype=torch.float64, generator=generator) for length in row]
        for row in turns
    ]


def batch(rows: list[list[torch.Tensor]]) -> list[tuple[torch.Tensor, Places]]:
    """The words of the last turn of all groups, of the one before it, …; padding is not zero."""
    found = []
    for number in range(1, max(map(len, rows)) + 1):
        own = [row[-number] if number <= len(row) else torch.empty(0, MEMORY) for row in rows]
        width = max(map(len, own))
        hidden = torch.full((len(rows), width, MEMORY), 7.0, dtype=torch.float64)
        for place, vectors in enumerate(own):
            hidden[place, : len(vectors)] = vectors
        seen = torch.arange(width) < torch.tensor([len(vectors) for vectors in own])[:, None]
        found.append((hidden, Places.run(0, width).with_seen(seen)))
    return found


def context(part: Any, queries: torch.Tensor, memory: list[tuple[torch.Tensor, Places]]) -> torch.Tensor:
    keys = [part.keys(*turn) for turn in memory]
    return part(queries, AttentionContext(Places.run(0, queries.shape[1])), *keys)


def by_loop(part: Any, query: torch.Tensor, turns: list[torch.Tensor]) -> torch.Tensor:
    """The context of one query, one word and one turn after the other (Xing et al. 2018)."""
    w, v = part.words.query.weight, part.words.key_value.weight
    state, states = part.start, []
    for turn in reversed(turns):
        asks = w @ torch.cat([query, state])
        scores = torch.stack([part.words.score.weight[0] @ torch.tanh(asks + v @ word) for word in turn])
        alphas = scores.exp() / scores.exp().sum()
        read = sum(alpha * word for alpha, word in zip(alphas, turn, strict=True))
        state = gru(part.cell, read, state)
        states.insert(0, state)
    w, v = part.turns.query.weight, part.turns.key_value.weight
    scores = torch.stack([part.turns.score.weight[0] @ torch.tanh(w @ query + v @ each) for each in states])
    betas = scores.exp() / scores.exp().sum()
    return sum(beta * each for beta, each in zip(betas, states, strict=True))


def gru(cell: Any, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Reset, update and new gate (the documentation of torch.nn.GRUCell)."""
    own = (cell.weight_ih @ x + cell.bias_ih).chunk(3)
    past = (cell.weight_hh @ h + cell.bias_hh).chunk(3)
    reset, update = (torch.sigmoid(a + b) for a, b in zip(own[:2], past[:2], strict=True))
    return (1 - update) * torch.tanh(own[2] + reset * past[2]) + update * h


@pytest.mark.parametrize("turn_size", [None, 3])
def test_the_context_is_that_of_a_loop_over_turns_and_words(turn_size):
    """Three queries in each group; turns of different numbers and lengths, and no turn at all."""
    part, rows = attention(turn_size=turn_size), words(TURNS)
    queries = torch.randn(3, 3, SIZE, dtype=torch.float64)
    found = context(part, queries, batch(rows))
    assert found.shape == (3, 3, turn_size or SIZE)
    for group, turns in enumerate(rows[:2]):
        for number in range(3):
            assert_close(found[group, number], by_loop(part, queries[group, number], turns), **TOLERANCE)
    assert not found[2].any()


def test_gradients_are_those_of_finite_differences():
    part, rows = attention(), words([[2, 3], [2]])
    memory = batch(rows)
    vectors = [hidden.clone().requires_grad_() for hidden, _ in memory]
    queries = torch.randn(2, 1, SIZE, dtype=torch.float64, requires_grad=True)

    def run(queries, *inputs):
        turns = [(hidden, places) for hidden, (_, places) in zip(inputs, memory, strict=False)]
        return context(part, queries, turns)

    assert torch.autograd.gradcheck(run, (queries, *vectors, *part.parameters()))


def test_a_turn_changes_with_the_query_and_with_later_turns():
    """The weights of words depend on the state of the decoder, and on what was said after them."""
    part, (turns,) = attention(), words([[3, 2]])
    other = [turns[0], turns[1] + 1]
    queries, looks = torch.randn(1, 2, SIZE, dtype=torch.float64), []
    part.words.recorder = looks.append
    with torch.no_grad():
        for one in (turns, other):
            context(part, queries, batch([one]))
    _, first, _, after_other = (look.weights[0, 0] for look in looks)  # (Q, words) of the first turn
    assert not torch.allclose(first[0], first[1])
    assert not torch.allclose(first, after_other)

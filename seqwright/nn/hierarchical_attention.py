"""Hierarchical recurrent attention: to the words of each turn, and to the turns (Xing et al. 2018)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.nn.attention import Attention, Spec
from seqwright.nn.kv_cache import Keys
from seqwright.nn.masks import AttentionContext, Places

START = 0.01  # the standard deviation of the first state of the turns


class HierarchicalAttention(nn.Module):
    """The context c of a query s from the words h_ij of turns 1 … m (Xing et al. 2018):

        α_ij = softmax_j(η(s, l_(i+1), h_ij)),  r_i = Σ_j α_ij h_ij,  l_i = GRU(l_(i+1), r_i)    i = m … 1
        β_i  = softmax_i(η'(s, l_i)),           c = Σ_i β_i l_i

    The query is the previous state of the decoder in the paper, so that the vector r_i of a turn changes with
    every step. A later turn decides which words of an earlier one matter, hence the order. l_(m+1) is
    learned. With the additive score, η(s, l, h) = v·tanh(W [s; l] + V h) and η'(s, l) = v'·tanh(W' s + V' l).

    turn_size: the size of l (default that of the query). score: that of both attentions.
    """

    def __init__(
        self,
        size: int,
        memory_size: int,
        *,
        turn_size: Count | None = None,
        score: Spec = "additive",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.out_size = own = turn_size or size
        options: dict[str, Any] = {"head_size": size, "score": score, "bias": False, "dropout": dropout}
        self.words = Attention(size + own, memory_size, projections="qk", **options)
        self.cell = nn.GRUCell(memory_size, own)
        self.start = nn.Parameter(torch.empty(own))
        nn.init.normal_(self.start, std=START)
        self.turns = Attention(size, own, projections="qk", **options)

    def keys(self, words: Tensor, places: Places) -> Keys:
        """The keys of the words of one turn in each group (G, K, memory size)."""
        return self.words.keys(words, places)

    def forward(self, query: Tensor, context: AttentionContext, *turns: Keys) -> Tensor:
        """query (G, Q, size) -> (G, Q, turn size). turns: the keys of each turn, the last turn first."""
        groups, count, _ = query.shape
        words, cell, each = self.words.bound(), self.cell, groups * count
        weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
        state, states, absent = self.start.expand(groups, count, -1), [], []
        for keys in turns:
            read = words(torch.cat([query, state], -1), context, keys)  # (G, Q, memory size)
            after = torch.gru_cell(read.flatten(0, 1), state.reshape(each, -1), *weights).view_as(state)
            missing = keys.places.padding(query.dtype).blind  # (G, 1, 1, 1), None: every group has the turn
            state = after if missing is None else torch.where(missing[:, 0], state, after)
            states.append(state)
            absent.append(missing)
        places = Places.run(0, len(turns), device=query.device).with_seen(_seen(absent, groups, count))
        keys = self.turns.keys(torch.stack(states, 2).flatten(0, 1), places)
        own = AttentionContext(Places.run(0, 1, device=query.device))
        return self.turns(query.reshape(each, 1, -1), own, keys).view(groups, count, -1)


def _seen(absent: list[Tensor | None], groups: int, count: int) -> Tensor | None:
    """Which turns each query sees (G · Q, turns); None: all. absent: (G, 1, 1, 1) of each turn."""
    known = next((missing for missing in absent if missing is not None), None)
    if known is None:
        return None
    none = torch.zeros_like(known)
    missing = torch.cat([none if each is None else each for each in absent], -1)  # (G, 1, 1, turns)
    return ~missing.expand(-1, count, -1, -1).reshape(groups * count, -1)

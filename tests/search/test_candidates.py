"""The ranking by blocks equals one topk over everything."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqwright.search.stepping import BLOCK, best_candidates


@settings(max_examples=60)
@given(
    st.integers(0, 1000),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 20 * BLOCK),
    st.integers(1, 30),
    st.booleans(),
)
def test_blocks_change_nothing(seed, groups, width, size, count, sparse):
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(groups * width, size, generator=generator)
    log_probs[:, -1] += 3  # the short last block has good tokens, too
    if sparse:
        log_probs[torch.rand(log_probs.shape, generator=generator) < 0.99] = -math.inf
    carried = torch.randn(groups, width, generator=generator, dtype=torch.float64)
    carried[:, 1:][torch.rand(groups, width - 1, generator=generator) < 0.3] = -math.inf
    count = min(count, width * size)
    found = best_candidates(log_probs, carried, count)
    grouped = log_probs.view(groups, width, size)
    sums = grouped + carried[..., None]
    for of_group, rows, brought in zip(grouped, sums, found, strict=True):
        seats, tokens, scores = brought
        assert scores == of_group[seats, tokens].tolist()
        alive = [place for place in zip(seats, tokens, strict=True) if rows[place] > -math.inf]
        wanted = [best for best in rows.flatten().topk(count).values.tolist() if best > -math.inf]
        assert [rows[place].item() for place in alive] == wanted
        assert len(set(alive)) == len(alive)
        assert -math.inf not in scores


@given(st.sampled_from([5, 8 * BLOCK + 3]), st.integers(0, 3))
def test_not_a_number_is_above_all(size, row):
    log_probs = torch.zeros(4, size)
    log_probs[row, size - 1] = math.nan
    carried = torch.tensor([[0.0, -math.inf], [0.0, -math.inf]], dtype=torch.float64)
    assert math.isnan(best_candidates(log_probs, carried, 2)[row // 2].scores[0])

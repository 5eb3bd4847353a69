"""Every score equals a loop over queries and keys; the known ones equal their formula."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seqwright.errors import ConfigError
from seqwright.nn.scores import SCORES, Cosine

LOOPS = {
    "dot": lambda part, h, q, k: q @ k,
    "scaled_dot": lambda part, h, q, k: q @ k / math.sqrt(len(k)),
    "cosine": lambda part, h, q, k: part.scale * (q @ k) / max(q.norm() * k.norm(), 1e-300),
    "bilinear": lambda part, h, q, k: sum(
        q[i] * part.weight[h, i, j] * k[j] for i in range(len(q)) for j in range(len(k))
    ),
    "additive": lambda part, h, q, k: sum(
        part.weight[h, i] * math.tanh(float(q[i] + k[i])) for i in range(len(k))
    ),
}


@pytest.mark.parametrize("name", SCORES.names())
def test_a_score_is_about_one_query_and_one_key(name):
    score = SCORES.build(name, heads=2, query_size=4, key_size=4)
    q, k = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 6, 4)
    whole = score(q, k)
    for i, j in torch.cartesian_prod(torch.arange(5), torch.arange(6)).tolist():
        assert_close(score(q[:, :, i : i + 1], k[:, :, j : j + 1])[..., 0, 0], whole[..., i, j])


@pytest.mark.parametrize("name", LOOPS)
@given(heads=st.integers(1, 3), queries=st.integers(1, 3), keys=st.integers(1, 4), size=st.integers(1, 5))
def test_a_score_equals_its_loop(name, heads, queries, keys, size):
    score = SCORES.build(name, heads=heads, query_size=size, key_size=size).double()
    q = torch.randn(2, heads, queries, size, dtype=torch.float64)
    k = torch.randn(2, heads, keys, size, dtype=torch.float64)
    expected = torch.zeros(2, heads, queries, keys, dtype=torch.float64)
    with torch.no_grad():
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, expected.shape)).tolist():
            expected[b, h, i, j] = LOOPS[name](score, h, q[b, h, i], k[b, h, j])
        assert_close(score(q, k), expected)
        if score.multiplicative:  # what the fused kernels compute
            keys = score.prepare_keys(k)
            assert_close(score.factor * score.prepare(q) @ keys.transpose(-1, -2), expected)
            assert_close(score.prepare_keys(keys), keys)


def test_bilinear_compares_different_sizes():
    score = SCORES.build("bilinear", heads=2, query_size=3, key_size=5)
    q, k = torch.randn(1, 2, 4, 3), torch.randn(1, 2, 6, 5)
    assert_close(score(q, k), torch.einsum("bhqi,hij,bhkj->bhqk", q, score.weight, k))


def test_temperature_divides_the_score():
    q, k = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 3, 4)
    sizes = {"heads": 1, "query_size": 4, "key_size": 4}
    warm = SCORES.build({"kind": "scaled_dot", "temperature": 2.0}, **sizes)
    assert_close(2 * warm(q, k), SCORES.build("scaled_dot", **sizes)(q, k))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_is_above_zero(temperature):
    spec = {"kind": "scaled_dot", "temperature": temperature}
    with pytest.raises(ConfigError, match=rf"temperature.*{temperature}.*above 0"):
        SCORES.build(spec, query_size=4, key_size=4)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine", "additive"])
def test_sizes_that_cannot_be_compared(name):
    with pytest.raises(ConfigError, match=rf"score {name}.*query has 4.*key 6.*bilinear"):
        SCORES.build(name, heads=1, query_size=4, key_size=6)


def test_all_heads_share_the_factor_of_cosine():
    """As the page about models describes it."""
    score = Cosine(query_size=4, key_size=4)
    assert [tuple(each.shape) for each in score.parameters()] == [()]
    page = Path(__file__).parents[2] / "docs" / "models.md"
    (row,) = (line for line in page.read_text("utf-8").splitlines() if '`score = "cosine"`' in line)
    assert "one learned factor for each attention" in row

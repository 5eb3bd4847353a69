"""The mixture of experts against a loop over tokens, its balance and its capacity."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seqwright.errors import ConfigError
from seqwright.nn.feedforward import Experts, recorded_usage
from seqwright.nn.loss import collected_terms


def made(**options) -> Experts:
    torch.manual_seed(5)
    return Experts(size=6, hidden=8, **options).double()


@pytest.mark.parametrize("top", [1, 2, 3])
def test_each_token_is_the_weighted_sum_of_its_best_experts(top):
    part, x = made(experts=3, top=top).eval(), torch.randn(2, 5, 6, dtype=torch.float64)
    found = part(x)
    for row, output in zip(x.flatten(0, 1), found.flatten(0, 1), strict=True):
        p = (part.router.weight @ row).softmax(-1)
        best = p.argsort(descending=True)[:top]
        gates = p[best] / (p[best].sum() if top > 1 else 1)
        assert_close(output, sum(g * part.experts[i](row[None])[0] for g, i in zip(gates, best, strict=True)))


def test_neighbours_change_nothing_outside_of_training():
    part, x = made(capacity=0.1).eval(), torch.randn(40, 6, dtype=torch.float64)
    alone = torch.cat([part(row[None]) for row in x])
    assert_close(part(x), alone)


@pytest.mark.parametrize("top", [1, 2])
def test_an_expert_over_its_capacity_skips_the_later_tokens(top):
    part = made(experts=2, top=top, capacity=0.5).train()
    torch.nn.init.zeros_(part.router.weight)
    part.router.weight.data[0] = 1.0  # positive inputs choose the first expert
    x = torch.rand(8, 6, dtype=torch.float64) + 0.1
    taken = (part(x) != 0).any(-1)
    most = 8 * top // 4
    assert taken.tolist() == [i < most for i in range(8)]


def test_the_balance_is_least_for_equal_use():
    part = made(experts=4, top=1, balance=1.0).train()
    x = torch.eye(6, dtype=torch.float64)[:4].repeat(25, 1)
    values = []
    for router in (torch.eye(4, 6), torch.tensor([[1.0] * 6, *[[0.0] * 6] * 3])):
        part.router.weight.data = 20 * router.double()
        with collected_terms() as terms:
            part(x)
        values.append(terms[0].item() / len(x))
    assert values[0] == pytest.approx(1.0, abs=1e-6)
    assert values[1] == pytest.approx(4.0, abs=1e-3)


def test_the_router_learns_from_both_losses():
    part = made(top=1).train()
    with collected_terms() as terms:
        total = part(torch.randn(9, 6, dtype=torch.float64)).square().sum()
    for loss in (total, terms[0]):
        (slope,) = torch.autograd.grad(loss, part.router.weight, retain_graph=True)
        assert slope.any()


def test_nothing_is_added_outside_of_a_training_objective():
    made().train()(torch.randn(3, 6, dtype=torch.float64))
    with collected_terms() as terms:
        made().eval()(torch.randn(3, 6, dtype=torch.float64))
    assert terms == []


def test_usage_counts_the_choices():
    part = made(experts=3, top=2).eval()
    model = torch.nn.Sequential(part)
    with recorded_usage(model) as counts:
        model(torch.randn(7, 6, dtype=torch.float64))
        model(torch.randn(4, 6, dtype=torch.float64))
    assert int(counts["0"].sum()) == 22
    assert part.recorder is None


def test_more_choices_than_experts_are_refused():
    with pytest.raises(ConfigError, match="top is 5, but there are 4 experts"):
        made(top=5)

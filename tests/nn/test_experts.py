"""The mixture of experts against a loop over tokens, its balance and its capacity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from seqwright.data.batch import Batch, Tokens
from seqwright.errors import ConfigError
from seqwright.models.building import build_model
from seqwright.nn.blocks import Stack
from seqwright.nn.feedforward import Experts, recorded_usage
from seqwright.nn.loss import collected_terms
from seqwright.nn.masks import Places


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


ROUTED = {"kind": "experts", "experts": 3, "top": 2, "capacity": 0.8, "balance": 1.0}
SMALL = {"size": 8, "layers": 2, "heads": 2, "hidden": 8, "dropout": 0.0}


def observed(model, call):
    """The result of a call in training, the usage of each mixture and the balance terms."""
    with recorded_usage(model.train()) as counts, collected_terms() as terms:
        found = call()
    return found, {name: each.tolist() for name, each in counts.items()}, terms


@pytest.mark.parametrize("hooked", [False, True])
def test_padding_goes_to_no_expert(hooked):
    """In training, with a capacity: 8 places of padding change no output, no usage and no balance."""
    torch.manual_seed(3)
    stack = Stack(**SMALL, feed_forward=ROUTED).double()
    if hooked:
        stack.blocks[0].feed_forward.register_forward_hook(lambda *_: None)
    x = torch.randn(2, 13, 8, dtype=torch.float64)
    real = (torch.arange(13) < 5).expand(2, -1)
    alone, usage, balance = observed(stack, lambda: stack(x[:, :5], Places.run(0, 5))[0])
    padded, usage_padded, balance_padded = observed(
        stack, lambda: stack(x, Places.run(0, 13).with_seen(real))[0]
    )
    assert usage == usage_padded
    assert_close(padded[:, :5], alone)
    assert_close(balance_padded, balance)


def test_a_batch_of_padding_makes_no_nan():
    part, x = made(capacity=0.5).train(), torch.randn(2, 3, 6, dtype=torch.float64)
    with collected_terms() as terms:
        found = part(x, torch.zeros(2, 3, dtype=torch.bool))
    assert not found.any()
    assert all(term.isfinite() for term in terms)


@pytest.mark.parametrize("kind", ["encoder_decoder", "pointer_generator", "decoder_only", "prompted"])
def test_the_padding_of_a_target_goes_to_no_expert(kind):
    """No token of a decoder sees it, so its attention needs no mask; a mixture counts tokens and does."""
    torch.manual_seed(3)
    alone = kind in ("decoder_only", "prompted")
    sizes = {"vocabulary": 12} if alone else {"source_vocabulary": 12, "target_vocabulary": 12}
    description = {"kind": "decoder_only" if alone else kind, **SMALL, "feed_forward": ROUTED}
    model = build_model(
        {**description, **({"source_loss": 0.5} if kind == "prompted" else {})}, **sizes
    ).double()
    ids = torch.tensor([[2, 5, 6, 7], [2, 8, 9, 4]])
    source = None if kind == "decoder_only" else Tokens(torch.tensor([[4, 5, 6], [7, 8, 9]]))

    def batch(more: int) -> Batch:
        target = torch.nn.functional.pad(ids, (0, more))
        expected = torch.nn.functional.pad(ids.roll(-1, 1), (0, more))
        lengths = torch.full((2,), 4) if more else None
        return Batch(source, Tokens(target, lengths), expected, np.arange(2))

    loss, usage, terms = observed(model, lambda: model.loss(batch(0)).total)
    padded, usage_padded, terms_padded = observed(model, lambda: model.loss(batch(8)).total)
    assert usage == usage_padded
    assert_close(padded, loss)
    assert_close(terms_padded, terms)

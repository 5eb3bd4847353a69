"""Optimizers compared with reference implementations, and their state as tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seqwright.errors import ConfigError, ModelError
from seqwright.models.building import build_model
from seqwright.training.optimizer import OPTIMIZERS, Optimizer, is_table, orthogonalised


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 7))


def build(name: str, model: nn.Module, **options: object) -> Optimizer:
    return OPTIMIZERS.build({"kind": name, **options}, model)


def descend(model: nn.Module, optimizer: Optimizer, steps: int, first: int = 0) -> list[float]:
    """Learn to predict the next of seven symbols; return the losses."""
    losses = []
    for step in range(first, first + steps):
        torch.manual_seed(step)
        symbols = torch.randint(7, (16,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(symbols), (symbols + 1) % 7)
        loss.backward()
        optimizer.step(1.0 if step % 2 else 0.5)
        losses.append(loss.item())
    return losses


def test_adamw_equals_that_of_torch():
    ours, theirs = network(), network()
    optimizer = build("adamw", ours, rate=0.01, betas=(0.9, 0.98), epsilon=1e-9, decay=0.1)
    matrices = [p for p in theirs.parameters() if p.dim() == 2]
    vectors = [p for p in theirs.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    oracle = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    for step in range(20):
        symbols = torch.randint(7, (16,))
        for model in (ours, theirs):
            model.zero_grad()
            nn.functional.cross_entropy(model(symbols), (symbols + 1) % 7).backward()
        factor = (step + 1) / 20
        optimizer.step(factor)
        for group in oracle.param_groups:
            group["lr"] = 0.01 * factor
        oracle.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_each_part_of_a_model_has_its_rate(name):
    """A part with a tenth of the rate moves a tenth as far in the first step."""
    before, moved = network(), {}
    for factor in (1.0, 0.1):
        model = network()
        optimizer = build(name, model, rate=0.01, decay=0.0, part_rates={"1": factor})
        descend(model, optimizer, 1)
        pairs = zip(model.named_parameters(), before.parameters(), strict=True)
        moved[factor] = {key: (after - old).detach() for (key, after), old in pairs}
    for key, move in moved[1.0].items():
        factor = 0.1 if key.startswith("1.") else 1.0
        torch.testing.assert_close(moved[0.1][key], factor * move, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_groups_have_rates_of_their_own(name):
    model = network()
    groups = build(name, model, rate=0.01, embedding_rate=3.0, vector_rate=0.5).parts
    rates = {id(p): group["lr"] for part in groups for group in part.param_groups for p in group["params"]}
    for label, parameter in model.named_parameters():
        factor = 0.5 if parameter.dim() < 2 else 3.0 if is_table(label) else 1.0
        assert rates[id(parameter)] == pytest.approx(0.01 * factor), label


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), seed=st.integers(0, 99))
def test_orthogonalised_singular_values_are_near_one(rows, columns, seed):
    """Jordan's coefficients bring singular values into about [0.7, 1.2] and not to 1 exactly."""
    random = torch.Generator().manual_seed(seed)
    u, _ = torch.linalg.qr(torch.randn(2, max(rows, columns), min(rows, columns), generator=random))
    v, _ = torch.linalg.qr(torch.randn(2, min(rows, columns), min(rows, columns), generator=random))
    sizes = torch.rand(2, min(rows, columns), generator=random) * 0.9 + 0.1
    matrices = u @ torch.diag_embed(sizes) @ v.mT
    matrices = matrices if rows > columns else matrices.mT
    found = orthogonalised(matrices)
    assert found.shape == matrices.shape
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.6
    assert values.max() < 1.3
    exact = u @ v.mT if rows > columns else (u @ v.mT).mT
    # the same directions: the result and U Vᵀ differ by a symmetric positive factor near 1
    assert torch.linalg.svdvals((exact.mT @ found) if rows > columns else (exact @ found.mT)).min() > 0.6


def test_muon_updates_inner_matrices_by_orthogonal_steps():
    model = network()
    optimizer = build("muon", model, rate=0.01, decay=0.0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    descend(model, optimizer, 1, first=1)
    change = model[1].weight.detach() - before["1.weight"]
    values = torch.linalg.svdvals(change) / (0.01 * 0.2 * 6**0.5)
    assert values.min() > 0.5
    assert values.max() < 1.35


LEARNED = {"kind": "transformer", "position": "learned"}
READER = {"kind": "encoder_only", "encoder": LEARNED}


@pytest.mark.parametrize(
    ("table", "outer"),
    [
        ({"kind": "ensemble", "tie": False}, {"members.0.output.weight", "members.1.output.weight"}),
        ({"kind": "decoder_only", "decoder": LEARNED, "tie": False}, {"output.weight"}),
        ({**READER, "head": "classes"}, {"head.linear.weight"}),
        ({**READER, "head": "tokens", "tie": False}, {"head.weight"}),
        ({"kind": "encoder_only", "encoder": "patches", "head": "classes"}, {"encoder.embed.weight"}),
    ],
    ids=["ensemble", "language model", "classifier", "masked language model", "vision"],
)
def test_muon_changes_only_matrices_inside_blocks(table, outer):
    facts = {"source_vocabulary": 9, "target_vocabulary": 9, "vocabulary": 9, "classes": 3}
    facts |= {"channels": 3, "image_size": 8}
    model = build_model({"size": 8, "layers": 1, "heads": 2, **table}, **facts)
    optimizer = build("muon", model)
    names = {parameter: name for name, parameter in optimizer.names.items()}
    by_muon = {names[p] for group in optimizer.parts[1].param_groups for p in group["params"]}
    inside = {name for name, p in model.named_parameters() if p.dim() == 2 and ".blocks." in name}
    assert by_muon == inside
    assert outer <= optimizer.names.keys() - inside


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_every_optimizer_learns(name):
    model = network()
    losses = descend(model, build(name, model, rate=0.02), 200)
    assert losses[0] > 1.5
    assert sum(losses[-10:]) / 10 < 0.4


@pytest.mark.parametrize("name", OPTIMIZERS.names())
@given(before=st.integers(0, 4))
def test_the_state_comes_back_bit_for_bit(name, before):
    model, other = network(), network()
    optimizer = build(name, model)
    descend(model, optimizer, before)
    other.load_state_dict(model.state_dict())
    again = build(name, other)
    again.load({key: value.clone() for key, value in optimizer.tensors().items()})
    assert optimizer.tensors().keys() == again.tensors().keys()
    assert descend(model, optimizer, 3, first=before) == descend(other, again, 3, first=before)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    for key, value in optimizer.tensors().items():
        assert torch.equal(value, again.tensors()[key])


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_only_matrices_decay(name):
    """With zero gradients, only decay changes a weight."""
    model = network()
    optimizer = build(name, model, rate=0.1, decay=0.5)
    before = [p.detach().clone() for p in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(1.0)
    for old, new in zip(before, model.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old * 0.95 if old.dim() == 2 else old)


def test_a_state_of_another_model_is_refused():
    model = network()
    optimizer = build("adamw", model)
    descend(model, optimizer, 1)
    with pytest.raises(ModelError, match=r"'3\.weight'"):
        build("adamw", model[:3]).load(optimizer.tensors())


def test_a_rate_must_be_above_zero():
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="rate of optimizer adamw is"):
            build("adamw", network(), rate=rate)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"betas": [0.9]}, r"betas of optimizer \w+ is \[0\.9\]; it must be a list of 2 numbers"),
        ({"betas": 0.9}, r"betas of optimizer \w+ is 0.9; it must be a list of 2 numbers"),
        ({"betas": [0.9, 1.0]}, r"betas of .* is \[0\.9, 1\.0\]; .*at least 0 and below 1"),
        ({"betas": ["high", 0.9]}, r"betas of .* is \['high', 0\.9\]"),
        ({"epsilon": -1e-9}, r"epsilon of optimizer \w+ is -1e-09"),
        ({"decay": -0.1}, r"decay of optimizer \w+ is -0.1"),
        ({"decay": float("nan")}, r"decay of optimizer \w+ is nan"),
    ],
)
@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_impossible_options_are_named(name, options, words):
    with pytest.raises(ConfigError, match=words):
        build(name, network(), **options)


def test_a_momentum_that_never_fades_is_refused():
    for momentum in (1.0, -0.1):
        with pytest.raises(ConfigError, match=f"momentum of optimizer muon is {momentum}"):
            build("muon", network(), momentum=momentum)

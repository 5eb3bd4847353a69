"""A bound form computes what the module computes: after training, loading, replacing parts and hooking."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from seqwright.nn import inference_weights as bound_module
from seqwright.nn.blocks import Stack
from seqwright.nn.dropout import Dropout
from seqwright.nn.feedforward import Plain
from seqwright.nn.inference_weights import MANY, FewRows, invalidate_inference_weights, padded_rows
from seqwright.nn.masks import Places

SIZE = 8


def stack() -> Stack:
    return Stack(size=SIZE, layers=2, heads=2, dropout=0.0).eval()


@torch.no_grad()
def quick(module: Stack, count: int = 1) -> torch.Tensor:
    """Without gradients: bound, and cached."""
    x = torch.linspace(-1, 1, count * SIZE).view(1, count, SIZE)
    return module(x, Places.run(0, count))[0]


def slow(module: Stack, count: int = 1) -> torch.Tensor:
    """With gradients: bound for this call, with plain products."""
    x = torch.linspace(-1, 1, count * SIZE).view(1, count, SIZE)
    return module(x, Places.run(0, count))[0].detach()


CHANGES = {
    "adamw": lambda m: step(m, torch.optim.AdamW(m.parameters(), lr=0.1, fused=True)),
    "adamw, foreach": lambda m: step(m, torch.optim.AdamW(m.parameters(), lr=0.1, foreach=True)),
    "sgd": lambda m: step(m, torch.optim.SGD(m.parameters(), lr=0.1)),
    "load": lambda m: m.load_state_dict(stack().state_dict()),
    "assign": lambda m: m.load_state_dict(stack().state_dict(), assign=True),
    "lerp": lambda m: lerp(m),
    "replaced part": lambda m: setattr(m.blocks[0], "feed_forward", stack().blocks[1].feed_forward),
    "moved": lambda m: m.to(torch.bfloat16).float(),
}


def step(module: Stack, optimizer: torch.optim.Optimizer) -> None:
    x = torch.randn(2, 3, SIZE)
    module(x, Places.run(0, 3))[0].square().sum().backward()
    optimizer.step()


@torch.no_grad()
def lerp(module: Stack) -> None:
    weights = list(module.parameters())
    torch._foreach_lerp_(weights, [torch.randn_like(w) for w in weights], 0.5)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("count", [1, 5])
def test_every_change_is_seen(change: str, count: int) -> None:
    module = stack()
    before = quick(module, count)
    CHANGES[change](module)
    now = quick(module, count)
    assert not torch.equal(now, before)
    assert_close(now, slow(module, count))


def test_an_optimizer_in_eval_mode_is_followed_step_by_step() -> None:
    module = stack()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        step(module, optimizer)
        assert_close(quick(module), slow(module))


def test_a_fused_step_without_a_forward_needs_invalidation() -> None:
    """Gradients from another process: nothing in this one shows that the weights have changed."""
    module = stack()
    before = quick(module)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.AdamW(module.parameters(), lr=0.1, fused=True).step()
    invalidate_inference_weights(torch.nn.ModuleList([module]))
    now = quick(module)
    assert not torch.equal(now, before)
    assert_close(now, slow(module))


def test_a_hook_is_called_and_taken_away() -> None:
    module, calls = stack(), []
    quick(module)
    handle = module.blocks[1].register_forward_hook(lambda *given: calls.append(1))
    quick(module)
    assert len(calls) == 1
    handle.remove()
    quick(module)
    assert len(calls) == 1


def test_dropout_follows_the_mode() -> None:
    module = Stack(size=SIZE, layers=1, heads=2, dropout=0.5)
    assert torch.equal(quick(module.eval()), quick(module.eval()))
    assert not torch.equal(quick(module.train()), quick(module.train()))


def test_dropout_follows_the_mode_of_each_part() -> None:
    """To draw several outputs (Gal & Ghahramani 2016) only the dropouts are set to training."""
    module = Stack(size=SIZE, layers=1, heads=2, dropout=0.5).eval()
    before = quick(module)
    parts = [part for part in module.modules() if isinstance(part, Dropout)]
    for part in parts:
        part.train()
    assert not torch.equal(quick(module), quick(module))
    for part in parts:
        part.eval()
    assert torch.equal(quick(module), before)


def test_a_hook_keeps_what_it_has_seen() -> None:
    """The activation must not overwrite a tensor that a hook has seen."""
    part, seen = Plain(size=SIZE, hidden=16), []
    part.rise.register_forward_hook(lambda *given: seen.append(given[2]))
    x = torch.randn(3, SIZE)
    with torch.no_grad():
        part(x)
        assert_close(seen[0], F.linear(x, part.rise.weight, part.rise.bias))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
)
def test_a_copy_has_a_life_of_its_own(copied) -> None:
    module = stack()
    quick(module)
    other = copied(module)
    assert_close(quick(other), quick(module))
    CHANGES["lerp"](other)
    assert not torch.allclose(quick(other), quick(module))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 2, 19, MANY, MANY + 1])
@pytest.mark.parametrize("shape", [(8, 8), (8, 0), (384, 128), (512, 520), (520, 512), (4096, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_few_rows_equal_a_linear_layer(monkeypatch, bias, shape, rows, dtype, packs, wide) -> None:
    """However the weights are laid out, on both kinds of processors, and if torch cannot pack them."""
    monkeypatch.setattr(bound_module, "WIDE", wide)
    monkeypatch.setattr(bound_module, "_packs", packs and bound_module._packs)
    weight = torch.randn(shape, dtype=dtype) / max(shape[1], 1) ** 0.5
    added = torch.randn(shape[0], dtype=dtype) if bias else None
    x = torch.randn(rows, 1, shape[1], dtype=dtype)
    product = FewRows(weight, added)
    expected = torch.nn.functional.linear(x, weight, added)
    with torch.no_grad():
        for _ in range(2):
            assert_close(product(x), expected)


def test_packed_products_have_few_numbers_of_rows() -> None:
    """oneDNN keeps a program for each of them."""
    found = {padded_rows(rows) for rows in range(1, MANY + 1)}
    assert len(found) < 50
    for rows in range(1, MANY + 1):
        assert rows <= padded_rows(rows) <= 1.25 * rows


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_rows_under_autocast(dtype, rows) -> None:
    """Large weights are packed, and the packed product knows nothing of autocast."""
    layer = torch.nn.Linear(512, 520)
    product, x = FewRows(layer.weight, layer.bias), torch.randn(rows, 512).to(dtype)
    with torch.no_grad():
        product(x.float())
        with torch.autocast("cpu", torch.bfloat16):
            assert_close(product(x), layer(x))


@pytest.mark.parametrize("count", [1, 3])
def test_a_module_made_in_inference_mode_is_bound(count) -> None:
    """Its tensors do not count their changes, and asking them for the count is an error of torch."""
    with torch.inference_mode():
        module = stack()
        assert_close(quick(module, count), quick(module, count))

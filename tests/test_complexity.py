"""`bench.complexity`: paths, memory and exponents against what is known of each."""

from __future__ import annotations

import json
import re

import pytest
import torch

from bench.complexity import KINDS, Sizes, exponent, kept_bytes, main, page_table

SMALL = Sizes(size=8, heads=2, window=3, stride=3, reach=2)
COUNT = 14


def reach(layer: torch.nn.Module) -> torch.Tensor:
    """Which output (rows) depends on which input (columns)."""
    x = torch.randn(1, COUNT, SMALL.size, requires_grad=True)
    rows = [torch.autograd.grad(out.square().sum(), x, retain_graph=True)[0] for out in layer(x)[0]]
    return torch.stack([row[0].abs().sum(-1) > 0 for row in rows])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "recurrent"])
def test_a_path_is_as_many_layers_as_two_tokens_need(kind):
    torch.manual_seed(1)
    near = reach(KINDS[kind].build(SMALL).eval()).long()
    path, layers = near, 1
    while not path.all():
        path, layers = (path @ near).clamp(max=1), layers + 1
    assert layers == KINDS[kind].path(COUNT, SMALL)


def test_a_recurrent_layer_waits_for_every_token():
    torch.manual_seed(1)
    before = reach(KINDS["recurrent"].build(SMALL))
    assert torch.equal(before, torch.ones(COUNT, COUNT).tril().bool())
    assert KINDS["recurrent"].sequential(COUNT, SMALL) == COUNT
    assert KINDS["recurrent"].path(COUNT, SMALL) == COUNT - 1


def test_memory_counts_what_the_backward_pass_needs():
    """relu(W x) keeps its input and its output, and the weights are no part of it."""
    layer = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU())
    x = torch.randn(1, 10, 4, requires_grad=True)
    assert kept_bytes(layer, x) == 4 * (10 * 4 + 10 * 6)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_an_exponent_is_that_of_the_longer_half(power):
    lengths = [2**i for i in range(7, 14)]
    disturbed = [n**power * (9 if n < 1024 else 1) for n in lengths]
    assert exponent(lengths, disturbed) == pytest.approx(power, abs=0.01)
    assert exponent(lengths[:1], disturbed[:1]) is None


def test_the_document(capsys):
    small = ["--most", "1024", "--size", "32", "--wider", "48", "--window", "64", "--repeats", "1"]
    main(["--json", *small])
    document = json.loads(capsys.readouterr().out)
    found = document["layers"]
    assert document["wider"]["size"] == 48
    assert document["wider"]["layers"].keys() == found.keys()
    assert [line.count("|") for line in page_table(document).splitlines()[:8]] == [11] * 8
    assert set(found) >= {"self", "restricted", "compressed", "recurrent", "convolutional"}
    for layer in found.values():
        assert list(layer["seconds"]) == ["128", "256", "512", "1024"]
        assert all(value > 0 for value in layer["seconds"].values())
        assert layer["exponent_time"] is not None
    memory = {name: layer["exponent_memory"] for name, layer in found.items()}
    assert memory["self_dropout"] > 1.8
    assert all(0.9 < memory[name] < 1.1 for name in memory if name != "self_dropout")


def test_a_layer_stops_before_it_takes_too_much(capsys):
    small = ["--most", "4096", "--size", "32", "--wider", "32", "--window", "64", "--repeats", "1"]
    main(["--json", *small, "--gigabytes", "0.02"])
    layers = json.loads(capsys.readouterr().out)["layers"]
    ends = {name: (list(layer["seconds"])[-1], layer["stopped"]) for name, layer in layers.items()}
    assert ends["restricted"] == ("4096", "")
    assert ends["self_dropout"][0] == "512"
    assert re.fullmatch(r"1,024 could keep 0\.\d GB", ends["self_dropout"][1])

"""A forecast describes a training and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import configuration, reversals

from seqwright.data.plan import Batching, Plan
from seqwright.nn.blocks import Stack
from seqwright.nn.feedforward import Experts
from seqwright.nn.masks import Places
from seqwright.runs.folder import Run
from seqwright.training import forecast as module
from seqwright.training.forecast import forecast
from seqwright.training.preparation import prepare
from seqwright.training.run import first_model, plan, train


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return reversals(tmp_path / "pairs.tsv")


def test_it_changes_no_weight_and_counts_as_the_plan_does(pairs: Path, tmp_path: Path) -> None:
    wanted = configuration(pairs, "training.epochs=2.5")
    (tmp_path / "run").mkdir()
    prepared = prepare(wanted, tmp_path / "run")
    model = first_model(wanted, prepared)
    before = {name: weight.clone() for name, weight in model.weights().items()}
    found = forecast(wanted, prepared, model)
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())
    batches = len(Plan(prepared.lengths, Batching(tokens=wanted.training.tokens), wanted.seed).epoch(0))
    assert found.epoch_steps == batches
    assert found.epochs == pytest.approx(2.5, abs=0.1)
    assert found.seconds == pytest.approx(found.steps * found.step_seconds / 0.9)  # with validations
    assert found.parameters == sum(weight.numel() for weight in model.parameters())
    assert f"{found.steps:,} steps" in found.lines()[0]
    assert "so few steps teach little: raise --epochs" in found.lines()[0]
    assert "so few" in replace(found, steps=999, epoch_steps=1).lines()[0]
    enough = [(1000, 10), (3000, 1)]  # steps, epochs
    for steps, passes in enough:
        assert "so few" not in replace(found, steps=steps, epoch_steps=steps // passes).lines()[0]
        assert "so few" in replace(found, steps=steps - 1, epoch_steps=steps // passes).lines()[0]


def test_minutes_become_steps_by_the_speed(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    wanted = configuration(pairs, "training.minutes=2")
    prepared = prepare(wanted, tmp_path / "run")
    found = forecast(wanted, prepared, first_model(wanted, prepared))
    assert found.steps == int(0.9 * 120 / found.step_seconds)  # the rest is for validations
    assert found.tokens_per_second > 0
    assert found.memory > 50e6  # torch alone needs that


@pytest.mark.parametrize(
    ("options", "keys"),
    [({}, 12), ({"window": 4}, 0), ({"growth": {"kind": "compressed", "stride": 3}}, 4)],
)
def test_the_share_of_all_scores_by_hand(options, keys) -> None:
    """Two rows of 12 tokens: a product with each key and with its value, next to one with each parameter."""
    stack = Stack(size=8, layers=2, heads=2, **options)
    counted = module._Operations(stack)
    stack(torch.randn(2, 12, 8), Places.run(0, 12))
    parameters = sum(weight.numel() for weight in stack.blocks.parameters())
    scores = 2 * keys * (8 + 8)
    assert counted.quadratic_share == pytest.approx(scores / (scores + parameters))


def test_the_plan_names_the_way_out_of_the_square(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    wanted = configuration(pairs, "training.epochs=2")
    prepared = prepare(wanted, tmp_path / "run")
    found = forecast(wanted, prepared, first_model(wanted, prepared))
    assert 0 < found.quadratic < 0.5
    assert len(found.lines()) == 1
    warning, _ = replace(found, quadratic=0.71).lines()
    assert warning.startswith("warning: attention from all tokens to all takes 71 % of the operations")
    assert "model.window=128" in warning


def test_the_plan_counts_the_parameters_of_the_experts_in_use(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    mixed = ("model.feed_forward.kind=experts", "model.feed_forward.experts=8", "model.feed_forward.top=1")
    wanted = configuration(pairs, "training.epochs=2", *mixed)
    prepared = prepare(wanted, tmp_path / "run")
    model = first_model(wanted, prepared)
    found = forecast(wanted, prepared, model)
    mixtures = [part for part in model.modules() if isinstance(part, Experts)]
    idle = [weight for part in mixtures for expert in part.experts[1:] for weight in expert.parameters()]
    assert found.used == found.parameters - sum(weight.numel() for weight in idle)
    sizes = replace(found, parameters=3_210_000, used=1_640_000).lines()[-1]
    assert sizes.startswith("3.2 M parameters, of which a token uses 1.6 M; ")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("seconds", "chosen"), [({1: 0.10, 2: 0.07}, 2), ({1: 0.07, 2: 0.10}, 1), ({1: 0.07, 2: 0.068}, 1)]
)
def test_as_many_threads_as_are_fastest(pairs, tmp_path, monkeypatch, two_threads, seconds, chosen) -> None:
    wanted = configuration(pairs, "training.steps=3")
    wanted = replace(wanted, threads=None)
    (tmp_path / "run").mkdir()
    prepared = prepare(wanted, tmp_path / "run")
    monkeypatch.setattr(
        module._Probe, "time_step", lambda self, number: (seconds[torch.get_num_threads()], 10)
    )
    assert forecast(wanted, prepared, first_model(wanted, prepared)).threads == chosen
    assert torch.get_num_threads() == chosen


def test_a_resumed_training_keeps_its_threads(pairs, tmp_path, two_threads) -> None:
    wanted = replace(configuration(pairs, "training.steps=2"), threads=None)
    torch.set_num_threads(1)
    train(wanted, tmp_path / "run")
    torch.set_num_threads(2)
    train(replace(wanted, training=replace(wanted.training, steps=4)), tmp_path / "run")
    assert Run.open(tmp_path / "run").checkpoints().load().state["threads"] == 1
    assert torch.get_num_threads() == 2  # as before


def test_a_plan_counts_the_processes_and_their_memory(pairs, tmp_path) -> None:
    one = plan(replace(configuration(pairs, "training.accumulate=2"), threads=1))
    two = plan(replace(configuration(pairs, "training.accumulate=2"), threads=2))
    assert (one.processes, one.threads, two.processes, two.threads) == (1, 1, 2, 1)
    assert "with 2 processes of 1 thread" in two.lines()[0]
    assert two.memory > 50e6


def test_a_plan_leaves_nothing(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert plan(configuration(pairs, "training.steps=7")).steps == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == before

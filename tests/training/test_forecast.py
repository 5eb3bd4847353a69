"""A forecast says what will be done, and does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import configuration, reversals

from seqwright.data.plan import Batching, Plan
from seqwright.training.forecast import forecast
from seqwright.training.job import first_model, plan
from seqwright.training.preparation import prepare


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
    batches = len(Plan(prepared.train.lengths, Batching(tokens=wanted.training.tokens), wanted.seed).epoch(0))
    assert found.epoch_steps == batches
    assert found.epochs == pytest.approx(2.5, abs=0.1)
    assert found.seconds == pytest.approx(found.steps * found.step_seconds)
    assert found.parameters == sum(weight.numel() for weight in model.parameters())
    assert f"{found.steps:,} steps" in found.line()


def test_minutes_become_steps_by_the_speed(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    wanted = configuration(pairs, "training.minutes=2")
    prepared = prepare(wanted, tmp_path / "run")
    found = forecast(wanted, prepared, first_model(wanted, prepared))
    assert found.steps == int(120 / found.step_seconds)
    assert found.tokens_per_second > 0
    assert found.memory > 50e6  # torch alone takes that


def test_a_plan_leaves_nothing(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert plan(configuration(pairs, "training.steps=7")).steps == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == before

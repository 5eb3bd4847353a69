"""Steps, epochs and minutes: the end of a training, and the share done at each step."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from seqwright.config import TrainingConfig
from seqwright.data.plan import Batching, Plan, RowLengths
from seqwright.errors import WriteError
from seqwright.training import budget as module
from seqwright.training import trainer
from seqwright.training.budget import Budget
from seqwright.training.run import train
from seqwright.training.schedule import SCHEDULES


def plan(count: int = 60) -> Plan:
    lengths = np.arange(count, dtype=np.int32) % 7 + 1
    return Plan(RowLengths(lengths, lengths[::-1].copy()), Batching(tokens=40), seed=1)


def timed(path, minutes: float, cost, limit: int = 100_000, **ends) -> tuple[Budget, float, int]:
    """A simulated training in which each step takes cost(step) seconds."""
    budget, seconds, step = Budget(TrainingConfig(minutes=minutes, **ends), plan(), path), 0.0, 0
    while not budget.over(step):
        step += 1
        seconds += cost(step)
        if budget.wants_estimate(step, seconds):
            budget.estimate(step, seconds)
        assert step < limit
    return budget, seconds, step


@given(steps=st.integers(1, 50))
def test_steps_are_steps(steps, tmp_path_factory):
    budget = Budget(TrainingConfig(steps=steps), plan(), tmp_path_factory.getbasetemp() / "none.json")
    assert [budget.done(step) for step in range(steps + 1)] == [step / steps for step in range(steps + 1)]
    assert [budget.over(step) for step in range(steps + 2)] == [False] * steps + [True] * 2
    assert not any(budget.wants_estimate(step, 1e9) for step in range(steps + 2))


@pytest.mark.parametrize("epochs", [1, 3, 2.5, 0.5, 0.001])
def test_epochs_are_the_batches_of_the_plan(tmp_path, epochs):
    batches = [len(plan().epoch(number)) for number in range(3)]
    whole = int(epochs)
    expected = sum(batches[:whole]) + round((epochs - whole) * batches[min(whole, 2)])
    assert Budget(TrainingConfig(epochs=epochs), plan(), tmp_path / "b").marks == [(0, 0.0, max(expected, 1))]


def test_whole_epochs_see_each_example_exactly_once_each(tmp_path):
    config = tiny.configuration(tiny.reversals(tmp_path / "pairs.tsv"), "training.epochs=3")
    with tiny.batches_seen() as seen:
        train(config, tmp_path / "run")
    for number in range(3):
        counts = Counter(example for epoch, examples in seen if epoch == number for example in examples)
        assert set(counts.values()) == {1}
        assert len(counts) > 150
    assert {epoch for epoch, _ in seen} == {0, 1, 2}


@given(
    cost=st.floats(0.01, 2),
    slower=st.floats(0.3, 4),
    turn=st.floats(0.1, 0.8),
    minutes=st.floats(0.5, 20),
)
def test_minutes_end_near_their_time_when_the_speed_changes(tmp_path_factory, cost, slower, turn, minutes):
    """The computer becomes faster or slower at some step."""
    changes_at = turn * minutes * 60 / cost
    _, seconds, _ = timed(
        tmp_path_factory.mktemp("budget") / "b.json",
        minutes,
        lambda step: cost * (slower if step > changes_at else 1),
    )
    assert seconds == pytest.approx(60 * minutes, rel=0.1, abs=2 * cost * max(slower, 1))


@pytest.mark.parametrize(("epochs", "cost"), [(20, 0.1), (3, 0.1), (0.5, 0.1), (20, 3.0)])
def test_epochs_may_end_a_training_before_its_minutes(tmp_path, epochs, cost):
    most = module.steps_of(plan(), epochs)
    budget, seconds, last = timed(tmp_path / "b", 2, lambda step: cost, most_epochs=epochs)
    by_time = round(120 / cost)
    assert last == (most if most < by_time else pytest.approx(by_time, rel=0.1))
    shares = [budget.done(step) for step in range(last + 1)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    if last > 2 * module.FIRST_ESTIMATE:  # the rate falls until the end
        assert all(after - before < 0.06 for before, after in pairwise(shares))
    longer = Budget(TrainingConfig(minutes=2, most_epochs=2 * epochs), plan(), tmp_path / "b")
    longer.resume(last, seconds)
    assert longer.over(last) == (most >= by_time)  # the time is over, or more epochs are allowed


def test_few_slow_steps_do_not_run_over(tmp_path):
    """Steps of 7 seconds in one minute: the first estimate does not wait for twenty of them."""
    _, seconds, step = timed(tmp_path / "b", 1, lambda step: 7.0)
    assert seconds <= 67
    assert step >= 8


@given(noise=st.lists(st.floats(0.5, 2), min_size=9, max_size=9))
def test_the_share_grows_without_jumps_and_so_does_the_rate(tmp_path_factory, noise):
    path = tmp_path_factory.mktemp("budget") / "b.json"
    budget, _, last = timed(path, 2, lambda step: 0.2 * noise[step % len(noise)])
    shares = [budget.done(step) for step in range(last + 1)]
    assert shares[-1] == 1.0
    assert all(0 <= after - before < 0.06 for before, after in pairwise(shares))
    schedule = SCHEDULES.build({"kind": "linear", "warmup": 50})
    factors = [schedule.factor(step, share) for step, share in enumerate(shares) if step]
    assert all(abs(after - before) < 0.15 for before, after in pairwise(factors))
    for mark, share, _ in budget.marks:  # a mark changes how fast the share grows, not the share
        earlier = Budget(TrainingConfig(minutes=2), plan(), path)
        earlier.marks = [kept for kept in budget.marks if kept[0] < mark]
        assert earlier.done(mark) == share


def test_at_its_last_step_a_training_is_over_and_estimates_no_more(tmp_path):
    """An estimate there could find time left, or add a step, and never end."""
    budget = Budget(TrainingConfig(minutes=1), plan(), tmp_path / "b")
    budget.estimate(20, 50.0)
    assert budget.marks[-1][2] == 24
    assert [budget.wants_estimate(step, 1.0) for step in (23, 24, 25)] == [True, False, False]


def test_marks_do_not_depend_on_the_clock_after_a_resume(tmp_path):
    first, _, last = timed(tmp_path / "b", 1, lambda step: 0.1)
    again, _, last_again = timed(tmp_path / "b", 1, lambda step: 7.0)
    assert (again.marks, last_again) == (first.marks, last)


def test_a_slow_beginning_is_forgotten(tmp_path):
    """The machine is busy at first: the requested time is used, not the estimate of the first steps."""
    _, seconds, _ = timed(tmp_path / "b", 2, lambda step: 2.0 if step <= 20 else 0.05)
    assert 114 <= seconds <= 126


def test_more_minutes_are_used_even_after_a_slow_start(tmp_path):
    _, seconds, step = timed(tmp_path / "b", 1, lambda step: 10.0)
    budget = Budget(TrainingConfig(minutes=3), plan(), tmp_path / "b")
    budget.resume(step, seconds)
    while not budget.over(step):
        step, seconds = step + 1, seconds + 0.1
        if budget.wants_estimate(step, seconds):
            budget.estimate(step, seconds)
    assert 170 <= seconds <= 190


def test_other_minutes_resume_from_the_share_of_the_time(tmp_path):
    _, seconds, step = timed(tmp_path / "b", 1, lambda step: 0.1)
    longer = Budget(TrainingConfig(minutes=4), plan(), tmp_path / "b")
    longer.resume(step, seconds)
    assert longer.done(step) == pytest.approx(0.25, rel=0.02)
    assert longer.marks[-1][2] == pytest.approx(4 * step, rel=0.02)
    shorter = Budget(TrainingConfig(minutes=0.5), plan(), tmp_path / "b")
    shorter.resume(step, seconds)
    assert shorter.over(step)


class Clock:
    """A clock that advances with every reading."""

    def __init__(self, tick: float):
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def with_clock(monkeypatch, tick: float) -> None:
    monkeypatch.setattr(trainer.time, "monotonic", Clock(tick))


def test_a_killed_training_of_minutes_ends_at_its_marks(tmp_path, monkeypatch):
    """Stopped before its marks and resumed with them under a clock of another speed, it ends with the same
    bits.
    """
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    config = tiny.configuration(pairs, "training.minutes=1")
    with_clock(monkeypatch, 0.15)
    ended = train(config, tmp_path / "whole")
    assert 60 * 0.9 <= ended.seconds <= 60 * 1.1
    with_clock(monkeypatch, 0.15)
    assert tiny.interrupted(config, tmp_path / "parts", "train:step", ended.step // 3) == 143
    shutil.copy(tmp_path / "whole" / "data" / "budget.json", tmp_path / "parts" / "data" / "budget.json")
    with_clock(monkeypatch, 0.01)
    assert train(config, tmp_path / "parts").step == ended.step
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")


def test_kept_marks_decide_also_when_everything_is_lost_but_the_first_checkpoint(tmp_path, monkeypatch):
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    config = tiny.configuration(pairs, "training.minutes=1", "training.validate_every=1000")
    with_clock(monkeypatch, 0.15)
    assert tiny.train_and_die(config, tmp_path / "run", tiny.at("train:step", 60, tiny.die)) < 0
    with_clock(monkeypatch, 0.11)
    first = train(config, tmp_path / "run")
    marks = module.read_json(tmp_path / "run" / "data" / "budget.json")["marks"]
    assert first.step == marks[-1][2]
    assert [mark[0] for mark in marks] == sorted({mark[0] for mark in marks})


def test_42_a_disk_that_refuses_an_estimate_stops_nothing(tmp_path, monkeypatch):
    config = tiny.configuration(tiny.reversals(tmp_path / "pairs.tsv"), "training.minutes=0.3")
    with_clock(monkeypatch, 0.15)
    reported: list[str] = []

    def refuse(path, value):
        raise WriteError(f"{path} cannot be written: no space left on device")

    monkeypatch.setattr(module, "write_json", refuse)
    train(config, tmp_path / "run", listener=lambda report: reported.extend(report.findings))
    assert any("estimate" in finding and "no space" in finding for finding in reported)


def test_18_more_minutes_resume_the_training(tmp_path, monkeypatch):
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    with_clock(monkeypatch, 0.15)
    short = train(tiny.configuration(pairs, "training.minutes=0.5"), tmp_path / "run")
    long = train(tiny.configuration(pairs, "training.minutes=1"), tmp_path / "run")
    assert long.step > 1.5 * short.step
    assert 60 * 0.9 <= long.seconds <= 60 * 1.1

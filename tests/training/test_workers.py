"""Several processes make the step that one makes, and end with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from torch import nn

from seqwright.errors import ModelError
from seqwright.runs.folder import Run
from seqwright.training.run import train
from seqwright.training.trainer import Trainer
from seqwright.training.workers import Outcome, Part, Workers, allocate_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are helpers on Linux only")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return tiny.reversals(tmp_path / "pairs.tsv")


@pytest.mark.parametrize(
    "changes",
    [
        ["training.accumulate=2"],
        ["training.accumulate=3", "training.optimizer=muon"],
        ["training.accumulate=2", "model.order=post"],
        ["training.accumulate=2", "model.kind=ensemble", "model.members=4"],
        ["training.accumulate=2", "model.kind=ensemble", "model.members=3"],
    ],
)
def test_the_weights_do_not_depend_on_the_number_of_processes(pairs, tmp_path, changes):
    """Dropout, clipping, moving average and optimizer included."""
    parts = changes[0][-1]
    train(tiny.configuration(pairs, *changes), tmp_path / "one")
    train(tiny.configuration(pairs, *changes, f"threads={parts}"), tmp_path / "several")
    assert tiny.digest(tmp_path / "one") == tiny.digest(tmp_path / "several")
    assert tiny.validations(tmp_path / "one")[-1]["valid_loss"] < 3


def test_validation_sees_the_latest_weights_of_every_member(pairs, tmp_path):
    """Fused AdamW leaves no trace on weights, and a helper computes the other members: without explicit
    invalidation this process would validate the weights that it cached at an earlier validation.
    """
    changes = ["training.accumulate=2", "training.average=0", "training.validations=4"]
    changes += ["model.kind=ensemble", "model.members=2"]
    train(tiny.configuration(pairs, *changes), tmp_path / "one")
    train(tiny.configuration(pairs, *changes, "threads=2"), tmp_path / "two")
    one, two = (
        [found["valid_loss"] for found in tiny.validations(tmp_path / name)] for name in ("one", "two")
    )
    assert len(one) > 1
    assert one == two


def test_of_a_recurrent_model_neither(pairs, tmp_path):
    for name, threads in (("one", 1), ("two", 2)):
        options = {"preset": "tiny-rnn", "share": False, "dropout": 0.1}
        config = tiny.configuration(pairs, "training.accumulate=2", "training.steps=4", f"threads={threads}")
        train(replace(config, model=options), tmp_path / name)
    assert tiny.digest(tmp_path / "one") == tiny.digest(tmp_path / "two")


def test_killed_and_gone_on_with_by_another_number_of_processes(pairs, tmp_path, any_threads):
    """As on a machine with fewer cores, with what was begun on one with more."""
    config = replace(
        tiny.configuration(pairs, "training.accumulate=2", "training.save_seconds=0.001"), threads=None
    )
    torch.set_num_threads(1)
    train(config, tmp_path / "unharmed")
    for step, threads in ((4, 2), (5, 1), (6, 2)):
        torch.set_num_threads(threads)
        killed = tiny.train_and_die(config, tmp_path / "run", tiny.at("train:step", step, tiny.die))
        assert killed == -signal.SIGKILL
    train(config, tmp_path / "run")
    assert tiny.digest(tmp_path / "run") == tiny.digest(tmp_path / "unharmed")


@pytest.fixture
def any_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_batch_of_one_example_has_one_part(tmp_path):
    pairs = tiny.write_pairs(tmp_path / "few.tsv", [("abc", "cba"), ("de", "ed")])
    changes = ["training.tokens=1", "training.accumulate=2", "training.steps=3", f"data.valid={[str(pairs)]}"]
    for threads in (1, 2):
        train(tiny.configuration(pairs, *changes, f"threads={threads}"), tmp_path / str(threads))
    assert tiny.digest(tmp_path / "1") == tiny.digest(tmp_path / "2")


def test_a_helper_that_is_killed_ends_the_training_and_its_last_checkpoint_goes_on(
    pairs, tmp_path, monkeypatch
):
    config = tiny.configuration(pairs, "training.accumulate=2", "threads=2")
    step = Trainer._step

    def kill_at_seven(trainer, parts, after):
        if trainer.progress.step == 6:
            os.kill(trainer.crew.helpers[0].process, signal.SIGKILL)
        step(trainer, parts, after)

    monkeypatch.setattr(Trainer, "_step", kill_at_seven)
    with pytest.raises(ModelError, match=r"process .* has ended.* the same command goes on"):
        train(config, tmp_path / "run")
    monkeypatch.undo()
    train(config, tmp_path / "run")
    train(config, tmp_path / "unharmed")
    assert tiny.digest(tmp_path / "run") == tiny.digest(tmp_path / "unharmed")


def test_helpers_end_with_the_process_that_they_help(pairs, tmp_path):
    """Killed without warning, it leaves no process and no lock."""
    told = tmp_path / "helper"

    def tell(point: str) -> None:
        if point == "train:step":
            told.write_text(str(found[0].crew.helpers[0].process))
            tiny.die()

    found: list[Trainer] = []
    init = Trainer.__init__

    def remember(self, *given, **named):
        found.append(self)
        init(self, *given, **named)

    def action() -> None:
        Trainer.__init__ = remember  # type: ignore[method-assign]
        with tiny.hooked(tell):
            train(tiny.configuration(pairs, "training.accumulate=2", "threads=2"), tmp_path / "run")

    assert tiny.in_child(action) == -signal.SIGKILL
    with Run.open(tmp_path / "run").lock():
        pass
    for _ in range(100):
        if not running(int(told.read_text())):
            break
        time.sleep(0.05)
    else:
        pytest.fail("the helper is still there after 5 seconds")


def running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Two(nn.Module):
    """One weight that every part uses, one that only odd parts do, and one without a number."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.odd = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2))
        self.nothing = nn.Parameter(torch.zeros(0, 4))

    def compute(self, part: Part) -> Outcome:
        if part.epoch == 13:
            raise ValueError("thirteen")
        loss = self.always.sum() * part.numbers[0]
        if part.numbers[0] % 2:
            loss = loss + 2 * self.odd.sum()
        loss.backward()
        return Outcome(loss.item(), 1, len(part.numbers))


@pytest.mark.parametrize("helpers", [0, 1, 2])
@pytest.mark.parametrize("numbers", [[2, 4, 6], [2, 4, 1], [1, 2, 4], [3]])
def test_gradients_that_only_some_parts_have(helpers, numbers):
    model = Two()
    with Workers(model, model.compute, helpers) as crew:
        outcome = crew.gradients([Part([number], 0, (1,)) for number in numbers])
    assert (outcome.count, outcome.tokens) == (len(numbers), len(numbers))
    assert model.always.grad.tolist() == [float(sum(numbers))] * 3
    odd = sum(number % 2 for number in numbers)
    assert model.odd.grad is None if not odd else model.odd.grad.tolist() == [[2.0 * odd] * 2] * 2
    assert model.nothing.grad is None


def test_helpers_see_weights_that_were_changed_in_place():
    model = Two()
    with Workers(model, model.compute, 1) as crew, torch.no_grad():
        model.always.fill_(5.0)
        with torch.enable_grad():
            outcome = crew.gradients([Part([2], 0, (1,)), Part([4], 0, (1,))])
    assert outcome.total == 5 * 3 * (2 + 4)


def test_what_goes_wrong_in_a_helper_is_said():
    model = Two()
    with (
        Workers(model, model.compute, 1) as crew,
        pytest.raises(ModelError, match="a process of the training failed: ValueError: thirteen"),
    ):
        crew.gradients([Part([2], 0, (1,)), Part([4], 13, (1,))])


@pytest.mark.parametrize(
    ("parts", "threads", "expected"),
    [(1, 8, (0, 8)), (2, 1, (0, 1)), (2, 2, (1, 1)), (2, 9, (1, 4)), (3, 2, (0, 2))],
)
def test_a_process_for_each_part_if_there_is_a_thread_for_each(monkeypatch, parts, threads, expected):
    monkeypatch.setattr("sys.platform", "linux")
    assert allocate_workers(parts, threads) == expected
    monkeypatch.setattr("sys.platform", "darwin")
    assert allocate_workers(parts, threads) == (0, threads)

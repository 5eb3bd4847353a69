"""Several processes compute the same step as one, and end with it."""

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

from seqwright.errors import ConfigError, InputError, ModelError, SeqwrightError
from seqwright.runs.folder import Run
from seqwright.training.run import train
from seqwright.training.trainer import Trainer
from seqwright.training.workers import LossSum, MicroBatch, WorkerError, Workers, allocate_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="worker processes need Linux")


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
    """Fused AdamW leaves no trace on weights, and a child computes the other members: without explicit
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


def test_recurrent_weights_do_not_depend_on_the_number_of_processes(pairs, tmp_path):
    for name, threads in (("one", 1), ("two", 2)):
        options = {"preset": "tiny-rnn", "share": False, "dropout": 0.1}
        config = tiny.configuration(pairs, "training.accumulate=2", "training.steps=4", f"threads={threads}")
        train(replace(config, model=options), tmp_path / name)
    assert tiny.digest(tmp_path / "one") == tiny.digest(tmp_path / "two")


def test_killed_and_resumed_by_another_number_of_processes(pairs, tmp_path, any_threads):
    """As if resumed on a machine with fewer cores."""
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


def test_a_batch_of_one_example_is_one_micro_batch(tmp_path):
    pairs = tiny.write_pairs(tmp_path / "few.tsv", [("abc", "cba"), ("de", "ed")])
    changes = ["training.tokens=1", "training.accumulate=2", "training.steps=3", f"data.valid={[str(pairs)]}"]
    for threads in (1, 2):
        train(tiny.configuration(pairs, *changes, f"threads={threads}"), tmp_path / str(threads))
    assert tiny.digest(tmp_path / "1") == tiny.digest(tmp_path / "2")


def test_a_killed_worker_ends_the_training_and_the_last_checkpoint_resumes(pairs, tmp_path, monkeypatch):
    config = tiny.configuration(pairs, "training.accumulate=2", "threads=2")
    step = Trainer._step

    def kill_at_seven(trainer, batches, after):
        if trainer.progress.step == 6:
            os.kill(trainer.workers.children[0].process, signal.SIGKILL)
        step(trainer, batches, after)

    monkeypatch.setattr(Trainer, "_step", kill_at_seven)
    with pytest.raises(ModelError, match=r"worker process .* ended.* the same command resumes"):
        train(config, tmp_path / "run")
    monkeypatch.undo()
    train(config, tmp_path / "run")
    train(config, tmp_path / "unharmed")
    assert tiny.digest(tmp_path / "run") == tiny.digest(tmp_path / "unharmed")


def test_workers_end_with_their_parent(pairs, tmp_path):
    """Killed without warning, it leaves no process and no lock."""
    noted = tmp_path / "worker"

    def note_and_die(point: str) -> None:
        if point == "train:step":
            noted.write_text(str(found[0].workers.children[0].process))
            tiny.die()

    found: list[Trainer] = []
    init = Trainer.__init__

    def remember(self, *given, **named):
        found.append(self)
        init(self, *given, **named)

    def action() -> None:
        Trainer.__init__ = remember  # type: ignore[method-assign]
        with tiny.hooked(note_and_die):
            train(tiny.configuration(pairs, "training.accumulate=2", "threads=2"), tmp_path / "run")

    assert tiny.in_child(action) == -signal.SIGKILL
    with Run.open(tmp_path / "run").lock():
        pass
    for _ in range(100):
        if not running(int(noted.read_text())):
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker still runs after 5 seconds")


def running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Two(nn.Module):
    """One weight that all examples use, one that only odd numbers use, and an empty one."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.odd = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2))
        self.nothing = nn.Parameter(torch.zeros(0, 4))
        self.error: Exception

    def compute(self, batch: MicroBatch) -> LossSum:
        if batch.epoch == 13:
            raise ValueError("thirteen")
        if batch.epoch == 14:
            raise self.error
        loss = self.always.sum() * batch.numbers[0]
        if batch.numbers[0] % 2:
            loss = loss + 2 * self.odd.sum()
        loss.backward()
        return LossSum(loss.item(), 1, len(batch.numbers))


@pytest.mark.parametrize("children", [0, 1, 2])
@pytest.mark.parametrize("numbers", [[2, 4, 6], [2, 4, 1], [1, 2, 4], [3]])
def test_gradients_that_only_some_micro_batches_have(children, numbers):
    model = Two()
    with Workers(model, model.compute, children) as workers:
        loss = workers.sum_gradients([MicroBatch([number], 0, (1,)) for number in numbers])
    assert (loss.count, loss.tokens) == (len(numbers), len(numbers))
    assert model.always.grad.tolist() == [float(sum(numbers))] * 3
    odd = sum(number % 2 for number in numbers)
    assert model.odd.grad is None if not odd else model.odd.grad.tolist() == [[2.0 * odd] * 2] * 2
    assert model.nothing.grad is None


def test_workers_see_weights_changed_in_place():
    model = Two()
    with Workers(model, model.compute, 1) as workers, torch.no_grad():
        model.always.fill_(5.0)
        with torch.enable_grad():
            loss = workers.sum_gradients([MicroBatch([2], 0, (1,)), MicroBatch([4], 0, (1,))])
    assert loss.total == 5 * 3 * (2 + 4)


def test_a_bug_in_a_worker_is_a_bug_with_its_traceback():
    """Not an error of the user: the command exits with 1 and prints where it happened."""
    model = Two()
    with Workers(model, model.compute, 1) as workers, pytest.raises(WorkerError) as error:
        workers.sum_gradients([MicroBatch([2], 0, (1,)), MicroBatch([4], 13, (1,))])
    assert not isinstance(error.value, SeqwrightError)
    assert "ValueError: thirteen" in str(error.value)
    assert f'{Path(__file__).name}", line ' in str(error.value)
    assert 'raise ValueError("thirteen")' in str(error.value)


@pytest.mark.parametrize("kind", [InputError, ModelError, ConfigError])
def test_an_error_of_the_user_in_a_worker_keeps_its_class(kind):
    model = Two()
    model.error = kind("line 7 is wrong; fix it")
    with Workers(model, model.compute, 1) as workers, pytest.raises(kind, match=r"^line 7 is wrong; fix it$"):
        workers.sum_gradients([MicroBatch([2], 0, (1,)), MicroBatch([4], 14, (1,))])


@pytest.mark.parametrize(
    ("count", "threads", "expected"),
    [(1, 8, (0, 8)), (2, 1, (0, 1)), (2, 2, (1, 1)), (2, 9, (1, 4)), (3, 2, (0, 2))],
)
def test_a_process_for_each_micro_batch_if_each_gets_a_thread(monkeypatch, count, threads, expected):
    monkeypatch.setattr("sys.platform", "linux")
    assert allocate_workers(count, threads) == expected
    monkeypatch.setattr("sys.platform", "darwin")
    assert allocate_workers(count, threads) == (0, threads)

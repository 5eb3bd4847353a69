"""A training that takes a second: a small corpus and a small model, with tools to stop and compare trainings.

As a program it trains, and kills itself at a point if one is given:

    python tiny.py FOLDER PAIRS POINT TIMES [key=value ...]
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from seqwright import files
from seqwright.config import Config, override, parse
from seqwright.data.plan import Cursor
from seqwright.prediction.tracing import trace_observers
from seqwright.runs.folder import Run
from seqwright.training import run as training_run
from seqwright.training.interrupt import Interrupt, Interrupted
from seqwright.training.trainer import Progress, Trainer
from seqwright.training.workers import MicroBatch

TABLE: dict[str, Any] = {
    "data": {"held_out": 0.1},
    "model": {
        "preset": "tiny",
        "share": False,
        "layers": 2,
        "size": 16,
        "hidden": 32,
        "heads": 2,
        "dropout": 0.1,
    },
    "training": {"tokens": 100, "average": 0.9, "validate_every": 10, "decode": 8, "save_seconds": 1e6},
    "search": {"beam": 3, "max_length": 20},
    "threads": 1,
}
LETTERS = "abcdef"

Hook = Callable[[str], None]


def words(count: int, seed: int = 0, longest: int = 6) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(LETTERS, k=draw.randint(2, longest))) for _ in range(count)]


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def reversals(path: Path, count: int = 200, seed: int = 0) -> Path:
    """Words and their mirror images."""
    return write_pairs(path, [(word, word[::-1]) for word in words(count, seed)])


def configuration(pairs: Path, *changes: str) -> Config:
    """30 steps, about three epochs of 10 batches, unless the changes set another end."""
    ends = ("training.steps", "training.epochs", "training.minutes")
    end = [] if any(change.startswith(ends) for change in changes) else ["training.steps=30"]
    table = override(TABLE, [f"data.train={[str(pairs)]}", *end, *changes])
    return parse(table)


def train(config: Config, folder: Path | str, **options: Any) -> Progress:
    """Train with traces, as the command does."""
    return training_run.train(config, folder, observers=trace_observers, **options)


def digest(folder: Path) -> str:
    """SHA-256 of the tensors of the last checkpoint, by name, and of the exported weights."""
    run, total = Run.open(folder), hashlib.sha256()
    found = run.checkpoints().load()
    assert found is not None
    for part, tensors in sorted(found.tensors.items()):
        for name, tensor in sorted(tensors.items()):
            total.update(f"{part} {name} {tuple(tensor.shape)}".encode())
            total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    total.update(run.path("model.safetensors").read_bytes())
    return total.hexdigest()


def step_records(folder: Path) -> list[tuple[int, float, float, float]]:
    """(step, loss, rate, gradient norm) of every logged step."""
    records = Run.open(folder).records()
    return [(r["step"], r["loss"], r["rate"], r["gradient_norm"]) for r in records if "rate" in r]


def validations(folder: Path) -> list[dict[str, Any]]:
    return [record for record in Run.open(folder).records() if "valid_loss" in record]


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Call `hook` with every named point that is reached inside the block."""
    before, files.hook = files.hook, hook
    try:
        yield
    finally:
        files.hook = before


def at(point: str, times: int, action: Callable[[], object]) -> Hook:
    """A hook that acts when the point is reached for the times-th time."""
    left = times

    def hook(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                action()

    return hook


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(action: Callable[[], object]) -> int:
    """Run the action in a forked copy of this process; return its exit code, negative for a signal."""
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def train_and_die(config: Config, folder: Path, hook: Hook) -> int:
    def action() -> None:
        with hooked(hook):
            train(config, folder)

    return in_child(action)


def interrupted(config: Config, folder: Path, point: str, times: int) -> int:
    """Train until a signal arrives at a point; return the exit code."""
    interrupt = Interrupt()

    def signalled() -> None:
        interrupt.number = signal.SIGTERM

    try:
        with hooked(at(point, times, signalled)):
            train(config, folder, interrupt=interrupt)
    except Interrupted as left:
        return left.exit_code
    return 0


@contextmanager
def batches_seen() -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """(epoch, examples) of every step inside the block."""
    seen: list[tuple[int, tuple[int, ...]]] = []
    original = Trainer._step

    def step(trainer: Trainer, batches: list[MicroBatch], after: Cursor) -> None:
        numbers = tuple(number for batch in batches for number in batch.numbers)
        seen.append((trainer.progress.cursor.epoch, numbers))
        original(trainer, batches, after)

    Trainer._step = step  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Trainer._step = original  # type: ignore[method-assign]


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The modification time and the content of every file except locks."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def main(folder: str, pairs: str, point: str, times: str, *changes: str) -> Progress:
    torch.set_num_threads(1)
    with hooked(at(point, int(times), die)):
        return train(configuration(Path(pairs), *changes), folder)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A training that is killed anywhere and run again ends with the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import tiny
from tiny import train

from seqwright.config import Config

CHANGES = ("training.steps=20", "training.validate_every=7", "training.decode=4", "training.keep=1")
SPREAD = 8  # more kills, spread over the whole training
PROTOCOL = ("save:", "run:", "retention:", "prepare:", "train:")


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    """The configuration, the points that its training passes in order, and its digest."""
    folder = tmp_path_factory.mktemp("unharmed")
    config = tiny.configuration(tiny.reversals(folder / "pairs.tsv"), *CHANGES)
    points: list[str] = []
    with tiny.hooked(points.append):
        train(config, folder / "run")
    return config, points, tiny.digest(folder / "run")


def instants(points: list[str]) -> list[int]:
    """One instant per kind of point, and a quarter of the files of the stores, which are all written alike.

    Of points that occur often, a later occurrence is chosen.
    """
    chosen = {}
    for number, (point, times) in enumerate(zip(points, occurrences(points), strict=True)):
        if times <= 1 + len(point) % 5:
            chosen[point] = number
    protocol = [number for point, number in chosen.items() if point.startswith(PROTOCOL)]
    stores = [number for point, number in chosen.items() if not point.startswith(PROTOCOL)]
    return sorted([*protocol, *stores[::4]])


def occurrences(points: list[str]) -> list[int]:
    """The number of times that each point was reached so far."""
    seen: Counter[str] = Counter()
    times = []
    for point in points:
        seen[point] += 1
        times.append(seen[point])
    return times


def survive(config: Config, folder: Path, points: list[str], instant: int) -> None:
    """Kill at an instant, sometimes again at the second step of a rerun, then let it finish."""
    times = occurrences(points)[instant]
    assert tiny.train_and_die(config, folder, tiny.at(points[instant], times, tiny.die)) == -signal.SIGKILL
    if instant % 3 == 0:
        tiny.train_and_die(config, folder, tiny.at("train:step", 2, tiny.die))
    assert tiny.train_and_die(config, folder, lambda point: None) == 0


def test_every_kind_of_point_is_reached(unharmed):
    _, points, _ = unharmed
    assert {"prepare:tokenizer", "prepare:train", "prepare:valid"} < set(points)
    assert {"train:step", "train:validated", "train:exported", "retention:moved"} < set(points)
    assert {"save:renamed", "save:LATEST:renamed", "save:BEST:renamed"} < set(points)
    assert len(instants(points)) >= 40


@pytest.mark.parametrize("group", range(6))
def test_40_killed_at_any_point_it_ends_the_same(unharmed, tmp_path, group):
    config, points, wanted = unharmed
    spread = range(len(points) // SPREAD // 2, len(points), len(points) // SPREAD)
    for instant in sorted({*instants(points), *spread})[group::6]:
        folder = tmp_path / str(instant)
        survive(config, folder, points, instant)
        assert tiny.digest(folder) == wanted, points[instant]


@pytest.mark.slow
@pytest.mark.parametrize("group", range(16))
def test_40_killed_at_every_single_point_it_ends_the_same(unharmed, tmp_path, group):
    config, points, wanted = unharmed
    for instant in range(group, len(points), 16):
        folder = tmp_path / str(instant)
        survive(config, folder, points, instant)
        assert tiny.digest(folder) == wanted, points[instant]


def test_40_a_separate_program_is_killed_and_run_again(unharmed, tmp_path):
    """The same with separate programs, which inherit nothing from this process."""
    config, _, wanted = unharmed
    script = Path(tiny.__file__)
    command = [sys.executable, str(script), str(tmp_path / "run"), config.data.train[0]]
    for point, times, expected in (
        ("save:optimizer.safetensors:writing", "100", -signal.SIGKILL),
        ("never", "1", 0),
    ):
        done = subprocess.run([*command, point, times, *CHANGES], capture_output=True, text=True)
        assert done.returncode == expected, done.stderr
    assert tiny.digest(tmp_path / "run") == wanted


def test_26_a_killed_training_leaves_no_lock_behind(unharmed, tmp_path):
    """After each of eight kills at the first step, the rerun starts immediately."""
    config, _, wanted = unharmed
    for _ in range(8):
        assert tiny.train_and_die(config, tmp_path / "run", tiny.at("train:step", 1, tiny.die)) < 0
    assert tiny.train_and_die(config, tmp_path / "run", lambda point: None) == 0
    assert tiny.digest(tmp_path / "run") == wanted


def test_the_digest_can_differ(unharmed, tmp_path):
    """More steps or another seed change the digest, so the tests above can fail."""
    config, _, wanted = unharmed
    pairs = Path(config.data.train[0])
    for number, change in enumerate(("training.steps=23", "seed=2")):
        folder = tmp_path / str(number)
        tiny.train_and_die(tiny.configuration(pairs, *CHANGES, change), folder, lambda point: None)
        assert tiny.digest(folder) != wanted

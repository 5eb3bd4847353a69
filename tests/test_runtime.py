"""Threads by the size of the work and by the cores that are free."""

from __future__ import annotations

import sys

import pytest
import torch

from seqwright import runtime
from seqwright.runtime import free_cores, inference_threads, threads

TINY, BASE = 2_349_568, 48_236_544  # parameters


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("parameters", "rows", "free", "expected"),
    [
        (TINY, 1, 4, 1),
        (TINY, 5, 4, 1),
        (TINY, 160, 4, 4),
        (BASE, 1, 4, 4),
        (BASE, 5, 8, 4),
        (BASE, 5, 3, 3),
        (BASE, 160, 1, 1),
    ],
)
def test_small_work_gets_one_thread_and_large_work_the_free_cores(
    monkeypatch, four_threads, parameters, rows, free, expected
):
    monkeypatch.setattr(runtime, "free_cores", lambda: free)
    assert inference_threads(parameters, rows) == expected
    assert inference_threads(parameters, rows, requested=2) == 2


def test_the_threads_of_a_block_end_with_it(four_threads):
    with threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 4
    with pytest.raises(ValueError, match="inside"), threads(2):
        raise ValueError("inside")
    assert torch.get_num_threads() == 4
    with threads(None):
        assert torch.get_num_threads() == 4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports running processes")
@pytest.mark.parametrize(
    ("load", "running", "own", "expected"),
    [(0.5, 1, 1, 8), (0.5, 3, 1, 6), (8.0, 3, 3, 8), (3.0, 30, 2, 1), (0.0, 0, 1, 8), (9.0, 1, 1, 1)],
)
def test_running_threads_of_other_processes_take_cores(monkeypatch, tmp_path, load, running, own, expected):
    """Those of this process do not, such as a thread of torch that spins for a moment after its work."""
    (tmp_path / "loadavg").write_text(f"{load} 0.40 0.30 {running}/123 4567\n")
    for number in range(4):
        (tmp_path / "self" / "task" / str(number)).mkdir(parents=True)
        state = "R" if number < own else "S"
        (tmp_path / "self" / "task" / str(number) / "stat").write_text(f"{number} (a) R b) {state} 1 2 3\n")
    monkeypatch.setattr(runtime, "PROC", tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert free_cores() == expected


def test_without_a_report_all_cores_are_free(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "PROC", tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert free_cores() == 8

"""The process and its machine: settings that make tensors on a CPU fast, memory, threads, and the processor.

Programs (commands, benchmarks) call the settings; importing the library does not.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # malloc.h of glibc
PROC = Path("/proc")
THREADED_WORK = 40_000_000  # parameters × rows; with less, a second thread gains at most 12 % (bench.busy)


def keep_freed_memory() -> bool:
    """Make glibc keep the pages of freed tensors for new ones, so that the kernel need not clear new pages.

    Call it before the first tensor. Returns whether it was possible (Linux with glibc).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    settings = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 64 * 2**20}
    return all(mallopt(option, value) == 1 for option, value in settings.items())


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Inside the block torch uses `count` threads, or as many as before with None. Costs less than 1 µs."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def inference_threads(parameters: int, rows: int, requested: int | None = None) -> int:
    """The number of threads for predictions of `rows` sequences (inputs × beam) by a model of this size.

    Threads wait for each other after every matrix product. Small products gain nothing from a second thread,
    and if other programs use the cores, one thread waits until the other gets its turn. So a small model with
    few rows gets one thread, and a large one no more than there are free cores.
    """
    if requested is not None:
        return requested
    import torch

    most = torch.get_num_threads()
    return 1 if most == 1 or parameters * rows < THREADED_WORK else min(most, free_cores())


def free_cores() -> int:
    """The cores that other processes leave free, at least 1; all cores if Linux does not report the load.

    Counts the threads of other processes that run at this moment. A load average of the last minute that this
    process cannot have caused alone leaves one core.
    """
    cores = os.cpu_count() or 1
    try:
        load, _, _, running, _ = (PROC / "loadavg").read_bytes().split()
        states = [file.read_bytes().rpartition(b") ")[2][:1] for file in (PROC / "self/task").glob("*/stat")]
    except OSError:
        return cores
    others = int(running.partition(b"/")[0]) - states.count(b"R")
    return 1 if float(load) > cores + 0.5 else max(cores - max(others, 0), 1)


def freeze_objects() -> None:
    """Exclude all objects that exist now (modules, model, data) from garbage collection."""
    gc.collect()
    gc.freeze()


def machine() -> str:
    """The name of the processor and the number of cores that this process may use."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} core{'' if cores == 1 else 's'}"


def peak_memory() -> int | None:
    """The peak memory of this process in bytes; None where the system does not report it (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere: getrusage(2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

"""The process and its machine: settings that make tensors on a CPU fast, called by programs (commands,
benchmarks) and never by importing the library; memory, and the name of the processor.
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


def keep_freed_memory() -> bool:
    """Lets glibc keep the pages of freed tensors for the next ones, instead of giving them back and having
    the kernel clear new ones.

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
    """Inside, torch computes with so many, or as it did with None; after it as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def freeze_objects() -> None:
    """Takes all that exists by now (modules, model, data) out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()


def machine() -> str:
    """The processor and how many cores of it this process may use."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} core{'' if cores == 1 else 's'}"


def peak_memory() -> int | None:
    """The most bytes that this process has held; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere: getrusage(2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

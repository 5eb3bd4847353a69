"""Settings of the process that make tensors on a CPU fast. Called by programs (commands, benchmarks), never
by importing the library.
"""

from __future__ import annotations

import ctypes
import gc
import sys

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


def freeze_objects() -> None:
    """Takes all that exists by now (modules, model, data) out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()

"""Shared by the tests of faults: a child process that may be killed, and the contents of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def in_child(action: Callable[[], object]) -> int:
    """Run the action in a fork of this process; return 0, 1 for an exception, negative for a signal."""
    if (child := os.fork()) == 0:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}

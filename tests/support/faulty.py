"""What tests of faults share: a child that may be killed, and what is left in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def in_child(action: Callable[[], object]) -> int:
    """How a forked copy of this process ends that does this: 0, 1 for an exception, below 0 for a signal."""
    if (child := os.fork()) == 0:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}

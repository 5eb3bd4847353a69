"""Orderly interruption: signals set a flag that every long loop checks."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


class Interrupted(BaseException):
    """Raised where a loop can stop. Its exit code is that of a process ended by the signal."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupt:
    """Remembers the first signal; a second one ends the process immediately."""

    def __init__(self) -> None:
        self.number: int | None = None

    def check(self) -> None:
        """Raise Interrupted after a signal. Called in every long loop."""
        if self.number is not None:
            raise Interrupted(self.number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.number = number

    @contextmanager
    def listening(self) -> Iterator[Interrupt]:
        """Handle the signals inside the block, except those that are ignored, for example by nohup."""
        active = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        try:
            before = {number: signal.signal(number, self._handle) for number in active}
        except ValueError:  # only the main thread can handle signals
            before = {}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

"""Leaving in good order: signals set a flag, and every loop asks for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = [signal.SIGINT, signal.SIGTERM] + [
    getattr(signal, name) for name in ("SIGHUP", "SIGUSR1") if hasattr(signal, name)
]


class Interrupted(BaseException):
    """Raised where a loop can stop. Its exit code is that of a process that the signal ended."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupt:
    """Remembers the first signal; the second one ends the process at once."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def asked(self) -> bool:
        return self.number is not None

    def check(self) -> None:
        """Called in every loop that may take long."""
        if self.number is not None:
            raise Interrupted(self.number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.number = number

    @contextmanager
    def listening(self) -> Iterator[Interrupt]:
        """Takes the signals over inside the block, but for those that are ignored: by nohup, say. Only the
        main thread of a program can.
        """
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        try:
            before = {number: signal.signal(number, self._handle) for number in heard}
        except ValueError:  # another thread, in a notebook say: there is nothing to listen to
            before = {}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

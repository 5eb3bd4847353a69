"""The hosts of a worker: a process of its own for the server, or a thread of this process.

A process is a new interpreter rather than a fork, which would not be safe: the server has threads when it
starts a worker again.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from seqwright.errors import SeqwrightError

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

# signals are for the server, which drains before it ends: they are ignored before anything is imported
PROGRAM = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
descriptor, *sys.path = sys.argv[1:]
from seqwright.serve.host import main
main(int(descriptor))
"""


class Source(NamedTuple):
    """The arguments of `load`."""

    folder: str
    threads: int | None
    trusted: bool


class WorkerProcess:
    """A worker in a process of its own, which loads the model."""

    def __init__(self, source: Source):
        self.pipe, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-c", PROGRAM, str(number), *sys.path]
            # the standard output is that of the server, which announces its address there
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[number]
            )
        with suppress(OSError):  # it has died already
            self.pipe.send(source)

    def stop(self) -> None:
        self.process.kill()  # it has no state to save
        self.process.wait()


class WorkerThread:
    """A worker in a thread, with the model of this process."""

    def __init__(self, predictor: Predictor):
        from seqwright.serve.worker import Worker

        self.pipe, theirs = Pipe()
        self.worker = Worker(predictor, theirs)
        self._thread = threading.Thread(target=self.worker.run, name="worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current batch."""
        with socket.socket(fileno=os.dup(self.pipe.fileno())) as end, suppress(OSError):  # it has ended
            end.shutdown(socket.SHUT_RDWR)
        self._thread.join()


def main(descriptor: int) -> None:
    """Load a model and compute what the server sends, until the server ends, whatever its end."""
    pipe = Connection(descriptor)
    threading.Thread(target=_end_with_server, args=(pipe.fileno(),), daemon=True).start()
    from seqwright.prediction.examples import warm_up
    from seqwright.prediction.predictor import load
    from seqwright.runtime import freeze_objects, keep_freed_memory
    from seqwright.serve.worker import Worker

    keep_freed_memory()  # before the first tensor
    source: Source = pipe.recv()
    try:
        predictor = load(source.folder, threads=source.threads, trusted=source.trusted)
    except SeqwrightError:  # the server loads the same folder and reports it
        return
    warm_up(predictor)
    freeze_objects()  # a collection that visits the model takes as long as several requests
    Worker(predictor, pipe).run()


def _end_with_server(descriptor: int) -> None:
    """End this process as soon as the other end of the pipe is closed, even within a computation."""
    hangup = select.poll()
    hangup.register(descriptor, 0)  # POLLHUP is always reported
    hangup.poll()
    os._exit(0)

"""The gradient of a batch, whose parts several processes compute at the same time.

Threads wait for each other after every small product: on two cores they make a step of a small model a
quarter faster, and many times slower while another program runs. Processes with a part of the batch each wait
once a step. Gradients are added in the order of the parts, so that the sum is the same, bit for bit, however
many processes there are.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from seqwright.errors import ModelError
from seqwright.nn.inference_weights import invalidate_inference_weights
from seqwright.runtime import peak_memory


class Part(NamedTuple):
    """Some examples of a batch, by their numbers in the training data, and which learner reads them."""

    numbers: Sequence[int]
    epoch: int
    seed: Sequence[int]  # of its randomness
    learner: int = 0


@dataclass(frozen=True)
class Outcome:
    """Of one part or of several together."""

    total: float  # sum of the losses
    count: int  # of the target tokens that they are of
    tokens: int  # of both sides


Compute = Callable[[Part], Outcome]
"""The loss of a part; its gradient is added to `.grad` of the parameters."""


class Workers:
    """This process and its helpers, which inside the block are copies of it (fork) with the same weights.

    From here on weights must be changed in place, and by this process alone.
    """

    def __init__(self, model: nn.Module, compute: Compute, helpers: int = 0):
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.compute, self.size = compute, 1 + helpers
        self.helpers: list[_Helper] = []
        if helpers:
            _share(list(model.parameters()))
            invalidate_inference_weights(model)

    def __enter__(self) -> Self:
        while len(self.helpers) < self.size - 1:
            self.helpers.append(_Helper(self.parameters, self.compute))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self.helpers:
            self.helpers.pop().close()

    def gradients(self, parts: Sequence[Part]) -> Outcome:
        """The sums over all parts; that of their gradients is in `.grad`, which must be empty before."""
        helped = parts[1 : 1 + len(self.helpers)]
        for helper, part in zip(self.helpers, helped, strict=False):
            helper.ask(part)
        outcomes = [self.compute(parts[0])]
        outcomes += [helper.answer() for helper, _ in zip(self.helpers, helped, strict=False)]
        outcomes += [self.compute(part) for part in parts[1 + len(helped) :]]
        return Outcome(
            sum(outcome.total for outcome in outcomes),
            sum(outcome.count for outcome in outcomes),
            sum(outcome.tokens for outcome in outcomes),
        )

    def memory(self) -> int | None:
        """The most bytes that all have held, but for what helpers have in common with this process."""
        own = peak_memory()
        return None if own is None else own + sum(helper.memory() for helper in self.helpers)


def allocate_workers(parts: int, threads: int) -> tuple[int, int]:
    """(helpers, threads of each process): a process for each part, if there is a thread for each."""
    processes = parts if parts <= threads and sys.platform == "linux" else 1
    return processes - 1, max(threads // processes, 1)


class _Helper:
    """The other end of a pipe: a process that computes one part at a time."""

    def __init__(self, parameters: list[nn.Parameter], compute: Compute):
        self.parameters, self.gradients = parameters, _shared_like(parameters)
        self.pipe, theirs = Pipe()
        with warnings.catch_warnings():  # of threads, which forks do not have: torch's are idle
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = os.fork()
        if not self.process:
            status = 1
            try:
                _close_others(theirs)
                _help(theirs, parameters, self.gradients, compute)
                status = 0
            finally:
                os._exit(status)
        theirs.close()

    def ask(self, part: Part) -> None:
        self._send(["compute", *part, torch.get_num_threads()])

    def answer(self) -> Outcome:
        """Adds its gradient to ours."""
        total, count, tokens, without = self._receive()
        for number, (parameter, gradient) in enumerate(zip(self.parameters, self.gradients, strict=True)):
            if number in without:
                continue
            if parameter.grad is None:
                parameter.grad = gradient.clone()
            else:
                parameter.grad += gradient
        return Outcome(total, count, tokens)

    def memory(self) -> int:
        self._send(["memory"])
        return int(self._receive()[0])

    def close(self) -> None:
        self.pipe.close()
        os.waitpid(self.process, 0)

    def _send(self, message: list[object]) -> None:
        try:
            self.pipe.send_bytes(json.dumps(message).encode())
        except OSError as error:
            raise self._gone() from error

    def _receive(self) -> list:
        try:
            answer = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._gone() from error
        if isinstance(answer, str):
            raise ModelError(f"a process of the training failed: {answer}")
        return answer

    def _gone(self) -> ModelError:
        return ModelError(
            f"process {self.process} of the training has ended, for want of memory perhaps; the same command "
            "goes on from the last checkpoint, with training.accumulate=1 in one process"
        )


def _help(
    pipe: Connection, parameters: list[nn.Parameter], gradients: list[Tensor], compute: Compute
) -> None:
    """Until the other end is closed, or dies."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # the first process decides when it ends
    before = peak_memory() or 0
    while True:
        try:
            what, *given = json.loads(pipe.recv_bytes())
            if what == "memory":
                pipe.send_bytes(json.dumps([(peak_memory() or 0) - before]).encode())
            else:
                pipe.send_bytes(json.dumps(_answer(given, parameters, gradients, compute)).encode())
        except (EOFError, OSError):
            return


def _answer(
    given: list, parameters: list[nn.Parameter], gradients: list[Tensor], compute: Compute
) -> list | str:
    """The outcome and the parameters that have no gradient, or what went wrong."""
    *part, threads = given
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    for parameter in parameters:
        parameter.grad = None
    try:
        outcome = compute(Part(*part))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    without = []
    for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        if parameter.grad is None:
            without.append(number)
        else:
            gradient.copy_(parameter.grad)
    return [outcome.total, outcome.count, outcome.tokens, without]


def _share(parameters: list[nn.Parameter]) -> None:
    """Moves the values of parameters to memory that forks of this process have in common with it."""
    for parameter, shared in zip(parameters, _shared_like(parameters), strict=True):
        parameter.data = shared.copy_(parameter.data)


def _shared_like(parameters: list[nn.Parameter]) -> list[Tensor]:
    """Zeros, each behind the other in one piece of memory."""
    sizes = [-(-parameter.nbytes // 64) * 64 for parameter in parameters]  # lines of the cache
    memory = memoryview(mmap.mmap(-1, max(sum(sizes), 1)))
    made, start = [], 0
    for parameter, size in zip(parameters, sizes, strict=True):
        flat = parameter.new_empty(0)
        if size:
            flat = torch.frombuffer(memory, dtype=parameter.dtype, offset=start, count=parameter.numel())
        made.append(flat.view(parameter.shape))
        start += size
    return made


def _close_others(pipe: Connection) -> None:
    """What is open here was opened by the first process: locks and pipes that must end with it."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != pipe.fileno():
            with suppress(OSError):  # that of the listing itself
                os.close(number)

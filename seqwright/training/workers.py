"""The gradient of a batch, computed by several processes at the same time.

Threads wait for each other after every small matrix product: on two cores they make a step of a small model a
quarter faster, and many times slower while another program runs. Processes with a micro-batch each wait once
a step. Gradients are added in the order of the micro-batches, so the sum is the same, bit for bit, for every
number of processes.
"""

from __future__ import annotations

import math
import mmap
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.data.plan import split
from seqwright.errors import ModelError, SeqwrightError
from seqwright.nn.inference_weights import invalidate_inference_weights
from seqwright.runtime import peak_memory


class MicroBatch(NamedTuple):
    """Some examples of a batch, by their numbers in the training data, and the learner that reads them."""

    numbers: Sequence[int]
    epoch: int
    seed: Sequence[int]  # of its dropout
    learner: int = 0


@dataclass(frozen=True)
class LossSum:
    """The summed loss of any number of micro-batches."""

    total: float
    count: int  # target tokens
    tokens: int  # source and target tokens

    def __add__(self, other: LossSum) -> LossSum:
        return LossSum(self.total + other.total, self.count + other.count, self.tokens + other.tokens)


Compute = Callable[[MicroBatch], LossSum]
"""Returns the loss of a micro-batch and adds its gradient to `.grad` of the parameters."""


class WorkerError(RuntimeError):
    """A bug in a worker process; the message contains its traceback."""


class Workers:
    """This process and its children, which are forks of it inside the block and share its weights.

    From here on, only this process may change weights, and only in place.
    """

    def __init__(self, model: nn.Module, compute: Compute, children: int = 0):
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.compute, self.size = compute, 1 + children
        self.children: list[_Child] = []
        if children:
            weights = list(model.parameters())
            for parameter, shared in zip(weights, _shared_like(weights), strict=True):
                parameter.data = shared.copy_(parameter.data)
            invalidate_inference_weights(model)

    def __enter__(self) -> Self:
        while len(self.children) < self.size - 1:
            self.children.append(_Child(self.parameters, self.compute))
        return self

    def __exit__(self, *error: object) -> None:
        while self.children:
            self.children.pop().close()

    def sum_gradients(self, batches: Sequence[MicroBatch]) -> LossSum:
        """Return the sum of the losses and leave that of their gradients in `.grad`, which must be empty."""
        busy = self.children[: len(batches) - 1]
        for child, batch in zip(busy, batches[1:], strict=False):
            child.send("compute", batch, torch.get_num_threads())
        loss = self.compute(batches[0])
        for child in busy:
            loss += child.add_gradient()
        for batch in batches[1 + len(busy) :]:
            loss += self.compute(batch)
        return loss

    def mean_gradient(self, batches: Sequence[MicroBatch], clip: float | None) -> tuple[LossSum, float]:
        """Leave the clipped gradient of the mean loss in `.grad`; return the loss and the norm before."""
        loss = self.sum_gradients(batches)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        torch._foreach_div_(gradients, loss.count)
        return loss, nn.utils.clip_grad_norm_(self.parameters, clip or math.inf).item()

    def memory(self) -> int | None:
        """The peak memory of all processes in bytes; shared memory counts once."""
        own = peak_memory()
        return None if own is None else own + sum(child.memory() for child in self.children)


def allocate_workers(micro_batches: int, threads: int) -> tuple[int, int]:
    """(child processes, threads per process): one process per micro-batch if each gets a thread."""
    processes = micro_batches if micro_batches <= threads and sys.platform == "linux" else 1
    return processes - 1, max(threads // processes, 1)


def micro_batches(
    batch: np.ndarray, count: int, epoch: int, seed: Sequence[int], learners: int = 1
) -> list[MicroBatch]:
    """Divide a batch into `count` micro-batches, or give the whole batch to each of several learners."""
    if learners > 1:
        return [MicroBatch(batch.tolist(), epoch, (*seed, number), number) for number in range(learners)]
    parts = [numbers.tolist() for numbers in split(batch, count) if len(numbers)]
    return [MicroBatch(numbers, epoch, (*seed, number)) for number, numbers in enumerate(parts)]


class _Child:
    """A forked process that computes one micro-batch at a time."""

    def __init__(self, parameters: list[nn.Parameter], compute: Compute):
        self.parameters, self.gradients, self.compute = parameters, _shared_like(parameters), compute
        self.pipe, theirs = Pipe()
        with warnings.catch_warnings():  # a fork has no threads, which is fine: those of torch are idle
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = os.fork()
        if not self.process:
            try:
                self._serve(theirs)
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(0)
        theirs.close()

    # In the parent ---------------------------------------------------------------------------------

    def add_gradient(self) -> LossSum:
        """Wait for the requested loss, and add its gradient to `.grad` of the parameters."""
        loss, has_gradient = self._receive()
        for parameter, gradient, present in zip(self.parameters, self.gradients, has_gradient, strict=True):
            if present:
                parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)
        return loss

    def memory(self) -> int:
        self.send("memory")
        return self._receive()

    def close(self) -> None:
        self.pipe.close()
        os.waitpid(self.process, 0)

    def send(self, *message: object) -> None:
        with self._alive():
            self.pipe.send(message)

    def _receive(self) -> Any:
        with self._alive():
            answer = self.pipe.recv()
        if isinstance(answer, SeqwrightError):
            raise answer
        if isinstance(answer, str):
            raise WorkerError(f"worker process {self.process} failed:\n{answer}")
        return answer

    @contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise ModelError(
                f"worker process {self.process} ended, perhaps because memory ran out; the same command "
                "resumes from the last checkpoint, and with OMP_NUM_THREADS=1 it trains in one process"
            ) from error

    # In the child ----------------------------------------------------------------------------------

    def _serve(self, pipe: Connection) -> None:
        """Answer messages until the parent closes the pipe or dies."""
        for number in map(int, os.listdir("/proc/self/fd")):  # the end of the parent must release its locks
            if number > 2 and number != pipe.fileno():
                with suppress(OSError):  # the listing itself is closed by now
                    os.close(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)  # the parent decides when to end
        before = peak_memory() or 0
        with suppress(EOFError, OSError):
            while True:
                request, *arguments = pipe.recv()
                pipe.send((peak_memory() or 0) - before if request == "memory" else self._answer(*arguments))

    def _answer(self, batch: MicroBatch, threads: int) -> object:
        """Copy a gradient into shared memory; return the loss and which parameters have one, or an error."""
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        for parameter in self.parameters:
            parameter.grad = None
        try:
            loss = self.compute(batch)
        except SeqwrightError as error:
            return error
        except Exception:
            return traceback.format_exc()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is not None:
                gradient.copy_(parameter.grad)
        return loss, [parameter.grad is not None for parameter in self.parameters]


def _shared_like(parameters: list[nn.Parameter]) -> list[Tensor]:
    """Tensors of the same shapes, filled with zeros, in one block of memory that forks share."""
    sizes = [-(-parameter.nbytes // 64) * 64 for parameter in parameters]  # whole cache lines
    memory = memoryview(mmap.mmap(-1, max(sum(sizes), 1)))
    tensors, start = [], 0
    for parameter, size in zip(parameters, sizes, strict=True):
        flat = parameter.new_empty(0)
        if size:
            flat = torch.frombuffer(memory, dtype=parameter.dtype, offset=start, count=parameter.numel())
        tensors.append(flat.view(parameter.shape))
        start += size
    return tensors

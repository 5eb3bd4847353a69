"""Contenders in separate processes, measured in turns, so that changes of the machine affect all alike.

A contender is a generator. It yields once when it is ready (None, or a dict of facts about itself), and then
the (work, seconds) of one round each time it is resumed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Entry:
    """One process. `target` is "module:function", called with `arguments` by the interpreter `python`, which
    may belong to another environment. `memory` is the peak memory of the process in bytes.
    """

    name: str
    target: str
    arguments: dict[str, Any]
    python: str = sys.executable
    rates: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    memory: int | None = None
    failure: str = ""
    _process: subprocess.Popen[str] | None = None

    def start(self) -> bool:
        command = [self.python, "-m", "bench.contest", self.target, json.dumps(self.arguments)]
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": paths},
            )
        except OSError as error:
            self.failure = f"{self.python} cannot be run: {error.strerror}"
            return False
        facts = self._answer()
        self.facts = facts or {}
        return facts is not None

    def round(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process died; it has no answer
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        answer = self._answer()
        if answer is not None:
            self.rates.append(answer["work"] / answer["seconds"])
            self.memory = answer["memory"]

    def stop(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None and self._process.poll() is None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    @property
    def rate(self) -> float:
        return statistics.median(self.rates) if self.rates else float("nan")

    def _answer(self) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"failure": f"left with code {self._process.wait()}"}
        self.failure = answer.get("failure", "")
        return None if self.failure else answer


def in_threads(name: str, target: str, arguments: dict[str, Any]) -> list[Entry]:
    """One contender with one thread and with two."""
    return [
        Entry(f"{name}, {threads} thread{'s' * (threads > 1)}", target, {**arguments, "threads": threads})
        for threads in (1, 2)
    ]


def in_precisions(name: str, target: str, arguments: dict[str, Any]) -> list[Entry]:
    """One contender in each precision, with one thread and with two."""
    return [
        entry
        for kind in ("float32", "int8")
        for entry in in_threads(f"{name} {kind}", target, {**arguments, "kind": kind})
    ]


def best(entries: list[Entry]) -> Entry:
    """The entry with the highest rate; a failed one only if all failed."""
    return max(entries, key=lambda entry: entry.rate if entry.rates else -1.0)


def compete(entries: list[Entry], rounds: int = 3) -> None:
    """Start all entries, measure them in turns, and stop them. A failed entry takes no further turns."""
    ready = [entry for entry in entries if entry.start()]
    for _ in range(rounds):
        for entry in ready:
            if not entry.failure:
                entry.round()
    for entry in entries:
        entry.stop()


def main() -> None:
    """Run in the child process: start the contender, then run one round per line of stdin.

    The output of the contender goes to stderr: stdout carries only the answers.
    """
    from seqwright.runtime import peak_memory

    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def answer(fields: dict[str, Any]) -> None:
            print(json.dumps(fields), file=answers, flush=True)

        try:
            rounds = contender(sys.argv[1], json.loads(sys.argv[2]))
            answer(next(rounds) or {})
            for _ in sys.stdin:
                work, seconds = next(rounds)
                answer({"work": work, "seconds": seconds, "memory": peak_memory()})
        except Exception as error:
            traceback.print_exc()
            answer({"failure": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"})
            sys.exit(1)


def contender(target: str, arguments: dict[str, Any]) -> Iterator[Any]:
    import importlib

    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)(**arguments)


if __name__ == "__main__":
    main()

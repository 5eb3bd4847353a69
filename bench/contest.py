"""Contenders in processes of their own, measured in turns: the machine's moods then hit all of them alike.

A contender is a function that yields once when it is ready, and then the (work, seconds) of one round each
time it is asked on.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Entry:
    """One process. `target` is "module:function", called with `arguments`."""

    name: str
    target: str
    arguments: dict[str, Any]
    rates: list[float] = field(default_factory=list)
    failure: str = ""

    def start(self) -> bool:
        command = [sys.executable, "-m", "bench.contest", self.target, json.dumps(self.arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self._answer() is not None

    def round(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer = self._answer()
        if answer is not None:
            self.rates.append(answer["work"] / answer["seconds"])

    def stop(self) -> None:
        if self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.close()
        self._process.wait()

    @property
    def rate(self) -> float:
        return statistics.median(self.rates) if self.rates else float("nan")

    def _answer(self) -> dict[str, float] | None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.failure = self.failure or f"left with code {self._process.wait()}"
        return None


def compete(entries: list[Entry], rounds: int = 3) -> None:
    """Starts all, measures them in turns, stops them. One that fails to start is left out and says why."""
    ready = [entry for entry in entries if entry.start()]
    for _ in range(rounds):
        for entry in ready:
            if not entry.failure:
                entry.round()
    for entry in entries:
        entry.stop()


def main() -> None:
    """The child's side: start the contender, then one round for each line of stdin."""
    import importlib

    target, arguments = sys.argv[1], json.loads(sys.argv[2])
    module, _, function = target.partition(":")
    rounds: Iterator[tuple[float, float] | None] = getattr(importlib.import_module(module), function)(
        **arguments
    )
    next(rounds)
    print("{}", flush=True)
    for _ in sys.stdin:
        work, seconds = next(rounds)  # type: ignore[misc]
        print(json.dumps({"work": work, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()

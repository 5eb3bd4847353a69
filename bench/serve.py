"""Speed of a served model under load, against a loop that predicts one input at a time in process.

python -m bench.serve RUN                  # a run of text_to_text, greedy; a minute
python -m bench.serve RUN --seconds 60     # of each load

The server is another process on 127.0.0.1. Closed loop: so many clients, each of which waits for its answer.
Open loop: requests at random times (Poisson), at a share of the capacity that the closed loop has shown,
whatever the answers. Every load ends after its seconds or `MOST` requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.tables import markdown
from seqwright.prediction.examples import read_examples
from seqwright.prediction.predictor import load
from seqwright.runtime import machine

MOST = 20_000  # requests of one load
CLIENTS = (1, 4, 16, 32, 64)
SHARES = (0.5, 1.0, 2.0)  # of the capacity
CONNECTIONS = 900  # of an open loop
DEADLINE = 5.0  # seconds
OPTIONS = {"beam": 1}


@dataclass
class Load:
    """The outcome of one load: seconds of each success, and what else came back."""

    name: str
    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    refused: int = 0
    silent: int = 0  # refusals without Retry-After
    failed: int = 0  # any other answer, or none
    memory: float = 0.0  # megabytes of the server afterwards

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        ranked = sorted(self.times)
        return 1000 * ranked[min(int(share * len(ranked)), len(ranked) - 1)] if ranked else math.nan

    def row(self) -> list[str]:
        times = (f"{self.percentile(share):.1f}" for share in (0.5, 0.95, 0.99))
        counts = (f"{self.refused}", f"{self.failed}", f"{self.memory:.0f}")
        return [self.name, f"{self.rate:.0f}", *times, *counts]


class Connection:
    """One kept-alive connection, with just enough of HTTP."""

    def __init__(self, port: int):
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> tuple[int, dict[str, str]]:
        """Send a prediction; return the status and the headers."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            f"X-Request-Timeout: {DEADLINE}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), headers

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


async def send(connection: Connection, text: str, load: Load) -> None:
    began = time.perf_counter()
    try:
        status, headers = await connection.post(json.dumps({"inputs": [text], "options": OPTIONS}).encode())
    except (OSError, asyncio.IncompleteReadError, ValueError):
        connection.close()
        load.failed += 1
        return
    if status == 200:
        load.times.append(time.perf_counter() - began)
    elif status in (429, 503):
        load.refused += 1
        load.silent += "retry-after" not in headers
    else:
        load.failed += 1


async def closed(port: int, texts: Sequence[str], clients: int, seconds: float) -> Load:
    """Clients that send again as soon as they are answered."""
    load, began = Load(f"{clients} clients"), time.perf_counter()
    draw = random.Random(clients)

    async def client() -> None:
        connection = Connection(port)
        while time.perf_counter() - began < seconds and len(load.times) < MOST:
            await send(connection, draw.choice(texts), load)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    load.seconds = time.perf_counter() - began
    return load


async def opened(port: int, texts: Sequence[str], rate: float, seconds: float, name: str) -> Load:
    """Requests at random times, on connections that are free or new."""
    load, began, draw = Load(name), time.perf_counter(), random.Random(1)
    free: list[Connection] = []
    busy: set[asyncio.Task[None]] = set()

    async def one(text: str) -> None:
        connection = free.pop() if free else Connection(port)
        await send(connection, text, load)
        free.append(connection)

    at, count = 0.0, 0
    while at < seconds and count < MOST:
        at, count = at + draw.expovariate(rate), count + 1
        await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
        if len(busy) < CONNECTIONS:
            task = asyncio.create_task(one(draw.choice(texts)))
            busy.add(task)
            task.add_done_callback(busy.discard)
        else:
            load.failed += 1
    load.seconds = time.perf_counter() - began
    await asyncio.gather(*busy)
    for connection in free:
        connection.close()
    return load


def resident(pid: int) -> float:
    """Megabytes of memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return math.nan


def one_by_one(folder: str, texts: Sequence[str], seconds: float) -> Load:
    """The loop without a server."""
    model, load_, began = load(folder), Load("in process, one by one"), time.perf_counter()
    draw = random.Random(0)
    model.predict([texts[0]], **OPTIONS)
    while time.perf_counter() - began < seconds and len(load_.times) < MOST:
        start = time.perf_counter()
        model.predict([draw.choice(texts)], **OPTIONS)
        load_.times.append(time.perf_counter() - start)
    load_.seconds = time.perf_counter() - began
    return load_


def verdicts(alone: Load, loads: Sequence[Load], over: Load, before: float) -> list[str]:
    """Return the bars with what was measured."""
    by_name = {load.name: load for load in loads}
    peak = max(load.rate for load in loads)
    lone, many = by_name["1 clients"], by_name["32 clients"]
    accepted, slower = over.percentile(0.99) / 1000, lone.percentile(0.5) / alone.percentile(0.5)
    bars = [
        ("32 clients ≥ 4 × one by one", many.rate / alone.rate, lambda x: x >= 4),
        ("p50 of a lone request ≤ 1.3 × in process", slower, lambda x: x <= 1.3),
        ("goodput at 2 × overload ≥ 90 % of the peak", over.rate / peak, lambda x: x >= 0.9),
        (f"p99 of accepted requests ≤ {DEADLINE:g} s", accepted, lambda x: x <= DEADLINE),
        ("memory growth at overload < 5 %", over.memory / before - 1, lambda x: x < 0.05),
        ("refusals without Retry-After", float(over.silent), lambda x: x == 0),
        ("answers other than 200, 429, 503", float(over.failed), lambda x: x == 0),
    ]
    checks: Sequence[tuple[str, float, Callable[[float], bool]]] = bars
    return [f"{'ok    ' if holds(value) else 'FAILED'}  {name}: {value:.3g}" for name, value, holds in checks]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="RUN")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (default: 5)")
    options = parser.parse_args(arguments)
    texts = [example.source for example in read_examples(options.folder).examples]
    alone = one_by_one(options.folder, texts, options.seconds)
    command = [sys.executable, "-m", "seqwright.cli", "serve", options.folder, "--port", "0"]
    server: Any = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().rpartition(":")[2])
        loads = []
        for clients in CLIENTS:
            loads.append(asyncio.run(closed(port, texts, clients, options.seconds)))
            loads[-1].memory = resident(server.pid)
        capacity, before = max(load.rate for load in loads), resident(server.pid)
        rates = []
        for share in SHARES:
            name = f"{share:g} × {capacity:.0f} per second"
            rates.append(asyncio.run(opened(port, texts, share * capacity, options.seconds, name)))
            rates[-1].memory = resident(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    heading = ["load", "answers per s", "p50 ms", "p95 ms", "p99 ms", "refused", "failed", "MB"]
    print(machine())
    print(markdown(heading, [load.row() for load in (alone, *loads, *rates)]))
    print(*verdicts(alone, loads, rates[-1], before), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

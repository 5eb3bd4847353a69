"""Speed of a served model under load, against a loop that predicts one input at a time in process.

python -m bench.serve RUN --texts test.en  # a run of text_to_text, greedy; a minute
python -m bench.serve RUN --seconds 60     # of each load; texts: the recorded examples of the run
python -m bench.serve RUN --soak 300       # seconds; one request in ten is left before its answer
python -m bench.serve --table              # writes the table of docs/benchmarks.md

The server is another process on 127.0.0.1; its memory, files and threads include those of its children.
Closed loop: so many clients, each of which waits for its answer.
Open loop: requests at random times (Poisson), at a share of the capacity that the closed loop has shown,
whatever the answers. Every load ends after its seconds or `MOST` requests. Soak: 16 clients, with
`SLOW` connections that never complete a request; at the end SIGTERM comes while all of them wait.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.tables import markdown, put
from seqwright.files import write_json
from seqwright.prediction.examples import read_examples
from seqwright.prediction.predictor import load
from seqwright.runtime import machine

MOST = 20_000  # requests of one load
CLIENTS = (1, 4, 16, 32, 64)
SHARES = (0.5, 1.0, 2.0)  # of the capacity
CONNECTIONS = 900  # of an open loop
DEADLINE = 5.0  # seconds
OPTIONS = {"beam": 1}
SLOW = 500  # connections of a soak that never complete a request
HERE = Path(__file__).parent
RESULTS, DOCS = HERE / "results" / "serve.json", HERE.parent / "docs" / "benchmarks.md"


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

    async def request(self, body: bytes) -> asyncio.StreamReader:
        """Send a prediction; return what its answer is read from."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            f"X-Request-Timeout: {DEADLINE}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        return reader

    async def post(self, body: bytes) -> tuple[int, dict[str, str]]:
        """Send a prediction; return the status and the headers of the answer."""
        kept = self.streams is not None
        reader = await self.request(body)
        try:
            await reader.readuntil(b" ")
        except (OSError, asyncio.IncompleteReadError):
            if not kept:
                raise
            self.close()  # the server had closed the idle connection
            return await self.post(body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[0]), headers

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


def asked(text: str) -> bytes:
    return json.dumps({"inputs": [text], "options": OPTIONS}).encode()


async def send(connection: Connection, text: str, load: Load) -> None:
    began = time.perf_counter()
    try:
        status, headers = await connection.post(asked(text))
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
    load, began = Load(f"{clients} client{'s' if clients > 1 else ''}"), time.perf_counter()
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


def processes(pid: int) -> list[int]:
    """A process and its children, of which a server has one for each model."""
    lists = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(each for text in lists for child in text.split() for each in processes(int(child)))]


def resident(pid: int) -> float:
    """Megabytes of memory of a process and its children; what they share counts for each."""
    lines = [
        line for each in processes(pid) for line in Path(f"/proc/{each}/status").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def entries(pid: int, folder: str) -> int:
    """The number of open files ("fd") or threads ("task") of a process and its children."""
    return sum(len(list(Path(f"/proc/{each}/{folder}").iterdir())) for each in processes(pid))


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


def verdicts(alone: Load, loads: Sequence[Load], over: Load, before: float) -> list[tuple[str, float, bool]]:
    """Return the bars: what is required, what was measured, whether it holds."""
    by_name = {load.name: load for load in loads}
    peak = max(load.rate for load in loads)
    lone, many = by_name["1 client"], by_name["32 clients"]
    accepted, slower = over.percentile(0.99) / 1000, lone.percentile(0.5) / alone.percentile(0.5)
    bars: Sequence[tuple[str, float, Callable[[float], bool]]] = [
        ("32 clients ≥ 4 × one by one", many.rate / alone.rate, lambda x: x >= 4),
        ("p50 of a lone request ≤ 1.3 × in process", slower, lambda x: x <= 1.3),
        ("goodput at 2 × overload ≥ 90 % of the peak", over.rate / peak, lambda x: x >= 0.9),
        (f"p99 of accepted requests ≤ {DEADLINE:g} s", accepted, lambda x: x <= DEADLINE),
        ("memory growth at overload < 5 %", over.memory / before - 1, lambda x: x < 0.05),
        ("refusals without Retry-After", float(over.silent), lambda x: x == 0),
        ("answers other than 200, 429, 503", float(over.failed), lambda x: x == 0),
    ]
    return [(name, value, holds(value)) for name, value, holds in bars]


@contextmanager
def server_of(folder: str) -> Iterator[Any]:
    """The process of a server, with its `port`."""
    command = [sys.executable, "-m", "seqwright", "serve", folder, "--port", "0"]
    process: Any = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    process.port = int(process.stdout.readline().rpartition(":")[2])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def measure(folder: str, texts: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return the rows of all loads, and the bars."""
    alone = one_by_one(folder, texts, seconds)
    with server_of(folder) as server:
        loads = []
        for clients in CLIENTS:
            loads.append(asyncio.run(closed(server.port, texts, clients, seconds)))
            loads[-1].memory = resident(server.pid)
        capacity, before = max(load.rate for load in loads), resident(server.pid)
        rates = []
        for share in SHARES:
            name = f"{share:g} × {capacity:.0f} per second"
            rates.append(asyncio.run(opened(server.port, texts, share * capacity, seconds, name)))
            rates[-1].memory = resident(server.pid)
    rows = [load.row() for load in (alone, *loads, *rates)]
    return {"rows": rows, "bars": verdicts(alone, loads, rates[-1], before)}


async def soaked(server: Any, texts: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return what clients that leave, and slow ones, do to a server."""
    load, left, ended = Load("soak"), 0, asyncio.Event()
    draw, began = random.Random(0), time.perf_counter()

    async def client() -> None:
        nonlocal left
        connection = Connection(server.port)
        while not ended.is_set():
            if draw.random() < 0.1:
                await connection.request(asked(draw.choice(texts)))
                await asyncio.sleep(draw.random() / 20)
                connection.close()
                left += 1
            else:
                await send(connection, draw.choice(texts), load)
        connection.close()

    slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(SLOW)]
    for _, writer in slow:
        writer.write(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    clients = [asyncio.create_task(client()) for _ in range(16)]
    found: dict[str, Any] = {}
    for moment in ("begin", "end"):
        await asyncio.sleep(seconds * (0.2 if moment == "begin" else 0.8))
        files, threads = entries(server.pid, "fd"), entries(server.pid, "task")
        found[moment] = {"megabytes": resident(server.pid), "files": files, "threads": threads}
    for _, writer in slow:
        writer.close()
    load.seconds, failed = time.perf_counter() - began, load.failed
    waiting = [Connection(server.port) for _ in range(16)]
    ended.set()
    await asyncio.gather(*clients)
    readers = [await each.request(asked(texts[0])) for each in waiting]
    await asyncio.sleep(0.05)  # they are accepted
    server.send_signal(signal.SIGTERM)
    answers = [int((await reader.readline()).split()[1]) for reader in readers]
    counts = {"answers": len(load.times), "left": left, "refused": load.refused, "failed": failed}
    lost = sum(answer != 200 for answer in answers)
    return {"seconds": seconds, **counts, **found, "lost at SIGTERM": lost}


def table(result: Mapping[str, Any]) -> str:
    heading = ["load", "answers per s", "p50 ms", "p95 ms", "p99 ms", "refused", "failed", "MB"]
    bars = [[name, f"{value:.3g}", "yes" if holds else "**no**"] for name, value, holds in result["bars"]]
    parts = [markdown(heading, result["rows"]), markdown(["bar", "measured", "holds"], bars)]
    if "soak" in result:
        soak = {
            name: ", ".join(f"{each:.0f} {what}" for what, each in value.items())
            if isinstance(value, Mapping)
            else f"{value:,.0f}"
            for name, value in result["soak"].items()
        }
        parts.append(markdown(["soak", ""], [[name, value] for name, value in soak.items()]))
    return "\n\n".join([*parts, f"{result['machine']}; one run of `tiny`, {result['texts']:,} texts"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="RUN", nargs="?")
    parser.add_argument("--texts", metavar="FILE", help="one per line (default: the recorded examples)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (default: 5)")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="only soak, for so long")
    parser.add_argument("--table", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    result = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if options.folder is not None:
        if options.texts is not None:
            texts = Path(options.texts).read_text(encoding="utf-8").splitlines()
        else:
            texts = [example.source for example in read_examples(options.folder).examples]
        if options.soak is not None:
            with server_of(options.folder) as server:
                result["soak"] = asyncio.run(soaked(server, texts, options.soak))
        else:
            result |= measure(options.folder, texts, options.seconds)
            result |= {"machine": machine(), "texts": len(texts)}
        write_json(RESULTS, result)
        print(json.dumps(result["soak"]) if options.soak is not None else table(result))
    if options.table:
        put(DOCS, "serve", table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

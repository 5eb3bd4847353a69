"""The server under load for minutes, with clients that leave and clients that are slow: nothing leaks."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
import urllib.request

import pytest
from serving import Process

from bench.serve import entries, resident

SECONDS = 60.0
CLIENTS = 16


def metric(server, name):
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"seqwright_{name}"))


def descriptors(server):
    return entries(server.process.pid, "fd")


def memory(server):
    return resident(server.process.pid)


async def client(port, until, draw, counts):
    """Send until the time is over; one request in ten is left before its answer."""
    body = {"inputs": ["facade" * draw.randint(1, 6)], "options": {"beam": draw.choice([1, 3])}}
    data = json.dumps(body).encode()
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + data)
        if draw.random() < 0.1:
            writer.close()
            counts["left"] += 1
            continue
        status = int((await reader.readline()).split()[1])
        counts[status] = counts.get(status, 0) + 1
        writer.close()


@pytest.mark.slow
def test_a_soak_with_disconnects_leaks_nothing(run):
    with Process(str(run)) as server:
        counts = {"left": 0}

        async def everyone(seconds):
            until = time.monotonic() + seconds
            await asyncio.gather(
                *(client(server.port, until, random.Random(number), counts) for number in range(CLIENTS))
            )

        asyncio.run(everyone(20))  # buffers have their size by then
        time.sleep(1)
        before = memory(server), descriptors(server)
        asyncio.run(everyone(SECONDS))
        deadline = time.monotonic() + 10
        while metric(server, "inflight") or metric(server, "queue_depth"):
            assert time.monotonic() < deadline, "rows stay behind"
            time.sleep(0.2)
        while descriptors(server) > before[1] + 2:
            assert time.monotonic() < deadline, "sockets stay open"
            time.sleep(0.2)
        assert counts["left"] > 10
        assert set(counts) <= {"left", 200, 503}
        assert memory(server) < 1.05 * before[0]
        assert server.stop()[0] == 0


@pytest.mark.slow
def test_slow_clients_do_not_stop_service(run):
    """500 connections send their header a byte at a time; others are answered, and the slow ones closed."""
    with Process(str(run)) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(500)]
        began = time.monotonic()
        for text in b"POST /v1/predict":
            for each in slow:
                each.send(bytes([text]))
        for _ in range(20):
            start = time.monotonic()
            request = urllib.request.Request(
                f"{server.url}/v1/predict", json.dumps({"inputs": ["abc"]}).encode()
            )
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert answer.status == 200
            assert time.monotonic() - start < 5
        while descriptors(server) > 300:
            assert time.monotonic() - began < 40, "slow connections stay open"
            time.sleep(0.5)
        for each in slow:
            each.close()
        assert server.stop()[0] == 0

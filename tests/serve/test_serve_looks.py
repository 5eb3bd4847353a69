"""Looks: a thread of their own with few places, deadlines, and an end that does not wait for them."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from serving import Process, client, models_of

from seqwright.prediction.predictor import load
from seqwright.serve.limits import Limits, Refusal
from seqwright.serve.looks import Looks

BODY = {"input": "abc"}


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def held(server, monkeypatch):
    """Looks that start, and stand still until the event is set."""
    predictor, event, begun = models_of(server).find(None).predictor, threading.Event(), []
    whole = predictor.look

    def look(given, **options):
        begun.append(given)
        event.wait(30)
        return whole(given, **options)

    monkeypatch.setattr(predictor, "look", look)
    try:
        yield event, begun
    finally:
        event.set()


def test_a_deadline_ends_the_wait_for_a_look(run, monkeypatch):
    with client(run) as server, held(server, monkeypatch):
        began = time.monotonic()
        late = server.post("/v1/look", json=BODY, headers={"X-Request-Timeout": "0.2"})
        assert (late.status_code, "Retry-After" in late.headers) == (503, True)
        assert late.json()["error"]["message"] == "the deadline of the request is over; try again"
        assert time.monotonic() - began < 10


def test_a_look_whose_client_left_keeps_its_place_until_it_is_finished():
    looks, event, begun = Looks("capitals", Limits(looks=2)), threading.Event(), []

    def work(check):
        begun.append(1)
        event.wait(30)

    async def run():
        late = time.monotonic() + 60
        waiting = [asyncio.create_task(looks.run(work, late)) for _ in range(2)]
        while not begun:
            await asyncio.sleep(0.01)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        with pytest.raises(Refusal) as full:
            await looks.run(work, late)
        assert full.value.message == "2 looks into capitals are not finished; try again later"
        assert (full.value.status, full.value.headers()["Retry-After"]) == (503, "2")
        event.set()
        while looks.busy:
            await asyncio.sleep(0.01)
        return await looks.run(lambda check: "found", late)

    assert asyncio.run(run()) == "found"
    assert len(begun) == 1  # no client waited for the other one when it was its turn
    looks.close()


def test_a_look_ends_at_the_next_step_of_its_search(run):
    """As soon as no client waits for it."""
    predictor, steps = load(run, threads=1), []

    def check():
        steps.append(1)
        if len(steps) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        predictor.look("abc", check=check)
    assert predictor.look("abc").text == "abc"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"input": "a" * 41}, "the input has 41 tokens; a look takes at most 40; shorten it"),
        ({"input": "abc", "reference": "A" * 41}, "the reference has 41 tokens; a look takes at most 40"),
    ],
)
def test_a_long_look_is_refused(run, body, says):
    with client(run, limits={"look": 40}) as server:
        answer = server.post("/v1/look", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, None)
        assert says in answer.json()["error"]["message"]
        assert server.post("/v1/look", json={"input": "a" * 40}).status_code == 200


def test_the_end_of_the_drain_refuses_looks():
    looks, event = Looks("capitals", Limits()), threading.Event()

    async def run():
        late = time.monotonic() + 60
        waiting = [asyncio.create_task(looks.run(lambda check: event.wait(30), late)) for _ in range(2)]
        while not looks.busy:
            await asyncio.sleep(0)
        looks.refuse()
        return await asyncio.gather(*waiting, looks.run(event.wait, late), return_exceptions=True)

    found = asyncio.run(run())
    event.set()
    assert [type(each) for each in found] == [Refusal] * 3
    assert {each.message for each in found} == {"the server is shutting down; send the request again"}
    looks.close()
    until(lambda: not looks.busy)


# a look that cannot be interrupted, in the process of the command
ENDLESS = """
import sys, time
from seqwright.cli import main
from seqwright.prediction.predictor import Predictor

def look(*given, **options):
    print("a look has begun", flush=True)
    time.sleep(300)

Predictor.look = look
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("signals", [1, 2])
def test_the_process_ends_whatever_a_look_does(run, signals):
    """At the end of the drain, or at the second SIGTERM."""
    drain = "0.5" if signals == 1 else "100"

    def look():
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{server.url}/v1/look", json.dumps(BODY).encode(), kind)
        try:
            urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            return error.code
        except (ConnectionError, urllib.error.URLError):
            return None

    with Process(str(run), "--drain", drain, program=ENDLESS) as server, ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        assert "a look has begun" in server.process.stdout.readline()
        began = time.monotonic()
        if signals == 2:
            server.process.send_signal(signal.SIGTERM)
            until(lambda: status(server, "/readyz") == 503)
        code, errors = server.stop()
        assert time.monotonic() - began < 20
        assert looking.result() in ((503,) if signals == 1 else (503, None))
    assert code == 0, errors
    assert "Traceback" not in errors


def status(server, path):
    try:
        with urllib.request.urlopen(f"{server.url}{path}", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

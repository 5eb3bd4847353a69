"""The process of a worker: it dies alone, is started again, and ends with the server."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from serving import Process, client, direct, models_of, worker_of

from bench.serve import processes
from seqwright.errors import ModelError
from seqwright.prediction.predictor import load
from seqwright.serve.dispatcher import Dispatcher, Entry
from seqwright.serve.host import Source, WorkerProcess, WorkerThread
from seqwright.serve.limits import Limits, Refusal
from seqwright.serve.messages import Ticket
from seqwright.serve.metrics import Metrics
from seqwright.serve.models import load_models

LONG = {"model": "story", "prompt": "alpha gimel ", "max_tokens": 4000, "temperature": 0}


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def post(server, path, body):
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode())
    return urllib.request.urlopen(request, timeout=60)


def status(server, path):
    """The status of a page, and its text."""
    try:
        with urllib.request.urlopen(f"{server.url}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def alive(pid):
    """Whether a process runs; one that has ended may wait for its parent."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    return False


def test_a_worker_that_is_killed_refuses_its_requests_and_is_started_again(run, story):
    expected, answers = direct(run, ["facade"])[0]["output"], []
    with Process(str(run), str(story)) as server:
        _, *workers = processes(server.process.pid)
        assert len(workers) == 2  # one for each model

        def wait():
            try:
                answers.append(post(server, "/v1/completions", LONG).status)
            except urllib.error.HTTPError as error:
                answers.append((error.code, int(error.headers["Retry-After"]) > 0))

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: 'inflight{model="story"} 1.0' in status(server, "/metrics")[1])
        os.kill(workers[1], signal.SIGKILL)
        waiting.join()
        assert answers == [(503, True)]
        assert status(server, "/readyz")[0] == 503
        assert status(server, "/livez")[0] == 200
        with post(server, "/v1/predict", {"inputs": ["facade"]}) as answer:  # of the other model
            assert json.loads(answer.read())["predictions"][0]["output"] == expected
        until(lambda: status(server, "/readyz")[0] == 200)
        with post(server, "/v1/completions", {**LONG, "max_tokens": 5}) as answer:
            assert answer.status == 200
        assert 'worker_restarts_total{model="story"} 1.0' in status(server, "/metrics")[1]
        code, errors = server.stop()
    assert code == 0
    assert "the worker of story has died; it is started again" in errors
    assert not any(map(alive, workers))


def test_no_worker_outlives_a_server_that_is_killed(story):
    with Process(str(story)) as server:
        _, worker = processes(server.process.pid)

        def compute():
            with suppress(OSError):  # the server dies
                post(server, "/v1/completions", LONG)

        request = threading.Thread(target=compute)
        request.start()
        until(lambda: 'inflight{model="story"} 1.0' in status(server, "/metrics")[1])
        server.process.kill()
        until(lambda: not alive(worker), 5)
        request.join()


def test_signals_for_the_group_drain_it_and_lose_nothing(story):
    """A terminal and systemd send their signals to every process."""
    wanted = direct(story, [LONG["prompt"]], temperature=0, length=300)[0]["output"]
    with Process(str(story)) as server:
        found = []

        def read():
            with post(server, "/v1/completions", {**LONG, "max_tokens": 300}) as answer:
                found.append(json.loads(answer.read())["choices"][0]["text"])

        reading = threading.Thread(target=read)
        reading.start()
        until(lambda: 'inflight{model="story"} 1.0' in status(server, "/metrics")[1])
        pids = processes(server.process.pid)
        for pid, number in ((pids[1], signal.SIGINT), (pids[1], signal.SIGTERM), (pids[0], signal.SIGTERM)):
            os.kill(pid, number)
        code, errors = server.process.wait(60), server.process.communicate()[1]
        reading.join()
    assert (code, found) == (0, [wanted]), errors
    assert not any(map(alive, pids))


def test_a_stream_crosses_the_pipe_and_its_end_cancels_the_work(story):
    with Process(str(story)) as server:
        with post(server, "/v1/completions", {**LONG, "stream": True}) as answer:
            lines = [answer.readline() for _ in range(6)]  # each event ends with a blank line
        assert all(json.loads(line[6:])["choices"][0]["text"] for line in lines[::2])
        until(lambda: 'cancelled_total{model="story"} 1.0' in status(server, "/metrics")[1])
        until(lambda: 'inflight{model="story"} 0.0' in status(server, "/metrics")[1])
        text = status(server, "/metrics")[1]
        for name in ("queue_wait_seconds", "ttft_seconds", "batch_rows"):
            assert f'seqwright_{name}_count{{model="story"}} 0.0' not in text


def test_a_model_that_cannot_be_loaded_ends_its_worker(run, tmp_path):
    launch = partial(WorkerProcess, Source(str(tmp_path), 1, False))
    dispatcher = Dispatcher("gone", launch, Limits(), Metrics())
    try:
        with pytest.raises(
            ModelError, match="the process that computes gone ended while it loaded the model"
        ):
            dispatcher.wait_until_loaded()
    finally:
        dispatcher.close()
    with pytest.raises(ModelError):
        load_models([str(run), str(tmp_path)], Limits(), Metrics(), trusted=False, processes=True)


@pytest.fixture
def thread(run):
    """A dispatcher with a worker in a thread, and a function that makes entries of texts."""
    predictor = load(run, threads=1)
    dispatcher = Dispatcher("capitals", partial(WorkerThread, predictor), Limits(requests=3), Metrics())

    def entries(texts, done, seconds=60.0, **options):
        request = predictor.task.request(predictor.search, count=len(texts), **options)
        rows = predictor.task.encode(list(predictor.task.inputs(texts)))
        until = time.monotonic() + seconds
        return [Entry(Ticket(row, request, n, until), done) for n, row in enumerate(rows)]

    yield dispatcher, entries
    dispatcher.close()


def test_room_is_given_back_by_answers_cancellations_and_deaths(thread):
    dispatcher, entries = thread
    found = []
    dispatcher.submit(entries(["abc", "bad", "cab"], found.append, beam=1))
    with pytest.raises(Refusal, match="full"):
        dispatcher.submit(entries(["abc"], found.append))
    until(lambda: len(found) == 3)
    assert (dispatcher._held, dispatcher._tokens) == ({}, 0)
    waiting = entries(["abc"] * 3, found.append)
    dispatcher.submit(waiting)
    dispatcher.cancel([entry.ticket for entry in waiting])
    until(lambda: len(found) == 6)
    dispatcher.host.stop()  # as if it had died
    until(lambda: not dispatcher.ready)
    with pytest.raises(Refusal, match="is being loaded again") as refused:
        dispatcher.check_room(1)
    assert (refused.value.status, int(refused.value.headers()["Retry-After"])) == (503, 1)
    until(lambda: dispatcher.ready)
    dispatcher.submit(entries(["abc"], found.append))
    until(lambda: len(found) == 7)
    assert found[-1].text


def test_a_worker_that_cannot_be_started_is_tried_again(run, monkeypatch, caplog):
    """As when memory has run out for it and for its successor."""
    predictor, starts, found = load(run, threads=1), [], []
    monkeypatch.setattr("seqwright.serve.dispatcher.PAUSE", 0.01)

    def launch():
        starts.append(1)
        if len(starts) in (2, 3):
            raise OSError(errno.ENOMEM, "out of memory")
        return WorkerThread(predictor)

    dispatcher = Dispatcher("capitals", launch, Limits(), Metrics())
    try:
        dispatcher.wait_until_loaded()
        dispatcher.host.stop()
        until(lambda: len(starts) == 4 and dispatcher.ready)
        row = predictor.task.encode(list(predictor.task.inputs(["abc"])))[0]
        ticket = Ticket(row, predictor.task.request(predictor.search), 0, time.monotonic() + 60)
        dispatcher.submit([Entry(ticket, found.append)])
        until(lambda: found)
        assert found[0].text
    finally:
        dispatcher.close()
    assert caplog.text.count("the worker of capitals cannot be started (OSError); it is tried again") == 2


def test_a_death_during_a_computation_is_a_refusal_with_a_time(run, monkeypatch):
    with client(run) as server:
        worker, dispatcher = worker_of(server), models_of(server).find(None).dispatcher
        monkeypatch.setattr(worker, "_compute", lambda batch: (_ for _ in ()).throw(EOFError))
        answer = server.post("/v1/predict", json={"inputs": ["abc"]})
        assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        until(lambda: dispatcher.ready)
        assert server.post("/v1/predict", json={"inputs": ["abc"]}).status_code == 200

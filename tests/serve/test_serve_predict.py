"""/v1/predict and /v1/look: the outputs of the predictor, whatever they are computed with."""

from __future__ import annotations

import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe

import pytest
import torch
from serving import client, direct, models_of, worker_of
from tiny_runs import words

from seqwright.errors import InputError
from seqwright.prediction.predictor import load
from seqwright.serve.worker import PATIENCE, ROWS, SHARE, Worker


@pytest.fixture(scope="module")
def server(run):
    with client(run) as found:
        yield found


def predict(server, inputs, **more):
    return server.post("/v1/predict", json={"inputs": inputs, **more})


@pytest.mark.parametrize(
    "options",
    [{}, {"beam": 1}, {"beam": 4, "n_best": 3}, {"temperature": 0.7, "seed": 3}, {"prefix": "A"}],
    ids=repr,
)
def test_outputs_are_those_of_the_predictor(server, run, options):
    inputs = words(9, seed=2)
    answer = predict(server, inputs, options=options)
    assert answer.status_code == 200
    found = answer.json()
    assert found["model"] == "capitals"
    for one, other in zip(found["predictions"], direct(run, inputs, **options), strict=True):
        assert one.keys() == other.keys()
        assert [one["output"], *(each["output"] for each in one["alternatives"])] == [
            other["output"],
            *(each["output"] for each in other["alternatives"]),
        ]
        assert one["token_scores"] == pytest.approx(other["token_scores"], abs=1e-5)


def test_an_input_is_a_text_or_an_object_of_its_roles(server):
    one, other = predict(server, ["abc", {"source": "abc"}]).json()["predictions"]
    assert one["output"] == other["output"]
    assert one["source"] == other["source"] == "abc"


def test_many_clients_get_what_one_gets_alone(server, run):
    inputs = words(48, seed=8)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda word: predict(server, [word], options={"beam": 2}).json(), inputs))
    expected = [each["output"] for each in direct(run, inputs, beam=2)]
    assert [answer["predictions"][0]["output"] for answer in answers] == expected


def test_an_output_does_not_depend_on_what_it_is_computed_with(server):
    """One input alone, and in 32 random batches of other inputs, lengths and options."""
    draw, ways = random.Random(7), [{"beam": 1}, {"temperature": 0.9, "seed": 4}, {"beam": 3}]

    def answer(options):
        return predict(server, ["facade"], options=options).json()["predictions"][0]

    def noise(_):
        other = draw.choice([{"beam": 1}, {"temperature": 1.1, "seed": draw.randint(0, 9)}, {"beam": 2}])
        return predict(server, words(draw.randint(1, 9), seed=draw.randint(0, 99)), options=other).status_code

    alone = [answer(options) for options in ways]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(32):
            others = [pool.submit(noise, number) for number in range(5)]
            for one, expected in zip(pool.map(answer, ways), alone, strict=True):
                assert one["tokens"] == expected["tokens"]
                assert one["token_scores"] == pytest.approx(expected["token_scores"], abs=1e-5)
            assert {each.result() for each in others} == {200}


def test_drafts_that_wait_join_together_and_none_waits_long(run):
    with client(run) as server:
        worker = worker_of(server)
        assert worker._joining(["a"]) == ["a"]  # nothing grows
        worker._growing = dict.fromkeys(range(ROWS // 2))
        few, share = ["a"] * 3, ["a"] * int(SHARE * ROWS // 2)
        joined = [len(worker._joining(few)) for _ in range(2 * PATIENCE)]
        assert joined == 2 * [*[0] * (PATIENCE - 1), 3]
        assert worker._joining(share) == share
        worker._growing = dict.fromkeys(range(ROWS - 4))
        waiting = ["a"] * ROWS
        joined = [len(worker._joining(waiting)) for _ in range(PATIENCE)]
        assert joined == [*[0] * (PATIENCE - 1), 4]  # only so many have room
        worker._growing = {}


@pytest.mark.parametrize(("chosen", "running", "used"), [(None, 3, 1), (2, 3, 2), (2, 1, 2)])
def test_several_requests_leave_a_core_to_http_unless_the_threads_are_chosen(run, chosen, running, used):
    worker = Worker(load(run, threads=chosen), Pipe()[0])
    worker._cores, worker.running = 2, [None] * running
    with worker._computing(64):
        assert torch.get_num_threads() == used


def test_the_rate_is_that_of_the_model_even_if_a_queue_waits(run, monkeypatch):
    """Otherwise a busy server would refuse work that it can do in time."""
    with client(run) as server:
        worker = worker_of(server)
        step, worker.rate, inputs = worker._model.step, 10.0, words(250, seed=4)
        monkeypatch.setattr(worker._model, "step", lambda *given: time.sleep(0.02) or step(*given))
        began = time.monotonic()
        assert predict(server, inputs, options={"beam": 1}).status_code == 200
        rate = sum(len(word) + 2 for word in inputs) / (time.monotonic() - began)
        assert 0.4 < worker.rate / rate < 2.5


@pytest.mark.parametrize("beam", [1, 3])
def test_lone_outputs_do_not_make_the_estimate_slow(run, monkeypatch, beam):
    """Two more of them would be computed together: one does not have to wait for the other."""
    text = "abcdefgh"
    with client(run) as server:
        slow_steps(server, monkeypatch)
        dispatcher, worker = models_of(server).find(None).dispatcher, worker_of(server)
        worker.rate, seconds = 0.0, []
        for _ in range(3):  # the rate is a mean of the latest ones
            began = time.monotonic()
            assert predict(server, [text], options={"beam": beam}).status_code == 200
            seconds.append(time.monotonic() - began)
        until(lambda: dispatcher.rate == worker.rate)
        assert 2 * (len(text) + 1) / dispatcher.rate < min(seconds)


def slow_steps(server, monkeypatch):
    """Let each step of the worker take a while; return the rows of each step, which grows."""
    worker = worker_of(server)
    whole, steps = worker._model.step, []

    def slow(tokens, state):
        steps.append(len(tokens))
        time.sleep(0.05)
        return whole(tokens, state)

    monkeypatch.setattr(worker._model, "step", slow)
    return steps


@pytest.mark.parametrize("beam", [1, 3])
def test_an_output_that_nobody_waits_for_ends_at_the_next_step(run, monkeypatch, beam):
    with client(run) as server:
        steps, rate = slow_steps(server, monkeypatch), worker_of(server).rate
        late = server.post(
            "/v1/predict",
            json={"inputs": ["abcdefgh"], "options": {"beam": beam}},
            headers={"X-Request-Timeout": "0.12"},
        )
        assert late.status_code == 503
        until(lambda: not queued(server))
        assert len(steps) <= 5
        assert worker_of(server).rate == rate  # of what was not finished
        assert 'cancelled_total{model="capitals"} 1.0' in server.get("/metrics").text
        assert predict(server, ["abc"]).status_code == 200


def test_a_batch_goes_on_while_one_of_its_clients_waits(run, monkeypatch):
    texts, timeouts = ["abcdefgh", "hgfedcba"], ["0.4", "30"]
    with client(run) as server, ThreadPoolExecutor(3) as pool:
        steps = slow_steps(server, monkeypatch)
        pool.submit(predict, server, ["ab"], options={"beam": 2})  # what follows is one batch
        until(lambda: steps)

        def ask(text, timeout):
            body = {"inputs": [text], "options": {"beam": 3}}
            return server.post("/v1/predict", json=body, headers={"X-Request-Timeout": timeout})

        late, other = pool.map(ask, texts, timeouts)
        assert 6 in steps
        assert (late.status_code, other.status_code) == (503, 200)
        (expected,) = direct(run, texts[1:], beam=3)
        assert other.json()["predictions"][0]["output"] == expected["output"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "inputs: Field required"),
        ({"inputs": []}, "inputs: List should have at least 1 item"),
        ({"inputs": "abc"}, "inputs: Input should be a valid list"),
        ({"inputs": [1]}, "input 1 must be a text, or an object with source"),
        ({"inputs": ["a", {"source": 3}]}, "source of input 2 has the wrong type"),
        ({"inputs": [{"source": "a", "target": "b"}]}, "input 1 must be a text, or an object with source"),
        ({"inputs": ["a"], "extra": 1}, "extra: Extra inputs are not permitted"),
        ({"inputs": ["a"], "options": {"beam": 99}}, "beam is 99; it must be at most 16"),
        ({"inputs": ["a"], "options": {"beam": "x"}}, "beam is 'x'"),
        ({"inputs": ["a"], "options": {"size": 3}}, "size"),
        ({"inputs": ["a"], "options": {"count": 3}}, "count: there is no such option"),
        ({"inputs": ["a"], "options": {"prefix": 3}}, "prefix is 3"),
        ({"inputs": ["a" * 30_000]}, "input 1 has 30000 characters; at most 20000"),
        ({"inputs": ["a" * 10_000]}, "input 1 has 10000 tokens; the model reads 4095; split it"),
        ({"inputs": ["a"] * 300}, "inputs: List should have at most 256 items"),
    ],
)
def test_a_bad_request_is_answered_in_one_line(server, body, says):
    answer = server.post("/v1/predict", json=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert "\n" not in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"inputs": ["\\ud800"]}',
        b'{"inputs": [NaN]}',
        b'{"inputs": ' + b"[" * 100 + b"]" * 100 + b"}",
        b"[" * 100_000,
        b'{"inputs": [' + b"1" * 5000 + b"]}",
    ],
    ids=range(9),
)
def test_a_body_that_is_not_json_is_refused(server, body):
    answer = server.post("/v1/predict", content=body)
    assert answer.status_code == 400


def test_an_unknown_model_is_not_found(server):
    answer = predict(server, ["a"], model="other")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "the model 'other' does not exist; choose from: capitals"


def test_one_bad_input_does_not_fail_the_others(run, monkeypatch):
    with client(run) as server:
        predictor = models_of(server).find(None).predictor
        whole, started = predictor.answer, threading.Event()

        def answer(rows, request, numbers, check):
            started.set()
            if any(row.example.source == "bad" for row in rows):
                raise InputError("one of the inputs is bad")
            time.sleep(0.05)  # so that what follows is one batch
            return whole(rows, request, numbers, check)

        monkeypatch.setattr(predictor, "answer", answer)
        with ThreadPoolExecutor(4) as pool:
            first = pool.submit(predict, server, ["abc"])
            started.wait()
            rest = [pool.submit(predict, server, [text]) for text in ("bad", "cab", "fed")]
            codes = [each.result().status_code for each in (first, *rest)]
        assert codes == [200, 400, 200, 200]


def test_a_bug_is_a_500_without_the_text_and_the_worker_goes_on(run, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    with client(run) as server:
        predictor = models_of(server).find(None).predictor
        with monkeypatch.context() as patched:
            patched.setattr(predictor, "answer", lambda *_: [][len("abcde")])
            answer = predict(server, ["secretword"])
            assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
        assert predict(server, ["abc"]).status_code == 200
    assert "IndexError" in caplog.text
    assert "secretword" not in caplog.text


def test_a_full_queue_is_a_503_with_a_time(run, monkeypatch):
    with client(run, limits={"requests": 2}) as server:
        predictor, held = models_of(server).find(None).predictor, threading.Event()
        whole = predictor.answer
        monkeypatch.setattr(predictor, "answer", lambda *given: held.wait(30) and whole(*given))
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(predict, server, ["abc"]) for _ in range(2)]
            until(lambda: len(queued(server)) == 2)
            assert server.get("/readyz").status_code == 503
            answer = predict(server, ["abc"])
            assert answer.status_code == 503
            assert 1 <= int(answer.headers["Retry-After"]) <= 120
            assert answer.json()["error"]["message"] == "the queue of capitals is full; try again later"
            held.set()
            assert [each.result().status_code for each in waiting] == [200, 200]
        assert server.get("/readyz").status_code == 200


def test_gauges_are_right_while_a_batch_is_computed(run, monkeypatch):
    with client(run) as server, ThreadPoolExecutor(2) as pool:
        predictor, started, held = (
            models_of(server).find(None).predictor,
            threading.Event(),
            threading.Event(),
        )
        whole = predictor.answer

        def answer(*given):
            started.set()
            held.wait(30)
            return whole(*given)

        monkeypatch.setattr(predictor, "answer", answer)

        def gauges():
            lines = server.get("/metrics").text.splitlines()
            names = ("seqwright_inflight{", "seqwright_queue_depth{")
            return [float(line.split()[-1]) for name in names for line in lines if line.startswith(name)]

        answers = [pool.submit(predict, server, ["abc"])]
        started.wait(10)
        answers.append(pool.submit(predict, server, ["cab", "fed"]))
        until(lambda: gauges() == [1, 2])
        held.set()
        assert [answer.result().status_code for answer in answers] == [200, 200]
        until(lambda: gauges() == [0, 0])


def queued(server):
    return models_of(server).find(None).dispatcher._held


def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_deadline_ends_the_wait_and_drops_the_input(run, monkeypatch):
    with client(run) as server:
        predictor, held = models_of(server).find(None).predictor, threading.Event()
        whole, computed = predictor.answer, []
        monkeypatch.setattr(
            predictor, "answer", lambda *given: computed.append(1) or (held.wait(30) and whole(*given))
        )
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(predict, server, ["abc"])
            until(lambda: computed)
            late = server.post("/v1/predict", json={"inputs": ["b"]}, headers={"X-Request-Timeout": "0.1"})
            assert (late.status_code, "Retry-After" in late.headers) == (503, True)
            held.set()
            assert first.result().status_code == 200
        until(lambda: not queued(server))
        assert len(computed) == 1  # the late one was never computed
        assert 'cancelled_total{model="capitals"} 1.0' in server.get("/metrics").text


def test_work_that_cannot_be_done_in_time_is_refused_at_once(run, monkeypatch):
    with client(run) as server:
        worker, held = worker_of(server), threading.Event()
        whole = worker.predictor.answer
        monkeypatch.setattr(worker.predictor, "answer", lambda *given: held.wait(30) and whole(*given))
        models_of(server).find(None).dispatcher.rate = 1.0  # token per second
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(predict, server, ["abcabc"])
            until(lambda: queued(server))
            began = time.monotonic()
            answer = server.post("/v1/predict", json={"inputs": ["b"]}, headers={"X-Request-Timeout": "3"})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "8")
            assert time.monotonic() - began < 1
            held.set()
            assert first.result().status_code == 200


def test_look_is_the_trace_and_its_page(server, run):
    body = {"input": "abc", "reference": "ABC"}
    trace = server.post("/v1/look", json=body).json()
    assert trace["text"] == "abc"
    page = server.post("/v1/look", json={**body, "format": "html"})
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.text.startswith("<!doctype html>")
    assert "script-src 'unsafe-inline'" in page.headers["Content-Security-Policy"]
    given = server.post("/v1/look", json={"input": "abc", "output": "CAB"}).json()
    assert given["output"]["text"] == "CAB"
    assert server.post("/v1/look", json={"input": "abc", "output": "A" * 2000}).status_code == 400
    assert server.post("/v1/look", json={"input": "abc", "beam": 17}).status_code == 400
    assert server.post("/v1/look", json={"input": ["abc"]}).status_code == 400
    form = {"input": '{"source": "abc"}', "encoded": "true"}
    assert server.post("/v1/look", data=form).json()["text"] == "abc"
    assert server.post("/v1/look", data={**form, "encoded": "false"}).json()["text"] == form["input"]
    assert server.post("/v1/look", data={**form, "input": "{"}).status_code == 400


def test_metrics_count_and_name_no_text(server):
    predict(server, ["faced"])
    text = server.get("/metrics").text
    assert 'seqwright_requests_total{code="200",route="/v1/predict"}' in text
    assert 'seqwright_tokens_in_total{model="capitals"}' in text
    assert "faced" not in text

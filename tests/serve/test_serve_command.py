"""The command: addresses, keys, the check, and an end that loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from serving import Process, direct

from bench.serve import processes
from seqwright.cli import main


def post(url, body, **headers):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--host", "0.0.0.0"],
            "lets other machines in, and there is no key; pass --key or set SEQWRIGHT_KEY",
        ),
        (["--host", "::"], "lets other machines in"),
        (["--key", ""], "--key is empty"),
        (["--port", "70000"], "it must be 0 to 65535"),
        (["--host", "203.0.113.9", "--key", "k"], "cannot be used"),
        (["--rate", "0"], "--rate is 0; it must be a positive number"),
        (["--drain", "-1"], "--drain is -1; it must be a positive number"),
        (["--deadline", "nan"], "--deadline is nan; it must be a positive number"),
    ],
)
def test_a_wrong_argument_is_one_line(run, capsys, monkeypatch, arguments, says):
    monkeypatch.delenv("SEQWRIGHT_KEY", raising=False)
    assert main(["serve", str(run), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_used_port_is_one_line(run, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(run), "--port", str(port)]) == 2
    assert f"127.0.0.1:{port} cannot be used" in capsys.readouterr().err


def test_the_check_compares_recorded_outputs(run, tmp_path, capsys):
    assert main(["serve", str(run), "--check"]) == 0
    assert capsys.readouterr().out == "capitals: 4 of 4 recorded outputs unchanged\n"
    changed = shutil.copytree(run, tmp_path / "changed")
    examples = json.loads((changed / "examples.json").read_text())
    examples["examples"][0]["output"] = "?"
    (changed / "examples.json").write_text(json.dumps(examples))
    assert main(["serve", str(changed), "--check"]) == 3
    assert "changed: 3 of 4 recorded outputs unchanged" in capsys.readouterr().out


def test_a_process_from_its_first_request_to_its_end(run):
    """50 connections never complete their header, and one has too large a header; eight clients send until
    they are refused, SIGTERM comes, every accepted request is answered, and the process ends well.
    """
    expected = direct(run, ["facade"])[0]["output"]
    answers, ends = [], []
    with Process(str(run), environment={"SEQWRIGHT_KEY": "k"}) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for each in slow:
            each.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        big = socket.create_connection(("127.0.0.1", server.port))
        big.sendall(b"GET /livez HTTP/1.1\r\nX: " + b"a" * 40_000)
        assert b"431" in big.recv(100)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(f"{server.url}/v1/predict", {"inputs": ["facade"]})

        def send():
            while True:
                try:
                    found = post(f"{server.url}/v1/predict", {"inputs": ["facade"]}, Authorization="Bearer k")
                    answers.append(found["predictions"][0]["output"])
                except urllib.error.HTTPError as error:
                    ends.append(error.code)
                    return
                except urllib.error.URLError as error:
                    ends.append(type(error.reason).__name__)
                    return
                except (ConnectionError, TimeoutError) as error:
                    ends.append(type(error).__name__)  # RemoteDisconnected: accepted, and not answered
                    return

        clients = [threading.Thread(target=send) for _ in range(8)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + 30
        while len(answers) < 40 and time.monotonic() < deadline:
            time.sleep(0.01)
        code, errors = server.stop()
        for client in clients:
            client.join()
        for each in (*slow, big):
            each.close()
    assert code == 0, errors
    assert set(answers) == {expected}
    assert set(ends) <= {"ConnectionRefusedError", "ConnectionResetError", 503}
    assert "Traceback" not in errors


def test_what_outlasts_the_drain_is_refused(story):
    """A whole answer with 503, a stream with an event."""
    asked = {"model": "story", "prompt": "alpha gimel ", "max_tokens": 4000, "temperature": 0}
    found = {}

    def send(stream):
        data = json.dumps({**asked, "stream": stream}).encode()
        try:
            with urllib.request.urlopen(f"{server.url}/v1/completions", data, timeout=60) as answer:
                found[stream] = answer.read().decode()
        except urllib.error.HTTPError as error:
            found[stream] = error.code, "Retry-After" in error.headers

    def computed():
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
            return 'inflight{model="story"} 2.0' in answer.read().decode()

    with Process(str(story), "--drain", "0.1") as server:
        clients = [threading.Thread(target=send, args=(stream,)) for stream in (False, True)]
        for client in clients:
            client.start()
        while not computed():
            time.sleep(0.01)
        code, errors = server.stop()
        for client in clients:
            client.join()
    assert code == 0, errors
    assert found[False] == (503, True)
    *_, failure, done, _ = found[True].split("\n\n")
    assert "the server is shutting down" in failure
    assert done == "data: [DONE]"


def test_a_second_signal_ends_at_once(story):
    """Without the rest of the drain; no worker stays behind."""
    asked = {"model": "story", "prompt": "alpha gimel ", "max_tokens": 4000, "temperature": 0}
    found = []

    def send():
        try:
            found.append(post(f"{server.url}/v1/completions", asked))
        except urllib.error.HTTPError as error:
            found.append(error.code)
        except (urllib.error.URLError, ConnectionError) as error:
            found.append(type(error))

    def page(path):
        try:
            with urllib.request.urlopen(f"{server.url}{path}", timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    with Process(str(story), "--drain", "100") as server:
        _, worker = processes(server.process.pid)
        waiting = threading.Thread(target=send)
        waiting.start()
        while 'inflight{model="story"} 1.0' not in page("/metrics"):
            time.sleep(0.01)
        os.kill(worker, signal.SIGSTOP)  # its answer never comes
        server.process.send_signal(signal.SIGTERM)
        while "shutting down" not in page("/readyz"):
            time.sleep(0.01)
        began = time.monotonic()
        code, errors = server.stop()
        assert time.monotonic() - began < 30
        waiting.join()
    assert code == 0, errors
    assert "Traceback" not in errors
    assert not isinstance(found[0], dict)
    assert not Path(f"/proc/{worker}").exists()

"""Keys, hosts, origins, sizes and rates: what never reaches a model."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress

import pytest
from serving import Background, application, client

KEY = "s3cret-ключ"


@pytest.fixture(scope="module")
def server(run):
    with client(run) as found:
        yield found


@pytest.fixture(scope="module")
def locked(run):
    with client(run, keys=[KEY], hosts=None) as found:
        yield found


BODY = {"inputs": ["abc"]}


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", f"Basic {KEY}", "Bearer \xff"])
@pytest.mark.parametrize("path", ["/v1/predict", "/v1/look", "/v1/models", "/openapi.json"])
def test_without_the_key_nothing_is_answered(locked, path, header):
    headers = {} if header is None else {"Authorization": header.encode("utf-8")}
    answer = locked.post(path, json=BODY, headers=headers)
    assert answer.status_code in (401, 403)
    assert "Invalid API key" in answer.text


def test_the_key_opens_and_a_probe_needs_none(locked):
    headers = {"Authorization": f"Bearer {KEY}".encode()}
    assert locked.post("/v1/predict", json=BODY, headers=headers).status_code == 200
    assert locked.get("/livez").text == "ok\n"
    assert locked.get("/metrics").status_code == 403
    assert locked.get("/metrics", headers=headers).status_code == 200
    assert locked.get("/metrics", params={"api_key": KEY}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "[::2]"])
def test_another_host_name_is_refused(server, host):
    assert server.post("/v1/predict", json=BODY, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:9"])
def test_this_machine_is_not(server, host):
    assert server.post("/v1/predict", json=BODY, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=str,
)
def test_another_site_is_refused(server, headers):
    answer = server.post("/v1/predict", json=BODY, headers=headers)
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_an_allowed_site_is_answered(run):
    site = "https://site.example"
    with client(run, origins=[site]) as server:
        asked = {"Origin": site, "Access-Control-Request-Method": "POST"}
        preflight = server.options("/v1/predict", headers=asked)
        assert (preflight.status_code, preflight.headers["Access-Control-Allow-Origin"]) == (204, site)
        answer = server.post("/v1/predict", json=BODY, headers={"Origin": site})
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, site)
        assert "Access-Control-Allow-Credentials" not in answer.headers
        other = server.options("/v1/predict", headers={**asked, "Origin": "https://other.example"})
        assert other.status_code == 403


def test_a_large_body_is_refused_with_and_without_its_size(server):
    whole = b"x" * (1 << 20) + b"y"
    assert server.post("/v1/predict", content=whole).status_code == 413
    parts = (whole[start : start + 65536] for start in range(0, len(whole), 65536))
    assert server.post("/v1/predict", content=parts).status_code == 413


def test_too_many_headers_are_refused(server):
    headers = {f"x-{number}": "1" for number in range(101)}
    assert server.get("/livez", headers=headers).status_code == 431


@pytest.mark.parametrize(
    "headers", [{"x": "a" * 17_000}, {f"x-{number}": "a" * 600 for number in range(90)}], ids=["long", "many"]
)
def test_a_large_header_is_refused_also_if_it_is_complete(server, headers):
    answer = server.get("/livez", headers=headers)
    assert (answer.status_code, answer.json()) == (
        431,
        {"error": "the header has more than 16384 bytes; send less"},
    )


def test_a_long_url_is_refused(server):
    answer = server.post("/translate", params={"q": "a" * 50_000, "source": "text", "target": "capitals"})
    assert answer.status_code == 414
    assert "the URL has more than 16384 bytes; send its parameters in the body" in answer.text
    assert server.get("/livez", params={"q": "a" * 15_000}).status_code == 200


def test_a_request_that_is_too_large_before_it_is_complete(run):
    header = b"GET /livez HTTP/1.1\r\nX: " + b"a" * 70_000
    requests = {b"431": header, b"414": b"GET /" + b"a" * 70_000, b"400": b"GET\r\n\r\n"}
    with application(run) as app, Background(app) as server:
        for status, sent in requests.items():
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
                connection.sendall(sent)
                assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)


def test_a_rate_is_a_429_with_a_time(run):
    with client(run, limits={"rate": 2.0}) as server:
        codes = [server.post("/v1/predict", json=BODY).status_code for _ in range(5)]
        assert codes == [200] * 4 + [429]
        assert server.post("/v1/predict", json=BODY).headers["Retry-After"] == "1"
        assert server.get("/livez").status_code == 200


def test_unknown_paths_and_methods(server):
    missing, wrong = server.get("/nothing"), server.get("/v1/predict")
    assert (missing.status_code, missing.json()) == (404, {"error": "Not Found: GET /nothing"})
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
    assert wrong.json()["error"]["message"] == "Method Not Allowed: GET /v1/predict"


def test_every_answer_has_its_headers(server):
    for answer in (server.get("/livez"), server.get("/nothing"), server.post("/v1/predict", json=BODY)):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    given = server.get("/livez", headers={"X-Request-Id": "abc-1"})
    assert given.headers["X-Request-Id"] == "abc-1"
    assert server.get("/livez", headers={"X-Request-Id": "a b"}).headers["X-Request-Id"] != "a b"


def test_a_request_that_the_end_of_the_drain_cancels_is_a_503(run):
    """As of a trace, which no worker computes."""

    async def cancelled(app):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/livez", "query_string": b""}
        request = asyncio.create_task(app({**scope, "headers": [(b"host", b"localhost")]}, None, send))
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait([request])
        return request.cancelled(), [message.get("status") for message in sent]

    async def endless(scope, receive, send):
        await asyncio.Event().wait()

    with application(run) as app:
        app.app = endless
        assert asyncio.run(cancelled(app)) == (True, [])
        app.draining = True
        assert asyncio.run(cancelled(app)) == (False, [503, None])


@pytest.mark.parametrize("complete", [0, 2])
def test_every_request_of_a_connection_must_arrive_in_time(run, complete):
    """Also behind some that were complete."""
    with application(run, limits={"receive": 0.3}) as app, Background(app) as server:
        slow = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        with slow:
            for _ in range(complete):
                slow.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while not answer.endswith(b"ok\n"):
                    answer += slow.recv(4096)
            began = time.monotonic()
            sender = threading.Thread(target=drip, args=(slow,))
            sender.start()
            with suppress(ConnectionError):
                assert slow.recv(1) == b""
            assert 0.2 < time.monotonic() - began < 5
            sender.join()


def drip(connection):
    """Send a header that never ends, a byte at a time."""
    with suppress(OSError):
        for _ in range(100):
            connection.sendall(b"G")
            time.sleep(0.1)

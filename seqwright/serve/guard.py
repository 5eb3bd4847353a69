"""The outer layer of the server: every request passes it before a dialect sees it, every response after."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
import traceback
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqwright.serve.http import refused
from seqwright.serve.limits import Limits, Refusal, closing, header_too_large, url_too_long
from seqwright.serve.metrics import Metrics

OPEN = re.compile("/|/livez|/page/.*")  # need no key: a probe, and the page, which holds no data
KEY_IN_BODY = ("/translate", "/detect", "/suggest", "/languages", "/v1/look")  # or in the header
REQUEST_ID = re.compile(r"[\w.-]{1,64}")
LINE = 4  # bytes of a header line besides its name and value
CLIENTS = 10_000  # clients whose rate is remembered
SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)

logger = logging.getLogger("seqwright.serve")


class Buckets:
    """A token bucket per client: `rate` requests per second, in bursts of at most twice as many."""

    def __init__(self, rate: float):
        self.rate, self.most = rate, max(2 * rate, 1.0)
        self.levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take one; return 0, or the seconds until there is one."""
        now = time.monotonic()
        level, then = self.levels.pop(client, (self.most, now))
        level = min(self.most, level + (now - then) * self.rate)
        self.levels[client] = (level - 1 if level >= 1 else level), now
        if len(self.levels) > CLIENTS:
            self.levels.popitem(last=False)
        return 0.0 if level >= 1 else (1 - level) / self.rate


class Guard:
    """Checks host, origin, key, rate and size of a request, and completes the response.

    hosts: names by which the server may be addressed; None: any. A page of another site that makes a browser
    send requests to a server on this machine has another origin, or, after its name was bound to this
    machine, another host. origins: other sites that may use the server (CORS).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        metrics: Metrics,
        keys: Sequence[str] = (),
        hosts: frozenset[str] | None = None,
        origins: Sequence[str] = (),
        routes: dict[Any, str],
    ):
        self.app, self.limits, self.metrics, self.routes = app, limits, metrics, routes
        self.keys, self.hosts, self.origins = [key.encode() for key in keys], hosts, tuple(origins)
        self.buckets = None if limits.rate is None else Buckets(limits.rate)
        self.draining = False
        self.largest = limits.body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, path, headers = time.monotonic(), scope["path"], Headers(scope=scope)
        scope["app"], scope["seqwright.limits"] = self, self.limits
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        origin = headers.get("origin")
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._complete(MutableHeaders(scope=message), request_id, origin)
            await send(message)

        try:
            if await self._preflight(scope, headers, answer):
                return
            self._admit(scope, headers)
            await self.app(scope, self._bounded(receive, headers), answer)
        except Refusal as refusal:
            self.metrics.rejected.labels(refusal.reason).inc()
            if not status:
                await refused(refusal, path)(scope, receive, answer)
        except HTTPException as error:
            detail = f"{error.detail}: {scope['method']} {path[:100]}"
            response = refused(Refusal(error.status_code, detail), path)
            response.headers.update(error.headers or {})
            await response(scope, receive, answer)
        except asyncio.CancelledError:
            if not self.draining:
                raise
            if not status:  # the drain is over, and the worker of a model was not what it waited for
                await refused(closing(), path)(scope, receive, answer)
        except Exception as error:
            # the places, but not the message, which may quote the request
            places = "".join(traceback.format_tb(error.__traceback__))
            logger.error("request %s: %s\n%s", request_id, type(error).__name__, places)
            if not status:
                await refused(Refusal(500, "internal server error"), path)(scope, receive, answer)
        finally:
            route = self.routes.get(scope.get("endpoint"), "none")
            seconds = time.monotonic() - began
            self.metrics.requests.labels(route, status or 499).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            logger.info("%s %s %d %.1f ms %s", scope["method"], route, status, 1000 * seconds, request_id)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if len(scope["headers"]) > self.limits.headers:
            raise Refusal(431, f"the request has more than {self.limits.headers} header lines", reason="size")
        if sum(len(name) + len(value) + LINE for name, value in scope["headers"]) > self.limits.header:
            raise header_too_large(self.limits)
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > self.limits.url:
            raise url_too_long(self.limits)
        if self.hosts is not None and _host(headers.get("host", "")) not in self.hosts:
            raise Refusal(421, "the server is not addressed by this host name; use its own, or set a key")
        if not self._same_site(headers):
            raise Refusal(403, "another site may not use this server; allow its origin with --allow-origin")
        if self.keys and not OPEN.fullmatch(path):
            given = _bearer(headers) or _parameter(scope, "api_key")
            if given is None and path in KEY_IN_BODY:
                scope["seqwright.check"] = partial(self.check_key, path=path)
            else:
                self.check_key(given, path)
        if self.buckets is not None and not OPEN.fullmatch(path):
            client = scope.get("client")
            wait = self.buckets.take(client[0] if client else "")
            if wait:
                raise Refusal(429, "Slowdown: too many requests of this client", wait, "rate")

    def check_key(self, given: str | None, path: str) -> None:
        """Compare in constant time with every key."""
        wanted = (given or "").encode("utf-8", "replace")
        matches = [hmac.compare_digest(wanted, key) for key in self.keys]
        if not any(matches):
            status = 401 if path.startswith("/v1") else 403
            raise Refusal(status, "Invalid API key", reason="key", fields={"code": "invalid_api_key"})

    def _same_site(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site", "none") != "cross-site"
        return origin in self.origins or origin.partition("://")[2] == headers.get("host")

    async def _preflight(self, scope: Scope, headers: Headers, answer: Send) -> bool:
        """Answer the question of a browser whether an allowed origin may send a request."""
        asked = scope["method"] == "OPTIONS" and headers.get("origin") in self.origins
        if not asked or "access-control-request-method" not in headers:
            return False
        fields = {
            "access-control-allow-methods": "GET, POST",
            "access-control-allow-headers": "authorization, content-type, x-request-timeout",
            "access-control-max-age": "600",
        }
        raw = [(name.encode(), value.encode()) for name, value in fields.items()]
        await answer({"type": "http.response.start", "status": 204, "headers": raw})
        await answer({"type": "http.response.body", "body": b""})
        return True

    def _bounded(self, receive: Receive, headers: Headers) -> Receive:
        """Limit the bytes of a body and the time in which it arrives."""
        most, limit = self.largest, self.limits.receive
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > most:
            raise Refusal(413, f"the body has {declared} bytes; at most {most} are read", reason="size")
        arrived, done, until = 0, False, asyncio.get_running_loop().time() + limit

        async def bounded() -> Message:
            nonlocal arrived, done
            if done:
                return await receive()
            try:
                async with asyncio.timeout_at(until):  # unlike `wait_for`, it needs no task
                    message = await receive()
            except TimeoutError as error:
                raise Refusal(408, f"the body did not arrive within {limit:g} s", reason="slow") from error
            arrived += len(message.get("body", b""))
            done = not message.get("more_body", False)
            if arrived > most:
                raise Refusal(413, f"the body has more than {most} bytes", reason="size")
            return message

        return bounded

    def _complete(self, headers: MutableHeaders, request_id: str, origin: str | None) -> None:
        known = {name for name, _ in headers.raw}
        headers.raw.extend(field for field in SECURITY if field[0] not in known)
        headers.raw.append((b"x-request-id", request_id.encode()))
        if origin in self.origins:
            headers["Access-Control-Allow-Origin"] = origin or ""
            headers.add_vary_header("Origin")
        if self.draining:
            headers["Connection"] = "close"


def _host(value: str) -> str:
    """Return a Host header without its port."""
    return value.rpartition(":")[0] if re.search(r":\d+$", value) else value


def _bearer(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return key.strip().encode("latin-1").decode("utf-8", "replace")  # headers arrive as Latin-1


def _parameter(scope: Scope, name: str) -> str | None:
    found = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(name)
    return found[0] if found else None

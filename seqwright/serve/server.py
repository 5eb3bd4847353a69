"""The process: a socket, connections with deadlines, and a shutdown that loses no accepted request."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import math
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seqwright.errors import ConfigError
from seqwright.serve.guard import Guard
from seqwright.serve.http import refused
from seqwright.serve.limits import Limits, header_too_large, url_too_long

GRACE = 0.3  # seconds
LAST = 2  # seconds in which refusals are sent at the end
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def is_local(host: str) -> bool:
    """Whether a host is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address."""
    if not 0 <= port < 65536:  # getaddrinfo would take the rest
        raise ConfigError(f"--port is {port}; it must be 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        way_out = "choose another port, or --port 0 for a free one"
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            way_out = "choose another --host"
        raise ConfigError(f"{host}:{port} cannot be used: {error.strerror or error}; {way_out}") from error
    return bound


def connection(limits: Limits) -> type[H11Protocol]:
    """Return the protocol of a connection."""

    class Connection(H11Protocol):
        """A connection whose requests must each arrive in time, and one of a limited number."""

        def connection_made(self, transport: Any) -> None:
            self._receiving: asyncio.TimerHandle | None = (
                None  # ends the connection; None: no header has begun
            )
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(BUSY)
                transport.close()
                return
            self._receiving = self.loop.call_later(limits.receive, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            begun = self.cycle is None or self.cycle.response_complete  # a header that is not complete
            if self._receiving is not None and not begun:
                self._receiving.cancel()
                self._receiving = None
            elif self._receiving is None and begun:
                self._receiving = self.loop.call_later(limits.receive, self.transport.close)

        def send_400_response(self, msg: str) -> None:
            """Answer a request that is not HTTP, or whose header is too large before it is complete."""
            arrived = self.conn.trailing_data[0]
            if self.conn.our_state is not h11.IDLE or len(arrived) <= limits.header:
                super().send_400_response(msg)
                return
            refusal = header_too_large(limits) if b"\n" in arrived else url_too_long(limits)
            response = refused(refusal, "")
            headers = [*response.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=refusal.status, headers=headers, reason=b""),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
            self.transport.close()

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            if self._receiving is not None:
                self._receiving.cancel()

    return Connection


def serve(
    app: Guard,
    bound: socket.socket,
    limits: Limits,
    *,
    ready: Callable[[], None],
    refuse: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends without waiting.

    refuse: called when the time to drain is over; refuses what is not answered.
    """

    config = uvicorn.Config(
        app,
        http=connection(limits),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=max(1, round(limits.keep_alive)),
        timeout_graceful_shutdown=math.ceil(limits.drain) + LAST,
        h11_max_incomplete_event_size=limits.header,
    )
    _Process(config, app, limits, ready, refuse).run(sockets=[bound])


class _Process(uvicorn.Server):
    """A server that announces that it is ready, and drains before it ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: Guard,
        limits: Limits,
        ready: Callable[[], None],
        refuse: Callable[[], None],
    ):
        super().__init__(config)
        self.guard, self.limits, self.ready, self.refuse = app, limits, ready, refuse

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting; connections that were just accepted still have time to send their request. What is
        not answered at the end of the drain is refused.
        """
        for server in self.servers:
            server.close()
        if not self.force_exit:
            await asyncio.sleep(GRACE)
        over = asyncio.get_running_loop().call_later(self.limits.drain, self.refuse)
        await super().shutdown(sockets)
        over.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # `startup` handles them: a drained server has ended well, with exit code 0

    def _stop(self) -> None:
        """First answer "not ready", so that a load balancer sends no more; then stop accepting."""
        if self.guard.draining:
            self.force_exit = self.should_exit = True
            return
        self.guard.draining = True

        def stop() -> None:
            self.should_exit = True

        asyncio.get_running_loop().call_later(self.limits.drain_delay, stop)

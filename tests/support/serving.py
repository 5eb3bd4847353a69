"""Small models behind a server: as an application in this process, or as the command in another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from seqwright.prediction.predictor import load
from seqwright.serve.app import build
from seqwright.serve.guard import Guard
from seqwright.serve.host import WorkerThread
from seqwright.serve.limits import Limits
from seqwright.serve.metrics import Metrics
from seqwright.serve.models import Models, load_models
from seqwright.serve.server import connection, listen
from seqwright.serve.worker import Worker


@contextmanager
def application(*folders: Path, limits: dict[str, Any] | None = None, **options: Any) -> Iterator[Guard]:
    """The application of some run folders; `models` are its models."""
    bounds, metrics = replace(Limits(), **(limits or {})), Metrics()
    models = load_models([str(folder) for folder in folders], bounds, metrics, threads=1, trusted=False)
    app = build(models, bounds, metrics, **options)
    app.models = models  # type: ignore[attr-defined]
    try:
        yield app
    finally:
        models.close()


@contextmanager
def client(*folders: Path, limits: dict[str, Any] | None = None, **options: Any) -> Iterator[TestClient]:
    with application(*folders, limits=limits, **options) as app:
        yield TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def models_of(client: TestClient) -> Models:
    found: Models = client.app.models  # type: ignore[attr-defined]
    return found


def worker_of(client: TestClient) -> Worker:
    """The worker of the first model, which is a thread of this process."""
    host = models_of(client).find(None).dispatcher.host
    assert isinstance(host, WorkerThread)
    return host.worker


def direct(folder: Path, inputs: list[Any], **options: Any) -> list[dict[str, Any]]:
    """What the predictor answers, in this process and without a server."""
    return [each.to_json() for each in load(folder, threads=1).predict(inputs, **options)]


class Background:
    """The application on a port, in a thread of this process, which starts faster than the command."""

    def __init__(self, app: Guard):
        bound = listen("127.0.0.1", 0)
        config = uvicorn.Config(
            app,
            http=connection(app.limits),
            ws="none",
            lifespan="off",
            log_config=None,
            h11_max_incomplete_event_size=app.limits.header,
        )
        self.port = bound.getsockname()[1]
        self.server, self.url = uvicorn.Server(config), f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [bound]})

    def __enter__(self) -> Background:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.thread.join()


class Process:
    """The command `serve` in another process. `program`: Python code to run in place of the command line."""

    def __init__(
        self, *arguments: str, environment: dict[str, str] | None = None, program: str | None = None
    ):
        command = [
            sys.executable,
            *(("-m", "seqwright") if program is None else ("-c", program)),
            "serve",
            "--port",
            "0",
            "--threads",
            "1",
            *arguments,
        ]
        known = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=known
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"{line!r}: {self.process.communicate()}")
        self.url = line.split()[-1]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and what was printed to standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

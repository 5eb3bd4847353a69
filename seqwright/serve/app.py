"""The application: the operations of all dialects as routes, behind the guard."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from seqwright.serve import dialects, page
from seqwright.serve.guard import Guard
from seqwright.serve.http import json_response
from seqwright.serve.limits import Limits
from seqwright.serve.metrics import Metrics
from seqwright.serve.models import Models
from seqwright.serve.operations import Handler, Operation, Server, openapi

LOCAL = frozenset(("localhost", "127.0.0.1", "[::1]"))


def build(
    models: Models,
    limits: Limits,
    metrics: Metrics,
    *,
    keys: Sequence[str] = (),
    hosts: frozenset[str] | None = LOCAL,
    origins: Sequence[str] = (),
) -> Guard:
    """Return the ASGI application of some models."""
    server = Server(models, limits, metrics, bool(keys))
    operations = [*dialects.operations(server), *page.operations()]
    document = openapi(operations, key=bool(keys))

    def specification() -> Handler:
        """Return a handler of its own for each path: the metrics name a path by its handler."""

        async def answer(request: Request) -> Response:
            return json_response(document)

        return answer

    for path in ("/openapi.json", "/spec"):  # /spec: of LibreTranslate
        operations.append(Operation("GET", path, specification(), "This document.", hidden=True))
    router = Router([operation.route for operation in operations])
    names = {operation.handler: operation.path for operation in operations}
    guard = Guard(
        router, limits=limits, metrics=metrics, keys=keys, hosts=hosts, origins=origins, routes=names
    )
    if any(model.images for model in models.all.values()):
        guard.largest = limits.images
    return guard

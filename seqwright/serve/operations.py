"""Operations: what the dialects offer, as values from which routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from seqwright import __version__
from seqwright.serve.limits import Limits
from seqwright.serve.metrics import Metrics
from seqwright.serve.models import Models

Handler = Callable[[Request], Awaitable[Response]]
ERRORS = {
    400: "The request is invalid.",
    401: "The key is missing or wrong.",
    403: "The key is wrong, or another site sent the request.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    409: "The correction cannot be stored.",
    413: "The request is too large.",
    414: "The URL is too long.",
    429: "The client sends too many requests; see Retry-After.",
    431: "The header is too large.",
    503: "The queue is full, or the server is shutting down; see Retry-After.",
}
REF = "#/components/schemas/{model}"


@dataclass(frozen=True)
class Server:
    """What the handlers of the dialects share."""

    models: Models
    limits: Limits
    metrics: Metrics
    keys: bool


@dataclass(frozen=True)
class Operation:
    """One method of one path. `answers` are the media types of a success; the schema is that of JSON."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    summary: str
    body: type[BaseModel] | None = None
    forms: bool = False  # the body may be a form
    answer: Mapping[str, Any] | None = None
    answers: tuple[str, ...] = ("application/json",)
    open: bool = False  # needs no key
    hidden: bool = False  # not part of the interface

    @property
    def route(self) -> Route:
        return Route(self.path, self.handler, methods=[self.method])


def openapi(operations: Sequence[Operation], *, key: bool) -> dict[str, Any]:
    """Return the OpenAPI document of operations."""
    shown = [operation for operation in operations if not operation.hidden]
    bodies = [operation.body for operation in shown if operation.body is not None]
    names, definitions = models_json_schema(
        [(body, "validation") for body in dict.fromkeys(bodies)], ref_template=REF
    )
    schemas: dict[str, Any] = {**definitions.get("$defs", {}), "Error": ERROR, "TextError": TEXT_ERROR}
    paths: dict[str, Any] = {}
    for operation in shown:
        described: dict[str, Any] = {"summary": operation.summary, "responses": _responses(operation)}
        if operation.body is not None:
            schema = {"schema": names[(operation.body, "validation")]}
            types = ["application/json"]
            types += ["application/x-www-form-urlencoded"] if operation.forms else []
            described["requestBody"] = {"required": True, "content": dict.fromkeys(types, schema)}
        if names_in_path := [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]:
            described["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
                for name in names_in_path
            ]
        if operation.open:
            described["security"] = []
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Seqwright", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        **({"security": [{"key": []}]} if key else {}),
    }


ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
TEXT_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def _responses(operation: Operation) -> dict[str, Any]:
    shape = "Error" if operation.path.startswith("/v1") else "TextError"
    schema = {"schema": {"$ref": REF.format(model=shape)}}
    found: dict[str, Any] = {
        str(status): {"description": text, "content": {"application/json": schema}}
        for status, text in ERRORS.items()
    }
    content: dict[str, Any] = {kind: {"schema": {"type": "string"}} for kind in operation.answers}
    if "application/json" in content:
        content["application/json"] = {"schema": operation.answer or {"type": "object"}}
    found["200"] = {"description": "Success.", "content": content}
    return dict(sorted(found.items()))

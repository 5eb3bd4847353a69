"""Requests and responses: bodies with limits, JSON without surprises, errors in the shape of each dialect."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from seqwright.files import is_deeper, strict
from seqwright.serve.limits import Limits, Refusal

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
TYPES = {  # of errors, as OpenAI names them
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
TIMEOUT = "x-request-timeout"  # header: seconds in which the client wants its answer


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(value), status, headers, media_type="application/json")


def encoded(value: Any) -> bytes:
    """Encode a value as JSON. Only one that has infinities, NaN or objects takes a second look."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        text = json.dumps(strict(value), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


def refused(refusal: Refusal, path: str) -> Response:
    """Return an error: an object below /v1, as OpenAI has it, and a text elsewhere, as LibreTranslate."""
    status, message = refusal.status, refusal.message
    error: Any = message
    if path.startswith("/v1"):
        kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        error = {"message": message, "type": kind, "param": None, "code": None, **refusal.fields}
    return json_response({"error": error}, status, refusal.headers())


def limits_of(request: Request) -> Limits:
    found: Limits = request.scope["seqwright.limits"]
    return found


def deadline_of(request: Request) -> float:
    """Return when the answer must be there, of time.monotonic()."""
    limits = limits_of(request)
    wanted = request.headers.get(TIMEOUT)
    if wanted is None:
        return time.monotonic() + limits.deadline
    try:
        seconds = float(wanted)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise Refusal(400, f"the header X-Request-Timeout is {wanted[:40]!r}; it must be a number of seconds")
    return time.monotonic() + min(seconds, limits.deadline)


async def body_of(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect as error:
        raise Refusal(400, "the connection was closed before the request had arrived") from error


def parse_json(body: bytes, depth: int) -> Any:
    """Parse a JSON text of UTF-8. Everything that is not one is a Refusal."""

    def constant(name: str) -> Any:
        raise ValueError(name)

    try:
        value = json.loads(body.decode("utf-8"), parse_constant=constant)
        if b"\\u" in body:  # half of a surrogate pair is not a character
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "the body is not JSON in UTF-8; correct it") from error
    if is_deeper(value, depth):
        raise Refusal(400, f"the body has more than {depth} levels; reduce the nesting")
    return value


async def read_json(request: Request, model: type[M]) -> M:
    """Return the body of a request as its model."""
    value = parse_json(await body_of(request), limits_of(request).depth)
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object")
    return validated(model, value)


def validated(model: type[M], value: Any) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Refusal(400, f"{place}: {first['msg']}", fields={"param": place}) from error


async def read_fields(request: Request, model: type[M]) -> M:
    """Return the fields of a JSON body, a form or a query."""
    fields: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        _add(fields, name, value)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        try:
            async with request.form(max_files=0, max_fields=1000) as form:
                for name, part in form.multi_items():
                    _add(fields, name, part)
        except (MultiPartException, ValueError, KeyError) as error:
            raise Refusal(400, "Invalid request: the form cannot be read") from error
    elif body := await body_of(request):
        value = parse_json(body, limits_of(request).depth)
        if not isinstance(value, dict):
            raise Refusal(400, "Invalid request: the body must be a JSON object")
        fields |= value
    check = request.scope.get("seqwright.check")
    if check is not None:
        key = fields.get("api_key")
        check(key if isinstance(key, str) else None)
    for name, field in model.model_fields.items():
        if field.is_required() and name not in fields:
            raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not all(_encodable(text) for value in fields.values() for text in _texts(value)):
        raise Refusal(400, "Invalid request: a text is not Unicode")
    return validated(model, fields)


def _add(fields: dict[str, Any], name: str, value: Any) -> None:
    """Add a field of a form or query; several of one name are a list."""
    if name in fields:
        old = fields[name]
        fields[name] = [*old, value] if isinstance(old, list) else [old, value]
    else:
        fields[name] = value


def _texts(value: Any) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all `works` in order. The first failure cancels the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def in_time(work: Awaitable[T], deadline: float) -> T:
    """Await `work` until a deadline, of time.monotonic(); cancel it then, and refuse the request."""
    try:
        async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
            return await work
    except TimeoutError as error:
        raise Refusal(503, "the deadline of the request is over; try again", 1, "deadline") from error


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Await `work`, and cancel it if the client leaves."""
    loop = asyncio.get_running_loop()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        connected.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as connected:
            leaving = loop.create_task(watch())
            try:
                return await work
            finally:
                leaving.cancel()
    except TimeoutError as error:
        if not connected.expired():
            raise
        raise Refusal(499, "the client has closed the connection", reason="left") from error

"""Inputs of a request: what a client sends for one example follows from the roles of the task."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from seqwright.data.task import Kind, Role, Task
from seqwright.serve.limits import Refusal

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
SCHEMAS: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: {"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
    Kind.LABEL: TEXT,
    Kind.ID: TEXT,
    Kind.IMAGE: {**TEXT, "description": "The bytes of an image file in base64, or as a data: URL."},
    Kind.NUMBER: {"anyOf": [NUMBER, {"type": "array", "items": NUMBER}]},
    Kind.TIME: {"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
}


def input_roles(task: Task[Any, Any]) -> tuple[Role, ...]:
    """Return the columns of an input: those that a prediction needs, or all where it needs none."""
    return tuple(role for role in task.own_roles if role.needed == "always") or task.own_roles


def input_schema(task: Task[Any, Any]) -> dict[str, Any]:
    """Return the JSON schema of one input: an object of its roles, or the text alone where it is one text."""
    if task.usage.schema is not None:
        return dict(task.usage.schema)
    roles = input_roles(task)
    record = {
        "type": "object",
        "properties": {role.name: SCHEMAS[role.kind] for role in roles},
        "required": [role.name for role in roles],
        "additionalProperties": False,
    }
    return {"anyOf": [TEXT, record]} if _one_text(roles) else record


def read_input(task: Task[Any, Any], given: Any, number: int) -> Any:
    """Return an input as the task takes it. A text never names a file of the server."""
    if task.usage.schema is not None:
        return _record(task.usage.schema, given, number)
    roles = input_roles(task)
    if isinstance(given, str) and _one_text(roles):
        return given
    names = [role.name for role in roles]
    if not isinstance(given, Mapping) or given.keys() != set(names):
        needs = " and ".join(names)
        what = "a text, or an object" if _one_text(roles) else "an object"
        raise Refusal(400, f"input {number} must be {what} with {needs}", fields={"param": "inputs"})
    values = {role.name: _value(given[role.name], role, number) for role in roles}
    return values[names[0]] if _one_text(roles) else values


def _record(schema: Mapping[str, Any], given: Any, number: int) -> Mapping[str, Any]:
    """Return an input with the keys that a schema has; the task checks their values."""
    known, needed = schema["properties"], schema["required"]
    if not isinstance(given, Mapping) or not given.keys() <= known.keys() or not given.keys() >= set(needed):
        others = ", ".join(known.keys() - set(needed))
        raise Refusal(400, f"input {number} must be an object with {' and '.join(needed)} (and {others})")
    return given


def _one_text(roles: tuple[Role, ...]) -> bool:
    return len(roles) == 1 and roles[0].kind is Kind.TEXT


def _value(given: Any, role: Role, number: int) -> Any:
    kind = (int, float) if role.kind is Kind.NUMBER else (str,)
    several = role.kind in (Kind.TEXT, Kind.NUMBER, Kind.TIME) and isinstance(given, list)
    for each in given if several else [given]:
        if not isinstance(each, kind) or isinstance(each, bool):
            raise Refusal(
                400, f"{role.name} of input {number} has the wrong type; it is of the kind {role.kind}"
            )
    if role.kind is Kind.IMAGE:
        return _image(given, number)
    return tuple(given) if several and role.kind is Kind.TEXT else given


def _image(given: str, number: int) -> bytes:
    text = given.partition(",")[2] if given.startswith("data:") else given
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(
            400, f"the image of input {number} is not base64; encode the bytes of its file"
        ) from error

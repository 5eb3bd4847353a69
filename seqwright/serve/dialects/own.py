"""Our own dialect, for every task: predict, look, and the state of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from seqwright.lens.trace.alignment import mean_cross
from seqwright.serve.http import (
    deadline_of,
    json_response,
    parse_json,
    read_fields,
    read_json,
    while_connected,
)
from seqwright.serve.inputs import input_roles, input_schema, read_input
from seqwright.serve.limits import Refusal
from seqwright.serve.metrics import CONTENT_TYPE
from seqwright.serve.operations import Operation, Server

M = TypeVar("M", bound=BaseModel)
# the page of a look is one file with its own script, and asks the network for nothing
LOOK_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'none'"
)
PREDICTIONS = {
    "type": "object",
    "required": ["model", "predictions"],
    "properties": {
        "model": {"type": "string"},
        "predictions": {"type": "array", "items": {"type": "object", "required": ["source", "output"]}},
    },
}


class PredictRequest(BaseModel):
    """Inputs of one model, and options of the prediction."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str | None = Field(None, description="Name of a model, or its language pair; default: the first.")
    inputs: list[Any]
    options: dict[str, Any] = Field({}, description="Those of `predict`: beam, n_best, temperature, seed, …")


class LookRequest(BaseModel):
    """One input to look into. The page sends it as a form, to show the answer in a new tab."""

    model_config = ConfigDict(extra="forbid")
    model: str | None = None
    input: Any
    encoded: bool = Field(False, description="The input is a JSON text, as a form needs it.")
    beam: int | None = Field(None, ge=1)
    reference: str | None = None
    output: str | None = Field(None, description="The output to look into; default: the best one.")
    format: Literal["json", "html", "alignment"] = "json"
    api_key: str | None = None


class CorrectionRequest(BaseModel):
    """What the output for an input should have been."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str | None = None
    input: Any
    expected: str
    output: str | None = None


class Own:
    """The handlers of a server. Their requests have the limits of the server and the inputs of its models."""

    def __init__(self, server: Server):
        self.models, self.metrics, limits = server.models, server.metrics, server.limits
        self.depth = limits.depth
        schemas = {repr(s): s for model in server.models.all.values() if (s := input_schema(model.task))}
        one: Any = {"anyOf": list(schemas.values())}
        what = "What the model gets: texts, or objects with the columns of the task."
        several = Field(
            min_length=1, max_length=limits.items, json_schema_extra={"items": one}, description=what
        )
        self.predict_request = _narrowed(PredictRequest, inputs=several)
        self.look_request = _narrowed(
            LookRequest,
            input=Field(json_schema_extra=one),
            beam=Field(None, ge=1, le=limits.beam),
            reference=Field(None, max_length=limits.characters),
            output=Field(None, max_length=limits.characters),
        )
        self.correction_request = _narrowed(
            CorrectionRequest,
            input=Field(json_schema_extra=one),
            expected=Field(min_length=1, max_length=limits.characters),
            output=Field(None, max_length=limits.characters),
        )

    async def predict(self, request: Request) -> Response:
        asked = await read_json(request, self.predict_request)
        model = self.models.find(asked.model)
        inputs = [read_input(model.task, given, number) for number, given in enumerate(asked.inputs, start=1)]
        work = model.predict(inputs, asked.options, deadline_of(request))
        found = await while_connected(request, work)
        return json_response({"model": model.name, "predictions": [each.to_json() for each in found]})

    async def look(self, request: Request) -> Response:
        asked = await read_fields(request, self.look_request)
        model = self.models.find(asked.model)
        wrapped = asked.encoded and isinstance(asked.input, str)
        value = parse_json(asked.input.encode("utf-8"), self.depth) if wrapped else asked.input
        given = read_input(model.task, value, 1)
        options = {name: getattr(asked, name) for name in ("beam", "reference", "output")}
        options["ablate"] = asked.format != "alignment"
        work = model.look(given, deadline_of(request), SHOWN[asked.format], **options)
        return await while_connected(request, work)

    async def correct(self, request: Request) -> Response:
        asked = await read_json(request, self.correction_request)
        model = self.models.find(asked.model)
        model.check_correctable()
        read_input(model.task, asked.input, 1)
        roles = input_roles(model.task)
        targets = [role for role in model.task.own_roles if role not in roles]
        if len(targets) != 1:
            raise Refusal(400, f"{model.name} has no outputs to correct: its task is {model.kind}")
        given = asked.input if isinstance(asked.input, dict) else {roles[0].name: asked.input}
        await model.correct({**given, targets[0].name: asked.expected}, asked.output)
        return json_response({"success": True})

    async def livez(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        if request.app.draining:
            raise Refusal(503, "the server is shutting down", 1, "closed")
        for name, model in self.models.all.items():
            if not model.dispatcher.ready:
                raise Refusal(503, f"{name} is being loaded again", 1, "lost")
        if any(model.dispatcher.crowded for model in self.models.all.values()):
            raise Refusal(503, "a queue is nearly full", 1, "full")
        return PlainTextResponse("ok\n")

    async def numbers(self, request: Request) -> Response:
        ready = all(model.dispatcher.ready for model in self.models.all.values())
        self.metrics.ready.set(ready and not request.app.draining)
        return Response(self.metrics.page(), media_type=CONTENT_TYPE)


def operations(server: Server) -> list[Operation]:
    own = Own(server)
    predict, look, correct = own.predict_request, own.look_request, own.correction_request
    inside, plain = "Show how the model computes one output.", ("text/plain",)
    page = ("application/json", "text/html")
    return [
        Operation("POST", "/v1/predict", own.predict, "Predict outputs.", predict, answer=PREDICTIONS),
        Operation("POST", "/v1/look", own.look, inside, look, forms=True, answers=page),
        Operation("POST", "/v1/corrections", own.correct, "Store the right output of an input.", correct),
        Operation("GET", "/livez", own.livez, "The process is alive.", answers=plain, open=True),
        Operation("GET", "/readyz", own.readyz, "The server accepts requests.", answers=plain),
        Operation("GET", "/metrics", own.numbers, "Numbers for Prometheus.", answers=plain),
    ]


def _narrowed(model: type[M], **fields: Any) -> type[M]:
    """Return a request in which some fields have other limits."""
    types = {name: (model.model_fields[name].annotation, field) for name, field in fields.items()}
    made: Any = create_model(model.__name__, __base__=model, __doc__=model.__doc__, **types)  # type: ignore[call-overload]
    return cast(type[M], made)


def _page(trace: Any) -> Response:
    from seqwright.lens.page import render

    return HTMLResponse(render([trace.to_json()]), headers={"Content-Security-Policy": LOOK_POLICY})


def _alignment(trace: Any) -> dict[str, Any]:
    """Return the mean attention of each piece of the output to each piece of the source, ends excluded."""
    if not trace.layers("cross"):
        raise Refusal(400, f"there is no alignment: {trace.why('cross')}")
    if (axis := trace.document["kinds"]["cross"]["columns"]) != "source":
        raise Refusal(400, f"there is no alignment with tokens: the model attends to {axis}")
    weights = mean_cross(trace)
    pieces = {
        side: [
            number for number, piece in enumerate(trace.document[side]["pieces"]) if "special" not in piece
        ]
        for side in ("source", "output")
    }
    places = {
        side: [
            {name: trace.document[side]["pieces"][number][name] for name in ("start", "end")}
            for number in kept
        ]
        for side, kept in pieces.items()
    }
    rows = weights[pieces["output"]][:, pieces["source"]].round(4).tolist()
    return {"text": trace.document["output"]["text"], **places, "weights": rows}


SHOWN: dict[str, Callable[[Any], Response]] = {  # a trace, by the format that a client requests
    "json": lambda trace: json_response(trace.to_json()),
    "html": _page,
    "alignment": lambda trace: json_response(_alignment(trace)),
}

"""The dialect of OpenAI: models, completions and chat, also as a stream of server-sent events.

A language model continues the prompt. A translator takes the prompt, or the last message of the user, as its
source: its search is that of the run unless a temperature is given, and system messages are ignored.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from seqwright.errors import SeqwrightError
from seqwright.serve.http import (
    deadline_of,
    encoded,
    json_response,
    read_json,
    together,
    while_connected,
)
from seqwright.serve.limits import Refusal, check_texts
from seqwright.serve.messages import Piece
from seqwright.serve.models import Served
from seqwright.serve.operations import Operation, Server
from seqwright.serve.page import panel_of
from seqwright.serve.stops import Stops

REASONS = {"end": "stop", "stop": "stop", "length": "length"}
Finite = Annotated[float, Field(allow_inf_nan=False)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    include_usage: bool = False


class Common(BaseModel):
    """What completions and chat have in common. None of the penalties is supported."""

    model_config = ConfigDict(extra="ignore", strict=True)
    model: str = Field(max_length=200)
    temperature: Annotated[Finite, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Finite, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    seed: int | None = None
    presence_penalty: Finite | None = None
    frequency_penalty: Finite | None = None
    logit_bias: dict[str, Finite] | None = None

    @property
    def stops(self) -> list[str]:
        found = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in found if text]

    def check(self) -> None:
        for name in ("presence_penalty", "frequency_penalty", "logit_bias", "suffix", "top_logprobs"):
            if getattr(self, name, None):
                raise Refusal(400, f"{name} is not supported; leave it out", fields={"param": name})


class CompletionRequest(Common):
    """A text to continue."""

    prompt: str | Annotated[list[str], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    echo: bool | None = None
    best_of: Annotated[int, Field(ge=1, le=1)] | None = None
    suffix: str | None = None


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    type: Literal["text"] = "text"
    text: str


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    role: str = Field(max_length=40)
    content: str | list[Part] | None = None  # absent where the assistant called a tool

    @property
    def text(self) -> str:
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text for part in self.content)


class ChatRequest(Common):
    """A conversation to continue."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None  # 0: only those of the chosen tokens


@dataclass
class Choice:
    """One output, complete or growing."""

    index: int
    text: str = ""
    tokens: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    scored: int = 0  # tokens whose log-probabilities were sent
    offset: int = 0  # where the next token begins in the text
    reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class OpenAI:
    """The handlers of a server."""

    def __init__(self, server: Server):
        self.models, self.limits = server.models, server.limits

    async def all_models(self, request: Request) -> Response:
        known = [_described(model) for model in self.models.all.values()]
        return json_response({"object": "list", "data": known})

    async def one_model(self, request: Request) -> Response:
        return json_response(_described(self.models.find(request.path_params["id"])))

    async def completions(self, request: Request) -> Response:
        asked = await read_json(request, CompletionRequest)
        model = _writer(self.models.find(asked.model), asked)
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        if len(prompts) * (asked.n or 1) > self.limits.items:
            raise Refusal(400, f"more than {self.limits.items} outputs; request fewer")
        base = {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", **_about(model)}
        length = asked.max_tokens
        if length is None and model.task.usage.prompted:
            length = 16
        inputs = [(text, text if asked.echo else "") for text in prompts]
        shown = partial(_completion_choice, scored=asked.logprobs is not None)
        return await _respond(request, asked, model, inputs, length, base, base, shown, shown)

    async def chat(self, request: Request) -> Response:
        asked = await read_json(request, ChatRequest)
        model = _writer(self.models.find(asked.model), asked)
        given = _input_of(model, asked.messages)
        length = asked.max_completion_tokens or asked.max_tokens
        base = {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion", **_about(model)}
        chunk, scored = {**base, "object": "chat.completion.chunk"}, bool(asked.logprobs)
        whole, part = partial(_chat_choice, scored=scored), partial(_chat_part, scored=scored, begun=set())
        return await _respond(request, asked, model, [(given, "")], length, base, chunk, whole, part)


def operations(server: Server) -> list[Operation]:
    own, streamed = OpenAI(server), ("application/json", "text/event-stream")
    completion: dict[str, Any] = {"body": CompletionRequest, "answers": streamed}
    chat: dict[str, Any] = {"body": ChatRequest, "answers": streamed}
    return [
        Operation("GET", "/v1/models", own.all_models, "The models and their tasks."),
        Operation("GET", "/v1/models/{id}", own.one_model, "One model."),
        Operation("POST", "/v1/completions", own.completions, "Continue a text.", **completion),
        Operation("POST", "/v1/chat/completions", own.chat, "Reply to messages.", **chat),
    ]


def _described(model: Served) -> dict[str, Any]:
    known = {"id": model.name, "object": "model", "created": model.created, "owned_by": "seqwright"}
    return {**known, **model.describe(), "panel": panel_of(model.kind, model.images)}


def _writer(model: Served, asked: Common) -> Served:
    asked.check()
    check_texts("stop", asked.stops, model.limits)
    if not model.writes:
        raise Refusal(400, f"{model.name} does not write text; use /v1/predict", fields={"param": "model"})
    return model


def _input_of(model: Served, messages: Sequence[Message]) -> Any:
    """Return the input that answers messages. Those of the assistant may have no text."""
    for number, message in enumerate(messages):
        if message.content is None and message.role != "assistant":
            place = f"messages.{number}.content"
            rule = "only a message of the assistant may have no text; pass a text"
            raise Refusal(400, f"{place} is null: {rule}", fields={"param": place})
    try:
        return model.task.from_messages(
            [{"role": each.role, "content": each.text} for each in messages if each.content is not None]
        )
    except SeqwrightError as error:
        raise Refusal(400, str(error), fields={"param": "messages"}) from error


def _about(model: Served) -> dict[str, Any]:
    return {"created": int(time.time()), "model": model.name}


def _options(asked: Common, model: Served, length: int | None, number: int) -> dict[str, Any]:
    """Return the options of the task for the `number`th choice."""
    retrieves = model.retrieves  # clients send a length and their defaults, which change no retrieved reply
    options: dict[str, Any] = {} if length is None or retrieves else {"max_length": length}
    drawn = {"temperature": asked.temperature, "top_p": asked.top_p}
    drawn = {name: value for name, value in drawn.items() if value not in (None, 1 if retrieves else None)}
    sampled = bool(drawn) and asked.temperature != 0
    if model.task.usage.prompted or sampled:
        seed = asked.seed if asked.seed is not None else secrets.randbelow(1 << 31)
        return {**options, **drawn, "seed": seed + number}
    return {**options, "beam": 1} if asked.stream or asked.temperature == 0 else options


async def _respond(
    request: Request,
    asked: Common,
    model: Served,
    inputs: Sequence[tuple[Any, str]],
    length: int | None,
    base: Mapping[str, Any],
    chunk: Mapping[str, Any],
    whole: Any,
    part: Any,
) -> Response:
    """Answer with all outputs, or with a stream of their parts. An input comes with the text to show before
    its output.
    """
    deadline, count = deadline_of(request), asked.n or 1
    await model.check_size([given for given, _ in inputs], count)
    runs = [
        _write(model, given, before, _options(asked, model, length, number), asked.stops, deadline, index)
        for place, (given, before) in enumerate(inputs)
        for number in range(count)
        for index in [place * count + number]
    ]
    if not asked.stream:

        async def finished(run: AsyncIterator[tuple[Choice, str]]) -> Choice:
            return [choice async for choice, _ in run][-1]

        choices = await while_connected(request, together(map(finished, runs)))
        shown = [whole(choice, None) for choice in choices]
        return json_response({**base, "choices": shown, "usage": _usage(choices, count)})
    return await _stream(request, asked, runs, chunk, part, count)


async def _stream(
    request: Request,
    asked: Common,
    runs: Sequence[AsyncIterator[tuple[Choice, str]]],
    chunk: Mapping[str, Any],
    part: Any,
    count: int,
) -> Response:
    """Return a stream of events. What is refused before the first one has a status of its own."""
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def follow(run: AsyncIterator[tuple[Choice, str]]) -> None:
        try:
            async for choice, delta in run:
                queue.put_nowait((part(choice, delta), choice))
            queue.put_nowait(None)
        except Exception as error:
            queue.put_nowait(error)

    tasks = [asyncio.create_task(follow(run)) for run in runs]
    try:
        first = await while_connected(request, queue.get())
        if isinstance(first, Exception):
            raise first
    except BaseException:
        for task in tasks:
            task.cancel()
        raise

    async def events() -> AsyncIterator[bytes]:
        choices: dict[int, Choice] = {}
        open_runs, item = len(runs), first
        try:
            while True:
                if item is None:
                    open_runs -= 1
                elif isinstance(item, Exception):
                    message = item.message if isinstance(item, Refusal) else "internal server error"
                    yield _event({"error": {"message": message, "type": "server_error"}})
                    break
                else:
                    shown, choice = item
                    choices[choice.index] = choice
                    yield _event({**chunk, "choices": [shown]})
                if not open_runs:
                    break
                item = await queue.get()
            if asked.stream_options is not None and asked.stream_options.include_usage:
                ordered = [choices[index] for index in sorted(choices)]
                yield _event({**chunk, "choices": [], "usage": _usage(ordered, count)})
            yield b"data: [DONE]\n\n"
        finally:
            for task in tasks:
                task.cancel()

    return StreamingResponse(events(), media_type="text/event-stream")


def _event(value: Any) -> bytes:
    return b"data: " + encoded(value) + b"\n\n"


async def _write(
    model: Served,
    given: Any,
    before: str,
    options: Mapping[str, Any],
    stops: Sequence[str],
    deadline: float,
    index: int,
) -> AsyncIterator[tuple[Choice, str]]:
    """Yield an output and what is new in it, the last time with the reason of its end."""
    choice, sent, watched = Choice(index, before, offset=len(before)), "", Stops(stops)
    queue: asyncio.Queue[Piece | None] = asyncio.Queue()
    task = asyncio.create_task(
        model.predict([given], options, deadline, lambda _, piece: queue.put_nowait(piece))
    )
    task.add_done_callback(lambda _: queue.put_nowait(None))
    if before:
        yield choice, before
    try:
        while (piece := await queue.get()) is not None:
            choice.tokens.append(piece.token)
            choice.scores.append(piece.log_prob)
            text, stopped = watched.visible(piece.text)
            if text.startswith(sent) and len(text) > len(sent) and not stopped:
                delta, sent = text[len(sent) :], text
                choice.text = before + sent
                yield choice, delta
            if stopped:
                task.cancel()
                choice.text, choice.reason = before + text, "stop"
                choice.prompt_tokens = await model.count_tokens(given)
                choice.completion_tokens = len(choice.scores)
                yield choice, text[len(sent) :]
                return
        (prediction,) = task.result()
        found = prediction.to_json()
        text, stopped = watched.visible(found["output"], final=True)
        choice.tokens, choice.scores = list(found["tokens"]), list(found["token_scores"])
        choice.prompt_tokens = prediction.reading.tokens
        choice.completion_tokens = prediction.output_tokens
        choice.text = before + text
        choice.reason = "stop" if stopped else REASONS.get(found["finish_reason"], "stop")
        yield choice, text[len(sent) :] if text.startswith(sent) else ""
    finally:
        task.cancel()


def _usage(choices: Sequence[Choice], count: int) -> dict[str, int]:
    read = sum(choice.prompt_tokens for choice in choices[::count])
    written = sum(choice.completion_tokens for choice in choices)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _completion_choice(choice: Choice, delta: str | None, *, scored: bool) -> dict[str, Any]:
    """Return a choice, or what is new in it."""
    return {
        "index": choice.index,
        "text": choice.text if delta is None else delta,
        "logprobs": _completion_scores(choice) if scored else None,
        "finish_reason": choice.reason,
    }


def _chat_choice(choice: Choice, delta: str | None, *, scored: bool) -> dict[str, Any]:
    return {
        "index": choice.index,
        "message": {"role": "assistant", "content": choice.text},
        "logprobs": _chat_scores(choice) if scored else None,
        "finish_reason": choice.reason,
    }


def _chat_part(choice: Choice, delta: str | None, *, scored: bool, begun: set[int]) -> dict[str, Any]:
    """Return what is new in a choice. `begun`: the choices whose role was sent."""
    role = {} if choice.index in begun else {"role": "assistant"}
    begun.add(choice.index)
    return {
        "index": choice.index,
        "delta": {**role, **({"content": delta} if delta else {})},
        "logprobs": _chat_scores(choice) if scored else None,
        "finish_reason": choice.reason,
    }


def _new_scores(choice: Choice) -> list[tuple[int, str, float]]:
    """Return the tokens that were not sent yet: the place of each in the text, its own text and its
    log-probability.
    """
    begin, end = choice.scored, min(len(choice.tokens), len(choice.scores))  # the end has no text
    new = []
    for token, score in zip(choice.tokens[begin:end], choice.scores[begin:end], strict=True):
        new.append((choice.offset, token, score))
        choice.offset += len(token)
    choice.scored = end
    return new


def _completion_scores(choice: Choice) -> dict[str, Any]:
    """Return the log-probabilities of the new tokens; only those of the output are known."""
    new = _new_scores(choice)
    return {
        "tokens": [token for _, token, _ in new],
        "token_logprobs": [score for _, _, score in new],
        "top_logprobs": [{token: score} for _, token, score in new],
        "text_offset": [offset for offset, _, _ in new],
    }


def _chat_scores(choice: Choice) -> dict[str, Any]:
    return {
        "content": [
            {
                "token": token,
                "logprob": score,
                "bytes": list(token.encode("utf-8", "replace")),
                "top_logprobs": [],
            }
            for _, token, score in _new_scores(choice)
        ],
        "refusal": None,
    }

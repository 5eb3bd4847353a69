"""The dialect of LibreTranslate: translate, detect, suggest (https://docs.libretranslate.com/api).

A request is JSON, a form or a query. Models are chosen by their languages; for a model without known
languages, the source is "text" and the target is the name of the model.
"""

from __future__ import annotations

import asyncio
import html
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from seqwright.data.results import Prediction
from seqwright.serve.http import deadline_of, json_response, read_fields, together, while_connected
from seqwright.serve.limits import Refusal
from seqwright.serve.models import Served
from seqwright.serve.operations import Operation, Server

ALIASES = {"zh": "zh-hans", "zt": "zh-hant", "pb": "pt-br"}
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese",
    "zh-hans": "Chinese", "zh-hant": "Chinese (traditional)", "pt-br": "Portuguese (Brazil)",
}  # fmt: skip
TAG = re.compile(r"(<[^<>]*>)")  # linear: it never reads past the next tag
Texts = str | list[str]


class TranslateRequest(BaseModel):
    """A text or several to translate."""

    model_config = ConfigDict(extra="ignore")
    q: Texts
    source: str = Field(max_length=100, description='Code of a language, or "auto".')
    target: str = Field(max_length=100)
    format: str = Field("text", description='"text" or "html".')
    alternatives: int = Field(0, ge=0, le=15)
    api_key: str | None = None


class DetectRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")
    q: str
    api_key: str | None = None


class LanguagesRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")
    api_key: str | None = None


class SuggestRequest(BaseModel):
    """A better translation `s` of `q`."""

    model_config = ConfigDict(extra="ignore")
    q: str = Field(min_length=1)
    s: str = Field(min_length=1)
    source: str = Field(max_length=100)
    target: str = Field(max_length=100)
    api_key: str | None = None


TRANSLATED = {
    "type": "object",
    "required": ["translatedText"],
    "properties": {
        "translatedText": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    },
}


class LibreTranslate:
    """The handlers of a server with translators."""

    def __init__(self, server: Server, translators: Sequence[Served]):
        self.translators, self.limits, self.keys = translators, server.limits, server.keys

    async def translate(self, request: Request) -> Response:
        asked = await read_fields(request, TranslateRequest)
        if asked.format not in ("text", "html"):
            raise Refusal(400, f"{asked.format[:40]} format is not supported")
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        self._check(texts)
        auto = asked.source == "auto"
        guesses = await self._guessed(texts, _to(self.translators, asked.target)) if auto else []
        sources = [guess[0]["language"] for guess in guesses] if auto else [asked.source] * len(texts)
        chosen = [_find(self.translators, source, asked.target) for source in sources]
        places: dict[Served, list[int]] = {}
        for place, model in enumerate(chosen):
            places.setdefault(model, []).append(place)
        deadline = deadline_of(request)
        work = together(
            _translated(model, [texts[place] for place in own], asked, deadline)
            for model, own in places.items()
        )
        outputs = itertools.chain.from_iterable(await while_connected(request, work))
        order = dict(zip(itertools.chain.from_iterable(places.values()), outputs, strict=True))
        found = [order[place] for place in range(len(texts))]
        one = isinstance(asked.q, str)
        answer: dict[str, Any] = {"translatedText": _as_asked([each[0] for each in found], one)}
        if asked.alternatives:
            answer["alternatives"] = _as_asked([each[1:] for each in found], one)
        if auto:
            answer["detectedLanguage"] = _as_asked([guess[0] for guess in guesses], one)
        return json_response(answer)

    def _check(self, texts: Sequence[str]) -> None:
        if len(texts) > (limit := self.limits.items):
            raise Refusal(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({limit})")
        for text in texts:
            if len(text) > (limit := self.limits.characters):
                raise Refusal(400, f"Invalid request: request ({len(text)}) exceeds text limit ({limit})")

    async def _guessed(self, texts: Sequence[str], translators: Sequence[Served]) -> list[Any]:
        """Return the ranked languages of each text."""
        return await asyncio.to_thread(lambda: [_detect(text, translators) for text in texts])

    async def languages(self, request: Request) -> Response:
        await read_fields(request, LanguagesRequest)  # its client sends the key in the body
        return json_response(_languages(self.translators))

    async def detect(self, request: Request) -> Response:
        asked = await read_fields(request, DetectRequest)
        self._check([asked.q])
        (ranked,) = await self._guessed([asked.q], self.translators)
        return json_response(ranked)

    async def suggest(self, request: Request) -> Response:
        asked = await read_fields(request, SuggestRequest)
        model = _find(self.translators, asked.source, asked.target)
        await model.correct({"source": asked.q, "target": asked.s}, None)
        return json_response({"success": True})

    async def health(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def settings(self, request: Request) -> Response:
        first = self.translators[0].pair
        language = {
            side: {"code": code, "name": NAMES.get(code, code)}
            for side, code in (("source", first.source), ("target", first.target))
        }
        return json_response(
            {
                "charLimit": self.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": self.keys,
                "keyRequired": self.keys,
                "suggestions": True,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": language,
            }
        )


def operations(server: Server) -> list[Operation]:
    translators = server.models.translators()
    if not translators:
        return []
    own, listed = LibreTranslate(server, translators), {"type": "array", "items": {"type": "object"}}
    translate: dict[str, Any] = {"body": TranslateRequest, "forms": True, "answer": TRANSLATED}
    detect: dict[str, Any] = {"body": DetectRequest, "forms": True, "answer": listed}
    suggest: dict[str, Any] = {"body": SuggestRequest, "forms": True}
    return [
        Operation("POST", "/translate", own.translate, "Translate texts.", **translate),
        Operation("GET", "/languages", own.languages, "The languages and their targets.", answer=listed),
        Operation("POST", "/detect", own.detect, "Guess the language.", **detect),
        Operation("POST", "/suggest", own.suggest, "Store a better translation.", **suggest),
        Operation("GET", "/health", own.health, "The server is alive."),
        Operation("GET", "/frontend/settings", own.settings, "What a client shows."),
    ]


def _as_asked(values: list[Any], one: bool) -> Any:
    return values[0] if one else values


def _code(code: str) -> str:
    return ALIASES.get(code.lower(), code.lower())


def _to(translators: Sequence[Served], target: str) -> list[Served]:
    found = [model for model in translators if _code(model.pair.target) == _code(target)]
    if not found:
        raise Refusal(400, f"{target[:40]} is not supported")
    return found


def _find(translators: Sequence[Served], source: str, target: str) -> Served:
    """Return the model of two languages."""
    for model in _to(translators, target):
        if _code(model.pair.source) == _code(source):
            return model
    raise Refusal(400, f"{source[:40]} is not supported")


def _languages(translators: Sequence[Served]) -> list[dict[str, Any]]:
    targets: dict[str, list[str]] = {}
    for model in translators:
        targets.setdefault(model.pair.source, []).append(model.pair.target)
    for code in {model.pair.target for model in translators} - targets.keys():
        targets[code] = []
    return [
        {"code": code, "name": NAMES.get(_code(code), code), "targets": sorted(set(found))}
        for code, found in sorted(targets.items())
    ]


def _detect(text: str, translators: Sequence[Served]) -> list[dict[str, Any]]:
    """Rank the source languages: that whose tokenizer needs the fewest tokens, and knows them, is likely."""
    costs: dict[str, float] = {}
    for model in translators:
        (row,) = model.task.encode(list(model.task.inputs([text])))
        unknown = sum(1 for _ in model.task.unknown_symbols(text))
        cost = row.length + 4 * unknown
        costs[model.pair.source] = min(cost, costs.get(model.pair.source, math.inf))
    least = min(costs.values())
    weights = {code: math.exp(-4 * (cost - least) / max(least, 1)) for code, cost in costs.items()}
    total = sum(weights.values())
    ranked = sorted(weights, key=lambda code: -weights[code])
    return [{"confidence": round(100 * weights[code] / total, 1), "language": code} for code in ranked]


async def _translated(
    model: Served, texts: Sequence[str], asked: TranslateRequest, deadline: float
) -> list[list[str]]:
    """Return the translation of each text and its alternatives. All lines go through the model together."""
    marked = asked.format == "html"
    documents = [_Document(text, marked) for text in texts]
    lines, count = [line for document in documents for line in document.lines], asked.alternatives + 1
    found: list[Prediction] = []
    if lines:
        found = await model.predict_in_waves(lines, {"n_best": count} if count > 1 else {}, deadline)
    outputs = iter([[str(each) for each in prediction.all] for prediction in found])
    return [
        document.translated(list(itertools.islice(outputs, len(document.lines)))) for document in documents
    ]


class _Document:
    """A text whose lines, and whose texts between tags if it is HTML, are translated apart."""

    def __init__(self, text: str, marked: bool):
        self.marked = marked
        self.pieces = TAG.split(text) if marked else [text]
        self.lines = [
            line.strip()
            for number, piece in enumerate(self.pieces)
            if not self._is_tag(number)
            for line in self._plain(piece).split("\n")
            if line.strip()
        ]

    def _is_tag(self, number: int) -> bool:
        return number % 2 == 1  # of the pieces of a split

    def _plain(self, piece: str) -> str:
        return html.unescape(piece) if self.marked else piece

    def translated(self, outputs: Sequence[Sequence[str]]) -> list[str]:
        """Return the text with the best output of each line, with the next best, and so on."""
        return [self._assembled(outputs, choice) for choice in range(max(map(len, outputs), default=1))]

    def _assembled(self, outputs: Sequence[Sequence[str]], choice: int) -> str:
        """Return the text with the `choice`th output of each line, or its last one."""
        left = iter(outputs)

        def translated(line: str) -> str:
            if not line.strip():
                return line
            found = next(left)
            best = found[min(choice, len(found) - 1)]
            start, end = line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]
            return f"{start}{html.escape(best, quote=False) if self.marked else best}{end}"

        whole = []
        for number, piece in enumerate(self.pieces):
            lines = [] if self._is_tag(number) else self._plain(piece).split("\n")
            whole.append("\n".join(map(translated, lines)) if lines else piece)
        return "".join(whole)

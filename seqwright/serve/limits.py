"""The limits of a server, all on by default, and the refusal of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, one client and all requests together may use."""

    body: int = 1 << 20  # bytes of a request
    images: int = 10 << 20  # bytes of a request to a model of images
    header: int = 16 << 10  # bytes of all header lines
    headers: int = 100  # header lines
    url: int = 16 << 10  # bytes of a path and its query
    depth: int = 64  # levels of a JSON document
    items: int = 256  # inputs of a request
    characters: int = 20_000  # of one input
    numbers: int = 200_000  # of one input, such as the steps of a series in all its columns
    beam: int = 16  # width, and n_best
    samples: int = 16  # continuations of one prompt
    output: int = 4096  # tokens, or steps of a series, of one output
    requests: int = 256  # inputs of a model that wait or are computed
    tokens: int = 64_000  # their tokens
    look: int = 1024  # tokens of an input, or a reference, that is looked into
    looks: int = 4  # of a model that wait or are computed
    rate: float | None = None  # requests per second of one client, in bursts of twice as many; None: any
    deadline: float = 60.0  # seconds until an answer; a client may ask for less
    receive: float = 10.0  # seconds in which a request must arrive
    keep_alive: float = 5.0  # seconds that an idle connection stays open
    connections: int = 1024
    drain_delay: float = 0.5  # seconds between "not ready" and the end of accepting
    drain: float = 30.0  # seconds that accepted requests have to finish at the end
    corrections: int = 16 << 20  # bytes of corrections.jsonl of one run


@dataclass
class Refusal(Exception):
    """A request that is not answered: a status, one line, and in how many seconds to try again."""

    status: int
    message: str
    retry_after: float | None = None
    reason: str = "invalid"  # label of the metric rejected_total
    fields: Mapping[str, Any] = field(default_factory=dict)  # of the dialect, such as `param`

    def headers(self) -> dict[str, str]:
        if self.retry_after is None:
            return {}
        return {"Retry-After": str(max(1, min(120, round(self.retry_after + 0.5))))}


def check_texts(name: str, value: Any, limits: Limits) -> None:
    """Refuse an option with too many values, or with a text that is too long: `prefix`, `stop`."""
    texts = value if isinstance(value, list) else [value]
    if len(texts) > (most := limits.items):
        raise Refusal(400, f"{name} has {len(texts)} values; at most {most}", fields={"param": name})
    longest = max((len(text) for text in texts if isinstance(text, str)), default=0)
    if longest > (most := limits.characters):
        raise Refusal(400, f"{name} has {longest} characters; at most {most}", fields={"param": name})


def closing() -> Refusal:
    return Refusal(503, "the server is shutting down; send the request again", 1, "closed")


def header_too_large(limits: Limits) -> Refusal:
    return Refusal(431, f"the header has more than {limits.header} bytes; send less", reason="size")


def url_too_long(limits: Limits) -> Refusal:
    message = f"the URL has more than {limits.url} bytes; send its parameters in the body"
    return Refusal(414, message, reason="size")

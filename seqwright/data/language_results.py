"""The outputs of a language model: a text that it continues, and a text that it scores."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from seqwright.data.results import UNSURE, Cell, Prediction

STRONGEST = 8.0  # nats at which the background of a token is darkest


class Surprise(NamedTuple):
    """A text and its log-probability, all of its `tokens` together: what the metrics of a language model
    compare. The right answer is the text with a log-probability of 0.
    """

    text: str
    log_prob: float = 0.0
    tokens: int = 0

    def __str__(self) -> str:
        if not self.tokens:
            return "–"
        return f"{abs(self.log_prob) / max(len(self.text), 1):.3f} nats per character"


@dataclass(frozen=True, repr=False)
class Continuation(Prediction):
    """The text that a language model writes after a prompt, with the log-probability of each token.

    finish_reason: "length", "stop" at a text given as `stop`, or "end" at the end of a document.
    alternatives: further samples.
    """

    continuation: str
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finish_reason: str
    alternatives: tuple[Continuation, ...] = ()
    headings = ("prompt", "continuation", "nats per token")

    @property
    def text(self) -> str:
        """The prompt and its continuation."""
        return self.source + self.continuation

    @property
    def full_text(self) -> str:
        return self.text

    @property
    def value(self) -> str:
        return self.text

    @property
    def output_tokens(self) -> int:
        return len(self.token_scores)

    @property
    def all(self) -> tuple[Continuation, ...]:
        return (self, *self.alternatives)

    def to_json(self) -> dict[str, Any]:
        others = [other._output_json() for other in self.alternatives]
        reading = self.reading.to_json()
        return {"source": self.source, **self._output_json(), "reading": reading, "alternatives": others}

    def _output_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "output": self.continuation,
            "log_prob": self.log_prob,
            "tokens": list(self.tokens),
            "token_scores": list(self.token_scores),
            "finish_reason": self.finish_reason,
        }

    def __str__(self) -> str:
        return self.text.replace("\n", "\\n")

    def rows(self) -> Iterator[list[Cell]]:
        for output in self.all:
            mean = f"{-output.log_prob / max(output.output_tokens, 1):.3f}"
            texts = (Cell(text.replace("\n", "\\n"), html.escape(text)) for text in (self.source,))
            written = Cell(
                output.continuation.replace("\n", "\\n"), shaded(output.tokens, output.token_scores)
            )
            yield [*texts, written, Cell(mean, mean, number=True)]


@dataclass(frozen=True, repr=False)
class Scored(Prediction):
    """A text with the log-probability of each of its tokens; in a notebook it is shaded by surprise.

    The last token is the end of the document where the text ends one.
    """

    text: str
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    headings = ("text", "nats per character", "log-probability")

    @property
    def log_prob(self) -> float:
        return math.fsum(self.token_scores)

    @property
    def value(self) -> Surprise:
        return Surprise(self.text, self.log_prob, len(self.token_scores))

    @property
    def perplexity(self) -> float:
        """The perplexity per token."""
        return math.exp(-self.log_prob / max(len(self.token_scores), 1))

    @property
    def output_tokens(self) -> int:
        return len(self.token_scores)

    def __float__(self) -> float:
        return self.log_prob

    def details(self) -> dict[str, Any]:
        return {"log_prob": self.log_prob}

    def to_json(self) -> dict[str, Any]:
        scores = {"tokens": list(self.tokens), "token_scores": list(self.token_scores)}
        return {"source": self.source, "output": self.text, "log_prob": self.log_prob, **scores}

    def __str__(self) -> str:
        return str(self.value)

    def rows(self) -> Iterator[list[Cell]]:
        numbers = (f"{-self.log_prob / max(len(self.text), 1):.3f}", f"{self.log_prob:.2f}")
        cells = (Cell(number, number, number=True) for number in numbers)
        yield [Cell(self.source, shaded(self.tokens, self.token_scores)), *cells]


def shaded(tokens: tuple[str, ...], scores: tuple[float, ...]) -> str:
    """Return tokens as HTML: the more surprising a token, the darker its background."""
    spans = []
    for token, score in zip(tokens, scores, strict=True):
        strength = min(-score / STRONGEST, 1.0)
        style = f"background: rgba({UNSURE}, {0.9 * strength:.2f}); white-space: pre-wrap"
        spans.append(f'<span title="{-score:.2f} nats" style="{style}">{html.escape(token)}</span>')
    return "".join(spans)

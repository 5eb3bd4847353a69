"""The outputs of a masked language model: a text whose blanks it fills, and its guesses at hidden tokens."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from seqwright.data.results import Cell, Prediction
from seqwright.data.text_display import pluralize


class Guesses(NamedTuple):
    """A text, the log-probability of its hidden `tokens` together, and how many of them were guessed right:
    what the metrics of a masked language model compare. By default all is right.
    """

    text: str
    log_prob: float = 0.0
    tokens: int = 1
    right: int = 1

    def __str__(self) -> str:
        if self.right == self.tokens and not self.log_prob:
            return "–"
        return f"{self.right:,} of {pluralize(self.tokens, 'hidden token')} right"


class Candidate(NamedTuple):
    """A text that fits into a blank."""

    text: str
    probability: float


@dataclass(frozen=True, repr=False)
class Filled(Prediction):
    """A text with its blanks filled. candidates: for each blank the most probable texts, the best first.

    The blanks are filled independently of each other.
    """

    text: str
    candidates: tuple[tuple[Candidate, ...], ...]
    headings = ("source", "output", "candidates")

    @property
    def value(self) -> str:
        return self.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """What fills each blank."""
        return tuple(found[0].text for found in self.candidates)

    @property
    def output_tokens(self) -> int:
        return len(self.candidates)

    @property
    def log_prob(self) -> float:
        """The log-probability of all fillings together."""
        return math.fsum(math.log(max(found[0].probability, 1e-300)) for found in self.candidates)

    def details(self) -> dict[str, Any]:
        return {"log_prob": self.log_prob}

    def to_json(self) -> dict[str, Any]:
        found = [[candidate._asdict() for candidate in each] for each in self.candidates]
        answer = {"output": self.text, "text": self.text, "tokens": list(self.tokens), "candidates": found}
        return {"source": self.source, **answer, "log_prob": self.log_prob, "reading": self.reading.to_json()}

    def __str__(self) -> str:
        return self.text.replace("\n", "\\n")

    @property
    def full_text(self) -> str:
        blanks = (f"  blank {number}: {shown}" for number, shown in enumerate(self._shown(), start=1))
        return "\n".join([self.text, *blanks])

    def _shown(self) -> list[str]:
        return [
            ", ".join(f"{text.strip() or repr(text)} {chance:.3f}" for text, chance in found)
            for found in self.candidates
        ]

    def rows(self) -> Iterator[list[Cell]]:
        texts = (self.source, str(self), "; ".join(self._shown()))
        yield [Cell(text, html.escape(text)) for text in texts]


@dataclass(frozen=True, repr=False)
class Guessed(Prediction):
    """A text, the tokens of it that were hidden, and for each the best guess and the log-probability of the
    right one.
    """

    text: str
    tokens: tuple[str, ...]
    guesses: tuple[str, ...]
    token_scores: tuple[float, ...]
    right: int
    headings = ("text", "right", "nats per token")

    @property
    def log_prob(self) -> float:
        return math.fsum(self.token_scores)

    @property
    def value(self) -> Guesses:
        return Guesses(self.text, self.log_prob, len(self.tokens), self.right)

    @property
    def output_tokens(self) -> int:
        return len(self.tokens)

    def details(self) -> dict[str, Any]:
        return {"log_prob": self.log_prob}

    def to_json(self) -> dict[str, Any]:
        tokens = {"tokens": list(self.tokens), "guesses": list(self.guesses)}
        scores = {"log_prob": self.log_prob, "token_scores": list(self.token_scores)}
        return {"source": self.source, "output": self.text, **tokens, **scores}

    def __str__(self) -> str:
        return str(self.value)

    def rows(self) -> Iterator[list[Cell]]:
        mean = f"{-self.log_prob / max(len(self.tokens), 1):.3f}"
        numbers = (f"{self.right:,} of {len(self.tokens):,}", mean)
        cells = (Cell(number, number, number=True) for number in numbers)
        yield [Cell(self.source, html.escape(self.source)), *cells]

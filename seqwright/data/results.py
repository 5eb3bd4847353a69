"""Predictions: the outputs of a model, and how they are shown as text, as JSON and in a notebook.

Each kind of output has a type of its own, derived from `Prediction`.
"""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Self, SupportsIndex, TypeVar, overload

from seqwright.data.text_display import pluralize, visible

SHOWN = 50  # rows of a table
WIDEST = 48  # terminal cells of a text in a table
UNSURE = "214, 120, 20"  # background colour of a token: the less probable, the stronger


@dataclass(frozen=True)
class Reading:
    """Token counts of a source: all, those unknown to the tokenizer, and those that are not read.

    unparsed: it has no dependency tree, which the positions of the model read.
    """

    tokens: int = 0
    unknown: int = 0
    unread: int = 0
    unparsed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the counts, and `unparsed` only where it is true."""
        counts = {"tokens": self.tokens, "unknown": self.unknown, "unread": self.unread}
        return counts | ({"unparsed": True} if self.unparsed else {})


class Cell(NamedTuple):
    """Cell of a table, for a terminal and as HTML. Numbers are aligned to the right."""

    text: str
    html: str
    number: bool = False


@dataclass(frozen=True, repr=False, kw_only=True)
class Prediction(ABC):
    """Output of a model for one input. `source` is the input as a line of text."""

    source: str = ""
    reading: Reading = Reading()
    headings: ClassVar[tuple[str, ...]]  # columns of a table of such predictions

    @property
    @abstractmethod
    def value(self) -> Any:
        """The plain answer, which metrics compare."""

    @property
    def all(self) -> tuple[Self, ...]:
        """This prediction and its alternatives, the best first."""
        return (self,)

    @property
    def shown_source(self) -> str:
        """The input as a table of examples shows it."""
        return self.source

    @property
    def complete(self) -> bool:
        """Whether the output ended by itself and was not cut."""
        return True

    @property
    def output_tokens(self) -> int:
        """The number of steps that the output took, for speeds."""
        return 1

    @property
    def remark(self) -> str:
        """What a reader of the output has to know about it; empty for most outputs."""
        return ""

    def details(self) -> dict[str, Any]:
        """Return the facts about an output that an evaluation records in addition to its value."""
        return {}

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a JSON object with at least the keys "source" and "output"."""

    @abstractmethod
    def __str__(self) -> str:
        """Return one line for a terminal."""

    @property
    def full_text(self) -> str:
        """The output as it is shown for a single input; it may have several lines."""
        return str(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {_short(str(self))} for “{_short(self.source)}”>"

    @abstractmethod
    def rows(self) -> Iterator[list[Cell]]:
        """Yield the rows of a table, with a cell for each of `headings`."""

    def _repr_html_(self) -> str:
        return _html_table(self.headings, self.rows())


@dataclass(frozen=True, repr=False)
class Text(Prediction):
    """Generated text, with the score that ranked it and the log-probability of each token, the end included.

    finish_reason: "end", or "length" if the output was cut. alternatives: the next best outputs.
    """

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finish_reason: str
    alternatives: tuple[Text, ...] = ()
    headings = ("source", "output", "score", "probability")

    @property
    def value(self) -> str:
        return self.text

    @property
    def probability(self) -> float:
        """Probability of the whole output."""
        return math.exp(self.log_prob)

    @property
    def complete(self) -> bool:
        return self.finish_reason == "end"

    @property
    def output_tokens(self) -> int:
        return len(self.token_scores)

    def details(self) -> dict[str, Any]:
        return {"log_prob": self.log_prob, "finish_reason": self.finish_reason}

    @property
    def all(self) -> tuple[Text, ...]:
        return (self, *self.alternatives)

    def to_json(self) -> dict[str, Any]:
        others, output = [other._output_json() for other in self.alternatives], self._output_json()
        return {"source": self.source, **output, "reading": self.reading.to_json(), "alternatives": others}

    def _output_json(self) -> dict[str, Any]:
        scores = {"output": self.text, "score": self.score, "log_prob": self.log_prob}
        tokens = {"tokens": list(self.tokens), "token_scores": list(self.token_scores)}
        return {**scores, **tokens, "finish_reason": self.finish_reason}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        parts = [f"“{_short(self.text)}” for “{_short(self.source)}”", f"probability {self.probability:.3f}"]
        parts += [] if self.complete else [f"cut: {self.finish_reason}"]
        parts += [pluralize(len(self.alternatives), "alternative")] if self.alternatives else []
        return f"<Text: {', '.join(parts)}>"

    def rows(self) -> Iterator[list[Cell]]:
        read = self.reading.tokens - self.reading.unread
        cut = f" (only the first {read:,} of {self.reading.tokens:,} tokens)" if self.reading.unread else ""
        source = Cell(_short(self.source) + cut, html.escape(self.source.replace("\t", "\\t")) + cut)
        for output in self.all:
            numbers = (f"{output.score:.3f}", f"{output.probability:.3f}")
            cells = (Cell(number, number, number=True) for number in numbers)
            yield [source, Cell(_short(output.text), output._shaded()), *cells]
            source = Cell("", "")

    def _shaded(self) -> str:
        """Return the tokens as HTML: the less probable a token, the darker its background."""
        spans = []
        for token, score in zip(self.tokens, self.token_scores, strict=False):  # the end has no text
            chance = math.exp(score)
            style = f"background: rgba({UNSURE}, {0.8 * (1 - chance):.2f}); white-space: pre-wrap"
            spans.append(f'<span title="{chance:.3f}" style="{style}">{html.escape(token)}</span>')
        end = "" if self.finish_reason == "end" else " …"
        return f'<span title="{html.escape(self.text)}">{"".join(spans)}{end}</span>'


@dataclass(frozen=True, repr=False)
class Label(Prediction):
    """The most probable label. probabilities: of every label, the highest first. unsure: the probability is
    below the threshold that was chosen on validation data.
    """

    label: str
    probabilities: Mapping[str, float]
    unsure: bool = False
    headings = ("source", "label", "probability", "next")

    @property
    def value(self) -> str:
        return self.label

    @property
    def probability(self) -> float:
        return self.probabilities[self.label]

    def details(self) -> dict[str, Any]:
        return {"log_prob": math.log(max(self.probability, 1e-300)), "unsure": self.unsure}

    def to_json(self) -> dict[str, Any]:
        shown = {label: round(probability, 6) for label, probability in self.probabilities.items()}
        answer = {"output": self.label, "label": self.label, "probabilities": shown, **self.details()}
        return {"source": self.source, **answer, "reading": self.reading.to_json()}

    def __str__(self) -> str:
        return self.label

    def rows(self) -> Iterator[list[Cell]]:
        others = list(islice(self.probabilities.items(), 1, 3))
        following = ", ".join(f"{label} {probability:.3f}" for label, probability in others)
        label = f"{self.label} (unsure)" if self.unsure else self.label
        texts = (_short(self.source), _short(label), f"{self.probability:.3f}", _short(following))
        yield [Cell(text, html.escape(text), number=i == 2) for i, text in enumerate(texts)]


class TagSequence(tuple[str, ...]):
    """The tags of a sentence; as a text, separated by spaces."""

    def __str__(self) -> str:
        return " ".join(self)


@dataclass(frozen=True, repr=False)
class Tags(Prediction):
    """Words, the tag of each, and its probability. in_column: the input has a word on each line, and so has
    the output for a terminal and a file.
    """

    tokens: tuple[str, ...]
    tags: TagSequence
    probabilities: tuple[float, ...]
    in_column: bool = False
    headings = ("tokens", "tags", "least probable")

    @property
    def value(self) -> TagSequence:
        return self.tags

    @property
    def output_tokens(self) -> int:
        return len(self.tags)

    def details(self) -> dict[str, Any]:
        return {"log_prob": sum(math.log(max(chance, 1e-300)) for chance in self.probabilities)}

    def to_json(self) -> dict[str, Any]:
        answer = {"tokens": list(self.tokens), "tags": list(self.tags)}
        chances = {"probabilities": [round(chance, 6) for chance in self.probabilities], **self.details()}
        return {
            "source": self.source,
            "output": str(self.tags),
            **answer,
            **chances,
            "reading": self.reading.to_json(),
        }

    def __str__(self) -> str:
        if not self.in_column:
            return str(self.tags)
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(self.tokens, self.tags, strict=True))

    def rows(self) -> Iterator[list[Cell]]:
        least = f"{min(self.probabilities, default=1.0):.3f}"
        texts = (_short(self.source), _short(str(self.tags)), least)
        shaded = (html.escape(self.source), self._shaded(), least)
        yield [
            Cell(text, page, number=i == 2) for i, (text, page) in enumerate(zip(texts, shaded, strict=True))
        ]

    def _shaded(self) -> str:
        """Return the tags as HTML: the less probable a tag, the darker its background."""
        spans = []
        for word, tag, chance in zip(self.tokens, self.tags, self.probabilities, strict=True):
            style = f"background: rgba({UNSURE}, {0.8 * (1 - chance):.2f})"
            title = html.escape(f"{word} {chance:.3f}")
            spans.append(f'<span title="{title}" style="{style}">{html.escape(tag)}</span>')
        return " ".join(spans)


P = TypeVar("P", bound=Prediction)


class Predictions(list[P]):
    """List of predictions, all of one type, in the order of their inputs. It is shown as a table."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> P: ...
    @overload
    def __getitem__(self, place: slice) -> Predictions[P]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> P | Predictions[P]:
        found = super().__getitem__(place)
        return Predictions(found) if isinstance(found, list) else found

    @property
    def values(self) -> list[Any]:
        return [prediction.value for prediction in self]

    @property
    def texts(self) -> list[str]:
        return [str(prediction) for prediction in self]

    def __repr__(self) -> str:
        from rich.cells import cell_len

        if not self:
            return "no predictions"
        rows, rest = self._table()
        head = zip(self[0].headings, rows[0], strict=True)
        table = [[cell._replace(text=heading) for heading, cell in head], *rows]
        widths = [max(cell_len(cell.text) for cell in column) for column in zip(*table, strict=True)]

        def padded(cell: Cell, width: int) -> str:
            padding = " " * (width - cell_len(cell.text))
            return padding + cell.text if cell.number else cell.text + padding

        return "\n".join([*("  ".join(map(padded, row, widths)) for row in table), *rest])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        rows, rest = self._table()
        return "<br>".join([_html_table(self[0].headings if self else (), rows), *rest])

    def _table(self) -> tuple[list[list[Cell]], list[str]]:
        """Return the first rows, and a line that counts the predictions that are not among them."""
        rows: list[list[Cell]] = []
        for count, prediction in enumerate(self):
            if len(rows) >= SHOWN:
                return rows[:SHOWN], [f"… and {len(self) - count:,} more"]
            rows += prediction.rows()
        return rows[:SHOWN], []


def _html_table(headings: Iterable[str], rows: Iterable[Iterable[Cell]]) -> str:
    lines = ["".join(f"<th>{heading}</th>" for heading in headings)]
    lines += ["".join(f"<td>{cell.html}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _short(text: str) -> str:
    """Escape what would move the cursor and cut the text to WIDEST terminal cells."""
    from rich.cells import cell_len, set_cell_size

    shown = visible(text[: 4 * WIDEST])
    return shown if cell_len(shown) <= WIDEST else set_cell_size(shown, WIDEST - 1).rstrip() + "…"

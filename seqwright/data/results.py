"""An output with all that is known of it, and how it shows itself: as text, as JSON, in a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, SupportsIndex, overload

from seqwright.data.text_display import amount

SHOWN = 50  # rows of a table for people
HEAD = ("source", "output", "score", "probability")
WIDEST = 48  # cells of the terminal that a text takes in it
UNSURE = "214, 120, 20"  # the colour behind a token, the stronger the less probable it was


@dataclass(frozen=True)
class Reading:
    """What became of a source: its tokens, those among them that the tokenizer does not know, and those at
    its end that the model did not read because there were too many.
    """

    tokens: int = 0
    unknown: int = 0
    unread: int = 0


@dataclass(frozen=True, repr=False)
class Prediction:
    """An output: its text, the score it was ranked by, and the log-probability of each of its tokens, the end
    included.

    finish_reason: "end", or "length" if it was cut. alternatives: the next best ones.
    """

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finish_reason: str
    source: str = ""
    reading: Reading = Reading()
    alternatives: tuple[Prediction, ...] = ()

    @property
    def probability(self) -> float:
        """Of the whole output."""
        return math.exp(self.log_prob)

    @property
    def all(self) -> tuple[Prediction, ...]:
        """This one and the next best ones."""
        return (self, *self.alternatives)

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            **self._output_json(),
            "reading": asdict(self.reading),
            "alternatives": [other._output_json() for other in self.alternatives],
        }

    def _output_json(self) -> dict[str, Any]:
        return {
            "output": self.text,
            "score": self.score,
            "log_prob": self.log_prob,
            "tokens": list(self.tokens),
            "token_scores": list(self.token_scores),
            "finish_reason": self.finish_reason,
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        parts = [f"“{_short(self.text)}” for “{_short(self.source)}”", f"probability {self.probability:.3f}"]
        if self.finish_reason != "end":
            parts.append(f"cut: {self.finish_reason}")
        if self.alternatives:
            parts.append(amount(len(self.alternatives), "alternative"))
        return f"<Prediction: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        rows = [[each._shaded(), *each._numbers()] for each in self.all]
        return _html_table([self._source_html(), *HEAD[2:]], rows)

    def _numbers(self) -> tuple[str, str]:
        return f"{self.score:.3f}", f"{self.probability:.3f}"

    def _shaded(self) -> str:
        """The tokens side by side, each the darker the less probable it was, which is its title."""
        spans = []
        for token, score in zip(self.tokens, self.token_scores, strict=False):  # the end has no text
            chance = math.exp(score)
            style = f"background: rgba({UNSURE}, {0.8 * (1 - chance):.2f}); white-space: pre-wrap"
            spans.append(f'<span title="{chance:.3f}" style="{style}">{html.escape(token)}</span>')
        end = "" if self.finish_reason == "end" else " …"
        return f'<span title="{html.escape(self.text)}">{"".join(spans)}{end}</span>'

    def _source_html(self) -> str:
        return html.escape(self.source.replace("\t", "\\t")) + self._remark()

    def _remark(self) -> str:
        """What a reader must know: a source of which only the beginning was read."""
        read = self.reading.tokens - self.reading.unread
        return f" (only the first {read:,} of {self.reading.tokens:,} tokens)" if self.reading.unread else ""


class Predictions(list[Prediction]):
    """Predictions in the order of their sources; a list that shows itself as a table."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Prediction: ...
    @overload
    def __getitem__(self, place: slice) -> Predictions: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Prediction | Predictions:
        found = super().__getitem__(place)
        return Predictions(found) if isinstance(found, list) else found

    @property
    def texts(self) -> list[str]:
        return [prediction.text for prediction in self]

    def __repr__(self) -> str:
        from rich.cells import cell_len

        rows = [HEAD]
        for first, one in self._rows():
            source = _short(first.source) + first._remark() if one is first else ""
            rows.append((source, _short(one.text), *one._numbers()))
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            room = [" " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
            texts, numbers = zip(row[:2], room, strict=False), zip(room[2:], row[2:], strict=True)
            lines.append("  ".join(left + right for left, right in (*texts, *numbers)))
        return "\n".join([*lines, *self._rest()])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        rows = [
            [first._source_html() if one is first else "", one._shaded(), *one._numbers()]
            for first, one in self._rows()
        ]
        return "<br>".join([_html_table(HEAD, rows), *self._rest()])

    def _rows(self) -> list[tuple[Prediction, Prediction]]:
        """The outputs of a table, each with the best one for its source."""
        return [(first, one) for first in self[:SHOWN] for one in first.all][:SHOWN]

    def _rest(self) -> list[str]:
        left = len(self) - sum(one is first for first, one in self._rows())
        return [f"… and {left:,} more"] if left else []


def _html_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells are HTML already."""
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _short(text: str) -> str:
    """For one line of a terminal: nothing that would move the cursor, and no more than fits."""
    from rich.cells import cell_len, set_cell_size

    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text[: 4 * WIDEST]
    )
    return shown if cell_len(shown) <= WIDEST else set_cell_size(shown, WIDEST - 1).rstrip() + "…"

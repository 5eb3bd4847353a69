"""A readout: one input that a model reads at once, with the predictions that are read off its scores.

A classifier predicts one label, a tagger one tag per word, a language model the token after each token. Tasks
without a search describe an input to the lens in this form (`Task.readout`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqwright.errors import InputError
from seqwright.lens.heads.gates import Side
from seqwright.models import Model

NEXT = "next"  # `special` of the piece after a given text, which the model predicts
Pieces = Mapping[str, Any]  # {"text", "pieces", "words"} of docs/trace.md


class Pooled(NamedTuple):
    """How a trace shows the weights of an attention pooling: its kind, a title, and the axes of both sides.

    places (rows, width): the column of each recorded weight, −1 for padding; None: weight j is column j.
    """

    kind: str
    title: str
    rows: str
    columns: str
    places: np.ndarray | None = None

    @property
    def axes(self) -> dict[str, str]:
        return {"title": self.title, "rows": self.rows, "columns": self.columns}

    def spread(self, weights: np.ndarray, columns: int) -> np.ndarray:
        """Recorded weights (rows, width) -> (rows, columns)."""
        if self.places is None:
            return weights
        found = np.zeros((len(weights), columns), weights.dtype)
        rows, places = np.nonzero(self.places >= 0)
        found[rows, self.places[rows, places]] = weights[rows, places]
        return found


HEAD_POOLING = {"head.pooling": Pooled("pool", "Attention pooling", "steps", "source")}


@dataclass(frozen=True)
class Readout:
    """One input and its predictions.

    batch: this input alone, with the predictions as `expected`. source: the pieces that the encoder reads,
    None without an encoder. output: the pieces of the predictions, one per step; `given` if they are those of
    the input. symbol: the text of the id of a prediction. names: what "source", "output", a "step" and a
    "symbol" are called. scored: the rows of the model's scores in which the steps are, None: all.
    temperature: divides the scores. allowed (T, V): False for symbols that are never predicted, None: all
    are. axes: further axes by name, pieces with a "name". pooled: attention poolings by their name in the
    model. embedded: the place of each piece of the source among the embedded tokens of the encoder, None: the
    same. decoded: the decoder reads the output, which was searched for. prompted: it reads the source before
    it, as the beginning of one sequence. image: of a source that is one, with the grid of its cells, which
    are the last pieces of the source. kinds: attentions of a model with other axes than usual. neighbours:
    what is near the source, for a model that retrieves (`lens.neighbours`).
    """

    batch: Any
    text: str
    source: Pieces | None
    output: Pieces
    symbol: Callable[[int], str]
    names: Mapping[str, str]
    scored: Sequence[int] | None = None
    temperature: float = 1.0
    allowed: np.ndarray | None = None
    axes: Mapping[str, Pieces] = field(default_factory=dict)
    pooled: Mapping[str, Pooled] = field(default_factory=lambda: HEAD_POOLING)
    embedded: Sequence[int] | None = None
    decoded: bool = False
    prompted: bool = False
    image: Mapping[str, Any] | None = None
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    neighbours: Mapping[str, Any] | None = None

    @property
    def tokens(self) -> list[int]:
        """The ids of the predictions (T,)."""
        return [piece["id"] for piece in self.output["pieces"]]

    @property
    def given(self) -> bool:
        """Whether the output is the input itself, whose tokens are predicted."""
        return bool(self.output.get("given"))

    @property
    def spans(self) -> list[tuple[int, int] | None]:
        """The span in the text of each token that the model reads; None for marks."""
        pieces = [None, *self.output["pieces"][:-1]] if self.source is None else self.source["pieces"]
        return [None if p is None or p["start"] == p["end"] else (p["start"], p["end"]) for p in pieces]

    def count(self, axis: str) -> int:
        """The number of items on an axis."""
        own = {"source": self.source, "steps": self.output, **self.axes}[axis]
        return 0 if own is None else len(own["pieces"])

    @property
    def prompt(self) -> int:
        """The number of tokens that the decoder reads before the output."""
        return self.count("source") if self.prompted else 0

    @property
    def lengths(self) -> dict[Side, int]:
        """The number of tokens that the encoder or the decoder reads."""
        if self.prompted:
            return {"decoder": self.prompt + len(self.tokens)}
        read: dict[Side, int] = {} if self.source is None else {"encoder": len(self.source["pieces"])}
        return read | ({"decoder": len(self.tokens)} if self.source is None or self.decoded else {})

    def logits(self, model: Model, rows: int = 1) -> Tensor:
        """The scores of the steps, for as many copies of the input as `rows`: (rows, T, V)."""
        scores = model(repeated(self.batch, rows)).float() / self.temperature
        scores = scores[:, None] if scores.dim() == 2 else scores
        scores = scores if self.scored is None else scores[:, list(self.scored)]
        if self.allowed is None:
            return scores
        return scores.masked_fill(~torch.from_numpy(self.allowed).to(scores.device), -torch.inf)


@dataclass(frozen=True)
class Retrieval(Readout):
    """The readout of a retrieval, whose one symbol is a text of the index. vectors (N, D): of the texts."""

    vectors: np.ndarray = field(kw_only=True)

    def logits(self, model: Any, rows: int = 1) -> Tensor:
        """The score of every text, scale · cosine: (rows, 1, N)."""
        vectors = model.source_vectors(repeated(self.batch.source, rows))
        return (model.scale * vectors @ torch.from_numpy(self.vectors).to(vectors).T).float()[:, None]


def by_parts(readout: Readout, lengths: Sequence[int], name: str, *, upper: str = "head.pooling") -> Readout:
    """The readout of a source that a hierarchical encoder reads in parts of these lengths, called `name`.

    The parts are a further axis. The encoder pools the tokens of each part, and `upper` the parts.
    """
    assert readout.source is not None
    pieces, ends = readout.source["pieces"], np.cumsum(lengths).tolist()
    width = max(lengths)
    places = np.full((len(lengths), width), -1)
    spans = []
    for row, (end, count) in enumerate(zip(ends, lengths, strict=True)):
        places[row, :count] = range(end - count, end)
        start, stop = pieces[end - count]["start"], pieces[end - 1]["end"]
        spans.append({"text": readout.text[start:stop], "start": start, "end": stop, "word": None})
    return replace(
        readout,
        axes={name: {"name": name, "text": readout.text, "pieces": spans, "words": []}},
        pooled={
            "encoder.pooling": Pooled("words", f"Words of the {name}", name, "source", places),
            upper: Pooled(name, f"Attention to {name}", "steps", name),
        },
        embedded=np.flatnonzero(places.flatten() >= 0).tolist(),
    )


def repeatable(value: Any) -> bool:
    """Whether all tensors of a batch of one row have one row, so that `repeated` can repeat it."""
    if isinstance(value, Tensor):
        return len(value) == 1
    if is_dataclass(value) and not isinstance(value, type):
        return all(repeatable(getattr(value, one.name)) for one in fields(value))
    return True


def repeated(value: Any, rows: int) -> Any:
    """A batch of one row as a batch of `rows` equal rows."""
    if rows == 1:
        return value
    if isinstance(value, Tensor):
        return value.expand(rows, *value.shape[1:])
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: repeated(getattr(value, one.name), rows) for one in fields(value)})
    return np.repeat(value, rows, 0) if isinstance(value, np.ndarray) else value


def check_text(text: str, tokens: int = 0, longest: int = 0) -> None:
    """Refuse a text that cannot be traced: a blank one, or one of more tokens than the model reads."""
    if not text or text.isspace():
        raise InputError(f"the text {text!r} is blank; a trace needs a text")
    if tokens > longest:
        limit = f"the model reads at most {longest:,}"
        raise InputError(f"the text has {tokens:,} tokens, and {limit}; shorten it")

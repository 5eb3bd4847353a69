"""Conversations as the lens shows them: the turns of the context, and the reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.data.fields import FIELD
from seqwright.data.tokenizer import BEGIN, Tokenizer
from seqwright.tasks.bases.reply_index import ReplyIndex

if TYPE_CHECKING:
    from seqwright.lens.neighbours import Vectors
    from seqwright.lens.trace.readout import Readout
    from seqwright.search import Hypothesis

TURNS = "turns"
NEAR = 10  # replies that a retrieval is compared with
NAMES = {"source": "context", "output": "reply"}
TO_TURNS = {"cross": {"title": "Attention to turns", "rows": "steps", "columns": TURNS}}


@dataclass(frozen=True)
class ReadContext:
    """The part of a context that is read: its text with markers between turns, its ids and their pieces.

    unread: the number of earlier tokens.
    """

    text: str
    ids: list[int]
    pieces: list[dict[str, Any]]
    words: list[dict[str, Any]]
    unread: int

    @property
    def turns(self) -> tuple[str, ...]:
        start = self.pieces[0]["start"] if self.pieces else 0
        return tuple(turn for turn in self.text[start:].split(FIELD) if turn.strip())

    @property
    def unmarked(self) -> list[dict[str, Any]]:
        """The pieces without the markers between turns, as a hierarchical encoder reads them."""
        return [piece for piece in self.pieces if piece["text"] != FIELD]

    @property
    def lengths(self) -> list[int]:
        """The number of pieces of each turn, without markers."""
        counts = [0]
        for piece in self.pieces:
            if piece["text"] == FIELD:
                counts.append(0)
            else:
                counts[-1] += 1
        return [count for count in counts if count]


def read_context(tokenizer: Tokenizer, turns: Sequence[str], count: int) -> ReadContext:
    """Return the last `count` tokens of a context."""
    from seqwright.lens.trace.pieces import piece_entries

    text = FIELD.join(turns)
    ids = tokenizer.encode(text)
    first = len(ids) - count
    found = piece_entries(text, ids[first:], tokenizer.pieces(text)[first:], ended=False)
    return ReadContext(text, ids[first:], found["pieces"], found["words"], first)


def reply_readout(
    task: Any, model: Any, context: ReadContext, source: Any, reply: str | None, found: Hypothesis | None
) -> Readout:
    """Return the readout of a reply: a given one, or the hypothesis that was found."""
    import torch

    from seqwright.data.batch import Batch, Segments, Tokens
    from seqwright.lens.heads.gates import sides
    from seqwright.lens.trace import steps
    from seqwright.lens.trace.pieces import symbol_text, text_pieces
    from seqwright.lens.trace.readout import Pooled, Readout, by_parts

    tokenizer: Tokenizer = task.source
    if found is None:
        output = {"text": reply or "", **text_pieces(tokenizer, reply or "")}
    else:
        output = steps.output(task, found)
    ids = [piece["id"] for piece in output["pieces"]]
    read, expected = torch.tensor([[BEGIN, *ids[:-1]]]), torch.tensor([ids])
    readout = Readout(
        Batch(source, Tokens(read), expected, np.zeros(1, np.int64)),
        context.text,
        _source(context, segmented=isinstance(source, Segments)),
        output,
        partial(symbol_text, tokenizer),
        NAMES,
        decoded=True,
        prompted="encoder" not in sides(model),
    )
    if not isinstance(source, Segments):
        return replace(readout, axes=_turns(context))
    by_turn = by_parts(readout, context.lengths, TURNS)
    at_each_step = {"decoder.attention.words": Pooled("words", "Words of the turns", "steps", "source")}
    return replace(by_turn, kinds=TO_TURNS, pooled={**by_turn.pooled, **at_each_step})


def retrieval_readout(
    context: ReadContext, source: Any, index: ReplyIndex, vectors: Vectors, reply: str | None
) -> Readout:
    """Return the readout of a retrieved reply, the nearest one if none is given, with others near it."""
    import torch

    from seqwright.data.batch import HeadBatch, Segments
    from seqwright.lens.neighbours import Neighbour, neighbours
    from seqwright.lens.trace.pieces import joined_entries
    from seqwright.lens.trace.readout import HEAD_POOLING, Retrieval, by_parts

    ((best, *others), *_), _ = index.nearest(vectors([context.turns]), NEAR)
    chosen = index.texts.index(reply) if reply in index.texts else int(best)
    near = list(dict.fromkeys([chosen, int(best), *map(int, others)]))[: max(NEAR, 1)]
    contexts = index.contexts or ((),) * len(index.texts)
    candidates = [Neighbour(n, index.texts[n], index.vectors[n], contexts[n]) for n in near]
    segmented = isinstance(source, Segments)
    readout = Retrieval(
        HeadBatch(source, torch.tensor([chosen]), np.zeros(1, np.int64), 1),
        context.text,
        _source(context, segmented=segmented),
        joined_entries([chosen], [index.texts[chosen]]),
        index.texts.__getitem__,
        {**NAMES, "step": "reply", "symbol": "reply"},
        pooled={"pooling": HEAD_POOLING["head.pooling"]},
        neighbours=neighbours(context.turns, candidates, vectors, least=index.least),
        vectors=index.vectors,
    )
    if not segmented:
        return replace(readout, axes=_turns(context))
    return by_parts(readout, context.lengths, TURNS, upper="pooling")


def _source(context: ReadContext, *, segmented: bool) -> dict[str, Any]:
    """The pieces that the encoder reads: flat ones end with the end token, turns do not."""
    from seqwright.lens.trace.pieces import end_piece

    pieces = context.unmarked if segmented else [*context.pieces, end_piece(context.text)]
    return {"pieces": pieces, "words": context.words, "skipped": context.unread}


def _turns(context: ReadContext) -> dict[str, Any]:
    """The turns of a flat context as an axis of the trace."""
    pieces, at = [], 0
    for count in context.lengths:
        own = context.unmarked[at : at + count]
        start, end = own[0]["start"], own[-1]["end"]
        pieces.append({"text": context.text[start:end], "start": start, "end": end, "word": None})
        at += count
    return {TURNS: {"name": TURNS, "text": context.text, "pieces": pieces, "words": []}}

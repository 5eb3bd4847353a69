"""Retrieval: the replies of an index that are nearest to a context, by the vectors of a dual encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.data.plan import cut_by_tokens
from seqwright.data.readers.conversations import Exchange
from seqwright.data.replies import Reply, enough, wrong_replies
from seqwright.data.store import Ragged
from seqwright.data.task import Row
from seqwright.tasks.bases.generated_text import TOKENS
from seqwright.tasks.bases.reply_index import ReplyIndex
from seqwright.tasks.bases.talk_readouts import ReadContext, retrieval_readout

if TYPE_CHECKING:
    from seqwright.lens.trace.readout import Readout

RANKS = (10, 100)  # candidates among which the expected reply is ranked
UNFIT = 0.05  # share of right replies that count as unfit


@dataclass(frozen=True)
class Retriever:
    """A dual encoder, the task whose contexts and replies it compares, and the known replies.

    Without an index, as while the model is trained, the known replies are some of the training split.
    """

    task: Any
    model: Any
    index: ReplyIndex

    @classmethod
    def over(cls, task: Any, model: Any, replies: Mapping[str, tuple[str, ...]]) -> Retriever:
        """Return a retriever that chooses among replies, each with the last turns before it."""
        vectors = reply_vectors(task, model, list(replies))
        return cls(task, model, ReplyIndex(tuple(replies), vectors, contexts=tuple(replies.values())))

    @classmethod
    def of(cls, task: Any, model: Any) -> Retriever:
        if task.index is None:
            return cls.over(task, model, dict.fromkeys(task.pool, ()))
        return cls(task, model, task.index)

    def least(self, examples: Sequence[Exchange]) -> float:
        """Return the cosine that all but a share of the right replies reach."""
        contexts = context_vectors(self.task, self.model, self.task.encode(examples))
        return float(np.quantile((contexts * self._expected(examples)).sum(1), UNFIT))

    def nearest(self, rows: Sequence[Row[Exchange]], nothing: Sequence[Reply], count: int) -> list[Reply]:
        """Return the nearest replies; `nothing` are those to blank contexts, and the beginning of all."""
        contexts = context_vectors(self.task, self.model, rows)
        best, cosines = self.index.nearest(contexts, count)
        scores = float(self.model.scale.detach()) * cosines
        log_probs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        found = []
        for i, (row, empty) in enumerate(zip(rows, nothing, strict=True)):
            shown = [
                replace(
                    empty,
                    text=self.index.texts[n],
                    score=float(cosines[i, n]),
                    log_prob=float(log_probs[i, n]),
                    fits=bool(cosines[i, n] >= self.index.least),
                )
                for n in best[i].tolist()
            ]
            first = empty if self.task.is_blank(row.example) else shown[0]
            found.append(replace(first, alternatives=tuple(shown[1:])))
        return found

    def ranks(self, rows: Sequence[Row[Exchange]], numbers: Iterable[int]) -> list[dict[int, int]]:
        """Return the place of each expected reply among so many candidates, for those of `RANKS` for which
        there are enough replies.
        """
        counts = enough(self.task.pool, RANKS)
        if not counts:
            return [{} for _ in rows]
        contexts = context_vectors(self.task, self.model, rows)
        right = self._expected([row.example for row in rows])
        found = []
        for row, number, context, expected in zip(rows, numbers, contexts, right, strict=True):
            wrong = wrong_replies(self.task.pool, row.example.reply or "", number, max(counts) - 1)
            alike, own = self.index.vectors_of(wrong) @ context, expected @ context
            found.append({count: 1 + int((alike[: count - 1] >= own).sum()) for count in counts})
        return found

    def _expected(self, examples: Sequence[Exchange]) -> np.ndarray:
        return reply_vectors(self.task, self.model, [example.reply or "" for example in examples])

    def readout(self, context: ReadContext, reply: str | None) -> Readout:
        """Return the readout of a reply, the nearest one if none is given."""

        def vectors(contexts: Sequence[tuple[str, ...]]) -> np.ndarray:
            rows = self.task.encode([*self.task.inputs(contexts)])
            return context_vectors(self.task, self.model, rows)

        source = self.task.source_of(Ragged.of([context.ids]))
        return retrieval_readout(context, source, self.index, vectors, reply)


def context_vectors(task: Any, model: Any, rows: Sequence[Row[Exchange]]) -> np.ndarray:
    """Return the vectors of contexts, of length 1 (N, D) float32."""
    limit = task.input_limit(model)
    ids = [task.read_part(row.columns["source"], limit) for row in rows]
    return _vectors(model, model.source_vectors, task.source_of, ids)


def reply_vectors(task: Any, model: Any, replies: Sequence[str]) -> np.ndarray:
    from seqwright.data.batch import padded

    ids = task.source.encode_batch(list(replies))
    return _vectors(model, model.target_vectors, lambda rows: padded(rows, begin=True), ids)


def _vectors(
    model: Any, encode: Callable[[Any], Any], read: Callable[[Ragged], Any], ids: Sequence[Any]
) -> np.ndarray:
    """Encode texts in batches of similar length."""
    from seqwright.models import evaluating

    found: dict[int, np.ndarray] = {}
    lengths = [len(each) + 1 for each in ids]
    with evaluating(model):
        for numbers in cut_by_tokens(sorted(range(len(ids)), key=lengths.__getitem__), lengths, TOKENS):
            vectors = encode(read(Ragged.of([ids[i] for i in numbers])))
            found |= zip(numbers, vectors.float().numpy(), strict=True)
    return np.stack([found[i] for i in range(len(ids))])

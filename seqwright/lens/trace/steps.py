"""What was said and what could have been: steps, hypotheses and the lattice as a trace tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import BEGIN, END, Batch, Tokens
from seqwright.lens.trace.packing import pack
from seqwright.lens.trace.pieces import target_pieces, text_pieces
from seqwright.models import Model
from seqwright.search import Hypothesis, Lattice
from seqwright.tasks.text_to_text import TextToText

STORED = 50  # logits of a step
SHOWN = 20  # of them also as log-probabilities


@dataclass(frozen=True)
class Said:
    """One way along a source: the ids that the encoder reads, and those that are said, the end included."""

    source: list[int]
    tokens: list[int]

    @classmethod
    def of(cls, row: Sequence[int], tokens: Sequence[int], *, ended: bool = True) -> Said:
        return cls([*row, END], [*tokens, END] if ended else list(tokens))

    @property
    def prefix(self) -> list[int]:
        """What the decoder reads."""
        return [BEGIN, *self.tokens[:-1]]

    def batch(self, rows: int = 1) -> Batch:
        """The same way once, or in several rows."""
        source, prefix, expected = (
            torch.tensor(ids).expand(rows, -1) for ids in (self.source, self.prefix, self.tokens)
        )
        return Batch(Tokens(source), Tokens(prefix), expected, np.zeros(rows, np.int64))


def log_probs(model: Model, said: Said) -> Tensor:
    """Of all symbols at each step (T, V)."""
    with torch.inference_mode():
        return model(said.batch())[0].float().log_softmax(-1)


def steps(
    logits: Tensor, tokens: Sequence[int], shares: Sequence[float] | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The steps (T) of a trace and their packed logits. logits (T, V)."""
    best = logits.topk(min(STORED, logits.shape[1]))
    total = logits.logsumexp(-1)  # (T,)
    scores = logits - total[:, None]
    chosen = torch.tensor(tokens)[:, None]
    rest = logits.scatter(1, best.indices, -torch.inf).logsumexp(-1)
    columns = {  # (T,) each
        "log_prob": scores.gather(1, chosen)[:, 0].tolist(),
        "entropy": (-(scores.exp() * scores).nan_to_num(0.0).sum(-1)).tolist(),
        "total": total.tolist(),
        "source_share": [None] * len(tokens) if shares is None else shares,
    }
    ranks = (1 + (logits > logits.gather(1, chosen)).sum(1)).tolist()
    told = [
        {
            "id": tokens[t],
            "rank": ranks[t],
            **{name: rounded(column[t]) for name, column in columns.items()},
            "rest": rounded(float(rest[t])) if best.indices.shape[1] < logits.shape[1] else None,
            "top": [
                [number, rounded(value - columns["total"][t])]
                for number, value in zip(
                    best.indices[t, :SHOWN].tolist(), best.values[t, :SHOWN].tolist(), strict=True
                )
            ],
        }
        for t in range(len(tokens))
    ]
    ids, values = best.indices.int().numpy(), best.values.numpy()
    return told, {"ids": pack(ids), "values": pack(values)}


def output(task: TextToText, best: Hypothesis) -> dict[str, Any]:
    text = task.text(best.tokens)
    return {
        "text": text,
        **target_pieces(task.target, best.tokens, text, ended=best.finish_reason == "end"),
        "finish_reason": best.finish_reason,
        "log_prob": rounded(best.log_prob),
        "score": rounded(best.score),
    }


def hypothesis(task: TextToText, found: Hypothesis) -> dict[str, Any]:
    return {
        "text": task.text(found.tokens),
        "ids": list(found.tokens),
        "log_prob": rounded(found.log_prob),
        "score": rounded(found.score),
        "token_scores": [rounded(score) for score in found.token_scores],
        "finish_reason": found.finish_reason,
    }


def judged(model: Model, task: TextToText, text: str, said: Said) -> dict[str, Any]:
    """What the model makes of a given output: its probability, and the rank of each of its tokens."""
    scores = log_probs(model, said)
    chosen = scores.gather(1, torch.tensor(said.tokens)[:, None])  # (T, 1)
    return {
        "text": text,
        **text_pieces(task.target, text),
        "log_prob": rounded(float(chosen.sum())),
        "token_scores": [rounded(score) for score in chosen[:, 0].tolist()],
        "ranks": (1 + (scores > chosen).sum(1)).tolist(),
    }


def columns(lattice: Lattice) -> dict[str, Any]:
    """The candidates of a beam search by column; fates and reasons as places in lists of them."""
    candidates = lattice.candidates
    fates = list(dict.fromkeys(one.fate for one in candidates))
    reasons = list(dict.fromkeys(one.reason for one in candidates))
    return {
        "step": [one.step for one in candidates],
        "parent": [one.parent for one in candidates],
        "token": [one.token for one in candidates],
        "log_prob": [rounded(one.log_prob) for one in candidates],
        "score": [rounded(one.score) for one in candidates],
        "fate": [fates.index(one.fate) for one in candidates],
        "reason": [reasons.index(one.reason) for one in candidates],
        "fates": fates,
        "reasons": reasons,
    }


def rounded(value: float | None) -> float | None:
    """A number short enough to read; None for those that JSON cannot say."""
    return None if value is None or not np.isfinite(value) else round(value, 6)

"""Steps, hypotheses and the beam-search lattice as a trace stores them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import BEGIN, END, Batch, Tokens
from seqwright.lens.heads.gates import Side
from seqwright.lens.trace.contract import TextTask
from seqwright.lens.trace.packing import pack
from seqwright.lens.trace.pieces import locate, piece_entries, text_pieces
from seqwright.lens.trace.readout import Readout, repeated
from seqwright.models import Model
from seqwright.search import Hypothesis, Lattice

STORED = 50  # logits per step
SHOWN = 20  # of them also as log-probabilities


@dataclass(frozen=True)
class DecodedPath:
    """The ids of a source and the ids of one output, both with the end token.

    prompted: the decoder reads the source, too, as the beginning of one sequence.
    """

    source: list[int]
    tokens: list[int]
    prompted: bool = False

    @classmethod
    def of(
        cls, row: Sequence[int], tokens: Sequence[int], *, ended: bool = True, prompted: bool = False
    ) -> DecodedPath:
        return cls([*row, END], [*tokens, END] if ended else list(tokens), prompted)

    def instead(self, found: Hypothesis) -> DecodedPath:
        """The path of another output for this source."""
        ended = found.finish_reason == "end"
        return DecodedPath.of(self.source[:-1], found.tokens, ended=ended, prompted=self.prompted)

    @property
    def prompt(self) -> int:
        """The number of tokens that the decoder reads before the output."""
        return len(self.source) if self.prompted else 0

    @property
    def batch(self) -> Batch:
        """A batch of the path alone."""
        lists = (self.source, [BEGIN, *self.tokens[:-1]], self.tokens)
        source, target, expected = (torch.tensor([ids]) for ids in lists)
        return Batch(Tokens(source), Tokens(target), expected, np.zeros(1, np.int64))

    @property
    def lengths(self) -> dict[Side, int]:
        """The number of tokens that the encoder and the decoder read."""
        if self.prompted:
            return {"decoder": self.prompt + len(self.tokens)}
        return {"encoder": len(self.source), "decoder": len(self.tokens)}

    def logits(self, model: Model, rows: int = 1) -> Tensor:
        """The scores of the steps, for as many copies of the path as `rows`: (rows, T, V)."""
        return model(repeated(self.batch, rows)).float()


Path = DecodedPath | Readout


def log_probs(model: Model, path: Path) -> Tensor:
    """Log-probabilities of all symbols at each step (T, V)."""
    with torch.inference_mode():
        return path.logits(model)[0].log_softmax(-1)


def step_entries(
    logits: Tensor, tokens: Sequence[int], source_shares: Sequence[float | None] | None
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
        "source_share": source_shares or [None] * len(tokens),
    }
    ranks = (1 + (logits > logits.gather(1, chosen)).sum(1)).tolist()
    top = [
        [
            [number, rounded(value - sum_)]
            for number, value in zip(ids[:SHOWN], values[:SHOWN], strict=True)
            if value > -math.inf
        ]
        for ids, values, sum_ in zip(best.indices.tolist(), best.values.tolist(), total.tolist(), strict=True)
    ]
    entries = [
        {
            "id": tokens[t],
            "rank": ranks[t],
            **{name: rounded(column[t]) for name, column in columns.items()},
            "rest": rounded(float(rest[t])) if best.indices.shape[1] < logits.shape[1] else None,
            "top": top[t],
        }
        for t in range(len(tokens))
    ]
    return entries, {"ids": pack(best.indices), "values": pack(best.values)}


def output(task: TextTask, best: Hypothesis) -> dict[str, Any]:
    text, ended = task.text(best.tokens), best.finish_reason == "end"
    scores = {"log_prob": rounded(best.log_prob), "score": rounded(best.score)}
    pieces = piece_entries(text, best.tokens, locate(task.target, best.tokens), ended=ended)
    return {"text": text, **pieces, "finish_reason": best.finish_reason, **scores}


def written(
    model: Model, task: TextTask, text: str, path: DecodedPath, known: Sequence[Hypothesis]
) -> Hypothesis:
    """The hypothesis of this text: a known one, or the tokens of the text with their log-probabilities."""
    for one in known:
        if task.text(one.tokens) == text:
            return one
    path = replace(path, tokens=[*task.target.encode(text), END])
    chosen = log_probs(model, path).gather(1, torch.tensor(path.tokens)[:, None])[:, 0].tolist()
    total = math.fsum(chosen)
    return Hypothesis(path.tokens[:-1], chosen, total, total, "end")


def hypothesis(task: TextTask, found: Hypothesis) -> dict[str, Any]:
    return {
        "text": task.text(found.tokens),
        "ids": list(found.tokens),
        "log_prob": rounded(found.log_prob),
        "score": rounded(found.score),
        "token_scores": [rounded(score) for score in found.token_scores],
        "finish_reason": found.finish_reason,
    }


def scored_reference(model: Model, task: TextTask, text: str, path: DecodedPath) -> dict[str, Any]:
    """The probability of a given output, and the rank of each of its tokens."""
    scores = log_probs(model, path)
    chosen = scores.gather(1, torch.tensor(path.tokens)[:, None])  # (T, 1)
    return {
        "text": text,
        **text_pieces(task.target, text),
        "log_prob": rounded(float(chosen.sum())),
        "token_scores": [rounded(score) for score in chosen[:, 0].tolist()],
        "ranks": (1 + (scores > chosen).sum(1)).tolist(),
    }


def lattice_columns(lattice: Lattice) -> dict[str, Any]:
    """The candidates of a beam search by column; fates and reasons are indices into their lists."""
    candidates = lattice.candidates
    fates = list(dict.fromkeys(one.fate for one in candidates))
    reasons = list(dict.fromkeys(one.reason for one in candidates))
    return {
        **{name: [getattr(one, name) for one in candidates] for name in ("step", "parent", "token")},
        **{name: [rounded(getattr(one, name)) for one in candidates] for name in ("log_prob", "score")},
        "fate": [fates.index(one.fate) for one in candidates],
        "reason": [reasons.index(one.reason) for one in candidates],
        "fates": fates,
        "reasons": reasons,
    }


def rounded(value: float | None) -> float | None:
    """A number rounded to six digits; None for values that JSON cannot hold."""
    return None if value is None or not np.isfinite(value) else round(value, 6)

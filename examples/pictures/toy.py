"""The small model of the pictures. It trains on the grammar in less than half a minute. Its attention and its
beam are stored in toy.json, so that the pictures are the same on every machine.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import seqwright
from examples.pictures.grammar import Sentence, sentences
from seqwright.files import encode_json
from seqwright.lens.heads.analysis import HeadTable, analyse
from seqwright.lens.trace.document import Kind, Trace
from seqwright.prediction.predictor import Predictor

FILE = Path(__file__).with_name("toy.json")
ALIGNED, SEARCHED = "the small black dog does not see the white house", "the big dog sleeps"
PAIRS, NEW, BEAM = 3000, 200, 3
DIGITS = 3


@dataclass(frozen=True)
class Candidate:
    """A candidate of the beam search: a word after its parent, and why it was dropped."""

    step: int
    parent: int | None
    word: str
    log_prob: float
    fate: str
    reason: str


@dataclass(frozen=True)
class Toy:
    """The stored facts: the words of one sentence, every attention of its translation, the roles of the
    heads over new sentences, and the beam of another sentence.
    """

    source: list[str]
    output: list[str]
    attention: dict[Kind, list[list[list[float]]]]  # by kind: head, query, key
    roles: dict[Kind, list[str]]
    right: float  # share of new sentences with a correct translation
    candidates: list[Candidate]


@cache
def toy() -> Toy:
    """Return the stored facts."""
    seen: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return Toy(**seen | {"candidates": [Candidate(**one) for one in seen["candidates"]]})


def write(seen: Toy) -> None:
    FILE.write_bytes(encode_json(asdict(seen)))


def train_and_look() -> Toy:
    """Train the model and return the facts about it."""
    known = sentences(PAIRS, seed=1)
    new = unknown(known)
    with tempfile.TemporaryDirectory() as folder:
        predictor = trained(known, Path(folder) / "toy")
        table = analyse(predictor, [(one.source, one.target) for one in new])
        trace = predictor.look(ALIGNED, ablate=False)
        return Toy(
            source=words(trace, "source"),
            output=words(trace, "output"),
            attention={kind: rounded(trace, kind) for kind in ("enc", "dec", "cross")},
            roles={kind: roles(table, kind) for kind in ("enc", "dec", "cross")},
            right=round(share_right(predictor, new), DIGITS),
            candidates=candidates(predictor.look(SEARCHED, beam=BEAM, ablate=False)),
        )


def unknown(known: list[Sentence]) -> list[Sentence]:
    sources = {one.source for one in known}
    return [one for one in sentences(PAIRS, seed=2) if one.source not in sources][:NEW]


def trained(known: list[Sentence], folder: Path) -> Predictor:
    """Train one layer on each side with four heads: few enough to show each of them.

    The positions and the start of the preset `tiny` need more steps before the attention is sharp.
    """
    model = {"preset": "tiny", "layers": 1, "size": 64, "hidden": 128, "heads": 4, "share": False}
    return seqwright.train(
        [(one.source, one.target) for one in known],
        out=folder,
        steps=500,
        quiet=True,
        threads=1,
        tokenizer={"source": "words", "target": "words"},
        model={**model, "position": "sinusoidal", "zero_start": False},
        training={
            "tokens": 1024,
            "optimizer": {"kind": "adamw", "rate": 3e-3},
            "schedule": {"kind": "linear", "warmup": 50},
            "smoothing": 0.0,  # so that the probabilities are those of the grammar
            "average": 0.98,
            "validations": 1,
        },
    )


def words(trace: Trace, side: str) -> list[str]:
    return [piece["text"].strip() or "end" for piece in trace.document[side]["pieces"]]


def rounded(trace: Trace, kind: Kind) -> list[list[list[float]]]:
    return trace.attention(kind, layer=0).astype(float).round(DIGITS).tolist()


def roles(table: HeadTable, kind: Kind) -> list[str]:
    """Return the role of each head over new sentences, or its confidence."""
    rows = [row for row in table.rows if row.kind == kind]
    return [row.described() if row.role else f"confidence {row.confidence:.2f}" for row in rows]


def share_right(predictor: Predictor, new: list[Sentence]) -> float:
    """Return the share of correct outputs among the sentences with a single possible translation."""
    certain = [one for one in new if "big" not in one.source.split()]
    outputs = predictor.predict([one.source for one in certain])
    return sum(got.text == one.target for got, one in zip(outputs, certain, strict=True)) / len(certain)


def candidates(trace: Trace) -> list[Candidate]:
    lattice, names = trace.document["lattice"], trace.document["symbols"]
    columns = (lattice[name] for name in ("step", "parent", "token", "log_prob", "fate", "reason"))
    return [
        Candidate(
            step,
            parent,
            names[str(token)].strip("⟨⟩ "),
            round(log_prob, DIGITS),
            lattice["fates"][fate],
            lattice["reasons"][reason],
        )
        for step, parent, token, log_prob, fate, reason in zip(*columns, strict=True)
    ]

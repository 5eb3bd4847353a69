"""Whether heads of an encoder follow syntax (Voita et al. 2019, 5.2), by parses that somebody brings.

For a relation and a direction, accuracy is the share of its words whose largest weight is on the related
word. Pieces are put together to words: weights are summed over the pieces of a key, and averaged over those
of a query. The baseline looks at the commonest distance of the relation, always. A head is syntactic where it
is `MARGIN` better.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import torch
from torch import Tensor

from seqwright.data.batch import source_tokens
from seqwright.data.read_report import Tally
from seqwright.data.readers.pairs import read_lines
from seqwright.data.store import Ragged
from seqwright.errors import InputError
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import Head, Place, sites
from seqwright.models import evaluating
from seqwright.prediction.predictor import Predictor

MARGIN = 0.1
RELATIONS = {"nsubj": "nsubj", "obj": "obj", "dobj": "obj", "amod": "amod", "advmod": "advmod"}  # dobj: UD 1
NUMBER = re.compile(r"(\d+)(?:-(\d+)|(\.\d+))?")  # of a word, a range of words, an empty node

Direction = Literal["dependent to head", "head to dependent"]
Asked = tuple[str, Direction]
Span = tuple[int, int]


@dataclass(frozen=True)
class Parse:
    """A sentence: where each word stands in the text, the word that governs it (−1: none), and how."""

    text: str
    spans: tuple[Span, ...]
    governors: tuple[int, ...]
    relations: tuple[str, ...]

    def questions(self) -> Iterator[tuple[Asked, int, int]]:
        """What a head may be asked: a relation with its direction, the word that looks, the word to find."""
        for word, governor in enumerate(self.governors):
            name = RELATIONS.get(self.relations[word])
            if name is None or governor < 0 or self.spans[word] == self.spans[governor]:
                continue
            yield (name, "dependent to head"), word, governor
            yield (name, "head to dependent"), governor, word


@dataclass(frozen=True)
class Relation:
    """How well one head finds one relation. `count` words were asked."""

    name: str
    direction: Direction
    accuracy: float
    baseline: float
    count: int

    @property
    def syntactic(self) -> bool:
        return self.accuracy >= self.baseline + MARGIN


def syntax(predictor: Predictor, parses: Sequence[Parse]) -> dict[Head, tuple[Relation, ...]]:
    """What each head of the encoder finds of each relation that occurs."""
    encoder = [site for site in sites(predictor.model) if site.kind == "enc" and site.attention.heads]
    distances: defaultdict[Asked, Counter[int]] = defaultdict(Counter)
    hits: defaultdict[tuple[Asked, Place], Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.float64))
    for parse in parses:
        looked = _looked_at(predictor, parse)
        for asked, query, wanted in parse.questions():
            distances[asked][wanted - query] += 1
            for site in encoder:
                hits[asked, site.place] = hits[asked, site.place] + (looked[site.name][:, query] == wanted)
    return {
        head: tuple(
            Relation(
                *asked,
                accuracy=float(hits[asked, site.place][head.head]) / counts.total(),
                baseline=max(counts.values()) / counts.total(),
                count=counts.total(),
            )
            for asked, counts in sorted(distances.items())
        )
        for site in encoder
        for head in site.heads
    }


def _looked_at(predictor: Predictor, parse: Parse) -> dict[str, Tensor]:
    """For each attention of the encoder, the word that each word looks at most (H, words)."""
    tokenizer = predictor.task.source
    pieces = tokenizer.pieces(parse.text)
    inside = [[p.start < end and start < p.end for p in pieces] for start, end in parse.spans]
    belongs = torch.tensor(
        [[*row, False] for row in inside], dtype=torch.float32
    )  # (words, S); the end: nobody's
    model: Any = predictor.model
    with evaluating(model), capture(model) as seen:
        model.encoder(source_tokens(Ragged.of([tokenizer.encode(parse.text)])))
    found = {}
    for name, (weights,) in seen.items():
        by_key = weights[0].cpu().float() @ belongs.T  # (H, S, words)
        found[name] = (belongs @ by_key / belongs.sum(1, keepdim=True).clamp(min=1)).argmax(-1)
    return found


def read_conllu(path: str | os.PathLike[str]) -> list[Parse]:
    """The sentences of a CoNLL-U file (https://universaldependencies.org/format.html)."""
    name, numbered = os.fspath(path), enumerate(read_lines(path, Tally()), start=1)
    blocks = (list(lines) for full, lines in groupby(numbered, lambda line: bool(line[1].strip())) if full)
    parses = [_parse(name, block) for block in blocks if any(not line.startswith("#") for _, line in block)]
    if not parses:
        raise InputError(
            f"{name} has no sentences; CoNLL-U has ten columns, and a blank line after a sentence"
        )
    return parses


def _parse(name: str, block: Sequence[tuple[int, str]]) -> Parse:
    rows = [(f"{name}:{number}", line.split("\t")) for number, line in block if not line.startswith("#")]
    for place, row in rows:
        if len(row) != 10 or not NUMBER.fullmatch(row[0]):
            raise InputError(
                f"{place} is no row of CoNLL-U: ten columns with tabs between, the first a number"
            )
    words = [(place, row) for place, row in rows if row[0].isdigit()]
    governors = []
    for place, row in words:
        if not row[6].isdigit() or int(row[6]) > len(words):
            raise InputError(f"{place} is governed by {row[6]!r}, which is no word of the sentence, nor 0")
        governors.append(int(row[6]) - 1)
    given = re.search(r"^# *text *= *(.*)$", "\n".join(line for _, line in block), re.MULTILINE)
    text = given[1].strip() if given else _joined(rows)
    relations = tuple(row[7].partition(":")[0] for _, row in words)
    return Parse(text, _located(text, rows), tuple(governors), relations)


def _surface(rows: Sequence[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str], int]]:
    """The rows that stand in the text, a range such as 3-4 in the place of its words, and how many words each
    is.
    """
    last = 0
    for place, row in rows:
        first, end, empty = NUMBER.fullmatch(row[0]).groups()  # type: ignore[union-attr]
        if not empty and int(first) > last:
            yield place, row, int(end or first) - last
            last = int(end or first)


def _joined(rows: Sequence[tuple[str, list[str]]]) -> str:
    surface = (row[1] + ("" if "SpaceAfter=No" in row[9] else " ") for _, row, _ in _surface(rows))
    return "".join(surface).rstrip()


def _located(text: str, rows: Sequence[tuple[str, list[str]]]) -> tuple[Span, ...]:
    """Where each word stands; the words of a range share its place."""
    spans: list[Span] = []
    end = 0
    for place, row, words in _surface(rows):
        start = text.find(row[1], end)
        if start < 0:
            raise InputError(f"{place}: {row[1]!r} is not in the rest of the sentence, {text[end:]!r}")
        end = start + len(row[1])
        spans += [(start, end)] * words
    return tuple(spans)

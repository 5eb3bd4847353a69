"""Syntactic heads (Voita et al. 2019, 5.2), found with parsed sentences in CoNLL-U: heads of the encoder, or
of a decoder without one, which sees only earlier words.

For a relation and a direction, accuracy is the share of words whose largest weight is on the related word.
Weights between pieces become weights between words: summed over the pieces of a key, averaged over those of a
query. The baseline always chooses the most common offset of the relation. A head is syntactic if it is
`MARGIN` better.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from seqwright.data.batch import source_tokens
from seqwright.data.readers.parses import Parse, Span
from seqwright.data.store import Ragged
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import Head, Kind, LayerKey, sides, sites
from seqwright.lens.trace.contract import TextTask
from seqwright.models import evaluating

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

MARGIN = 0.1
RELATIONS = {"nsubj": "nsubj", "obj": "obj", "dobj": "obj", "amod": "amod", "advmod": "advmod"}  # dobj: UD 1

Direction = Literal["dependent to head", "head to dependent"]
Question = tuple[str, Direction]


def questions(parse: Parse) -> Iterator[tuple[Question, int, int]]:
    """Yield each relation with its direction, the word that attends, and the word to find."""
    for word, governor in enumerate(parse.governors):
        name = RELATIONS.get(parse.relations[word])
        if name is None or governor < 0 or parse.spans[word] == parse.spans[governor]:
            continue
        yield (name, "dependent to head"), word, governor
        yield (name, "head to dependent"), governor, word


@dataclass(frozen=True)
class Relation:
    """The accuracy of one head for one relation, over `count` words."""

    name: str
    direction: Direction
    accuracy: float
    baseline: float
    count: int

    @property
    def syntactic(self) -> bool:
        return self.accuracy >= self.baseline + MARGIN


def syntax(predictor: Predictor, parses: Sequence[Parse]) -> dict[Head, tuple[Relation, ...]]:
    """The accuracy of each self-attention head for each relation that occurs.

    A word that the model does not read to its end asks nothing, nor does a causal head about later words.
    """
    model = predictor.model
    kind: Kind = "enc" if "encoder" in sides(model) else "dec"
    own = [site for site in sites(model) if site.kind == kind and site.attention.heads]
    offsets: defaultdict[Question, Counter[int]] = defaultdict(Counter)
    hits: defaultdict[tuple[Question, LayerKey], Tensor] = defaultdict(lambda: torch.tensor(0.0).double())
    for parse in parses:
        attended, read = _attended(predictor, parse)
        for question, query, wanted in questions(parse):
            if max(query, wanted) >= read or (kind == "dec" and wanted > query):
                continue
            offsets[question][wanted - query] += 1
            for site in own:
                at = question, site.key
                hits[at] = hits[at] + (attended[site.name][:, query] == wanted)
    return {
        head: tuple(
            Relation(
                *question,
                accuracy=float(hits[question, site.key][head.head]) / counts.total(),
                baseline=max(counts.values()) / counts.total(),
                count=counts.total(),
            )
            for question, counts in sorted(offsets.items())
        )
        for site in own
        for head in site.heads
    }


def _attended(predictor: Predictor, parse: Parse) -> tuple[dict[str, Tensor], int]:
    """For each attention, the word with the largest weight of each word (H, words); and how many words are
    read.
    """
    model: Any = predictor.model
    tokens, read = _tokens(predictor, parse.text)
    belongs = torch.tensor(
        [[t is not None and t[0] < end and start < t[1] for t in tokens] for start, end in parse.spans],
        dtype=torch.float32,
    )  # (words, S)
    with evaluating(model), capture(model) as captured:
        read()
    found = {}
    for site in sites(model):
        if site.attention.heads and site.name in captured:
            (weights,) = captured[site.name]
            by_key = weights[0].cpu().float() @ belongs.T  # (H, S, words)
            found[site.name] = (belongs @ by_key / belongs.sum(1, keepdim=True).clamp(min=1)).argmax(-1)
    whole = belongs.any(1).tolist()
    return found, whole.index(False) if False in whole else len(whole)


def _tokens(predictor: Predictor, text: str) -> tuple[list[Span | None], Callable[[], Any]]:
    """The spans of the tokens that the model reads, None for marks, and how to read them."""
    model: Any = predictor.model
    if isinstance(predictor.task, TextTask):
        tokenizer = predictor.task.source
        source = source_tokens(Ragged.of([tokenizer.encode(text)]))
        return [*((p.start, p.end) for p in tokenizer.pieces(text)), None], lambda: model.encoder(source)
    readout = predictor.task.readout(model, next(predictor.task.inputs(text)))
    return readout.spans, lambda: model(readout.batch)

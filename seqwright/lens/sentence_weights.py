"""The weights of both levels of a hierarchical classifier: which sentences it reads, and which words in them.

Figure 5 of Yang et al. 2016 shades a word by √p_s · p_w: its weight p_w within the sentence, scaled down in
sentences of small weight p_s, so that only important words of important sentences stand out (section 3.5).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from seqwright.data.text_display import percent, pluralize
from seqwright.errors import ConfigError, InputError
from seqwright.lens.capture import capture
from seqwright.models import evaluating
from seqwright.runs.report.markup import element

WORDS, SENTENCES = "encoder.pooling", "head.pooling"  # names of the poolings of both levels
RULE = "√p_sentence · p_word"
SENTENCE_COLOUR, WORD_COLOUR = "200, 40, 40", "47, 98, 173"  # red and blue, as in the paper
SHOWN = 3  # words of a sentence that the terminal lists


@dataclass(frozen=True)
class WeightedWord:
    """A word and its weight in its sentence; that of a word of several tokens is their sum."""

    text: str
    weight: float


@dataclass(frozen=True)
class WeightedSentence:
    """A sentence, its weight in the text, and its words, whose weights sum to 1."""

    weight: float
    words: tuple[WeightedWord, ...]

    @property
    def shades(self) -> list[float]:
        """√p_s · p_w of each word."""
        return [math.sqrt(self.weight) * word.weight for word in self.words]


@dataclass(frozen=True)
class SentenceWeights:
    """A text as a hierarchical classifier reads it. unread: tokens beyond its limits."""

    label: str
    probability: float
    sentences: tuple[WeightedSentence, ...]
    unread: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "probability": self.probability,
            "unread": self.unread,
            "shade": RULE,
            "sentences": [
                {
                    "weight": sentence.weight,
                    "words": [
                        {"text": word.text, "weight": word.weight, "shade": shade}
                        for word, shade in zip(sentence.words, sentence.shades, strict=True)
                    ],
                }
                for sentence in self.sentences
            ],
        }

    def __str__(self) -> str:
        """The label, and for each sentence its weight and the words of largest weight."""
        lines = [f"{self.label} ({percent(self.probability, 1)})"]
        for sentence in self.sentences:
            text = " ".join(word.text for word in sentence.words)
            largest = sorted(sentence.words, key=lambda word: -word.weight)[:SHOWN]
            found = ", ".join(f"{word.text} {word.weight:.2f}" for word in largest)
            lines.append(f"  {sentence.weight:.3f}  {text}  [{found}]")
        if self.unread:
            lines.append(f"  {pluralize(self.unread, 'token')} beyond the limits of the model: not read")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A table with a line per sentence: its weight in red, its words in blue."""
        darkest = max((shade for sentence in self.sentences for shade in sentence.shades), default=1.0) or 1.0
        heaviest = max(sentence.weight for sentence in self.sentences) or 1.0
        rows = []
        for sentence in self.sentences:
            title = f"weight of the sentence: {sentence.weight:.4f}"
            red = _background(SENTENCE_COLOUR, sentence.weight / heaviest)
            number = element("td", f"{sentence.weight:.3f}", style=f"{red};text-align:right", title=title)
            words = element("td", *_shaded(sentence, darkest), style="text-align:left")
            rows.append(element("tr", number, words))
        caption = f"{self.label}, {percent(self.probability, 1)}; words are shaded by {RULE}"
        return element("table", element("caption", caption), *rows)


def _shaded(sentence: WeightedSentence, darkest: float) -> Iterator[Any]:
    for word, shade in zip(sentence.words, sentence.shades, strict=True):
        title = f"word {word.weight:.4f} · √{sentence.weight:.4f} = {shade:.4f}"
        yield element("span", word.text, style=_background(WORD_COLOUR, shade / darkest), title=title)
        yield " "


def _background(colour: str, strength: float) -> str:
    return f"background:rgba({colour}, {0.75 * strength:.3f})"


def sentence_weights(predictor: Any, text: str) -> SentenceWeights:
    """Return sentences, words and the weights of both levels, for a classifier that reads sentences."""
    task, model = predictor.task, predictor.model
    if getattr(task, "sentences", None) is None:
        raise ConfigError("the model does not read sentences; train one with model.encoder=hierarchical")
    (row,) = task.encode(list(task.inputs(text)))
    spans = [(part, piece) for part in task.parts(text) for piece in task.tokenizer.pieces(part)]
    if not spans:
        raise InputError(f"the text {text!r} has no words; give a text")
    with capture(model) as seen, evaluating(model):
        model.predictions(task.source([row], row.length))
    if missing := [name for name in (WORDS, SENTENCES) if name not in seen]:
        raise ConfigError(f'{" and ".join(missing)} has no weights; train with pooling = "attention"')
    (words,), (sentences,) = seen[WORDS], seen[SENTENCES]
    found, at = [], 0
    for number, length in enumerate(row.columns["sentences"]):
        weights = words[number, 0, 0, :length].tolist()
        own = tuple(_words(spans[at : at + length], weights))
        found.append(WeightedSentence(float(sentences[0, 0, 0, number]), own))
        at += length
    (answer,) = task.answer(model, [row], None)
    return SentenceWeights(answer.label, answer.probability, tuple(found), answer.reading.unread)


def _words(pieces: Sequence[tuple[str, Any]], weights: Sequence[float]) -> Iterator[WeightedWord]:
    """Join the pieces of each word, which white space ends."""
    text = pieces[0][0]
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    numbered = (
        (bisect_right(ends, piece.start), piece, weight)
        for (_, piece), weight in zip(pieces, weights, strict=True)
    )
    for _, group in groupby(numbered, key=lambda each: each[0]):
        joined = list(group)
        word = text[joined[0][1].start : joined[-1][1].end].strip()
        yield WeightedWord(word, math.fsum(weight for _, _, weight in joined))

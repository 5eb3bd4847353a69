"""How surprising each token of a text is to a language model: numbers, the strangest places, and a page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seqwright.config import Config
from seqwright.data.corpus import Corpus
from seqwright.data.language_results import STRONGEST, Scored, Surprise
from seqwright.data.read_report import ReadReport
from seqwright.data.results import UNSURE
from seqwright.data.text_display import printable
from seqwright.errors import InputError
from seqwright.evaluation.metrics import METRICS
from seqwright.prediction.predictor import Predictor
from seqwright.runs.report.markup import Markup, element, terms
from seqwright.runs.report.page import document

LONGEST = 2_000_000  # characters that are scored token by token
AROUND = 24  # characters shown on each side of a token
SHOWN = 50_000  # tokens on a page
PLACES = 10  # the strangest tokens that are shown
END = "∎"  # the end of a document
NAMES = ("loss", "perplexity", "nats_per_character", "bits_per_character", "bits_per_byte")


LEVELS = 9
SHADES = ".text i { font-style: normal; white-space: pre-wrap } " + " ".join(
    f"i.s{level} {{ background: rgba({UNSURE}, {level / LEVELS:.2f}) }}" for level in range(1, LEVELS + 1)
)


@dataclass(frozen=True)
class Surprising:
    """A text, its tokens with their log-probabilities, and the metrics of a language model for it."""

    name: str
    scored: Scored

    @property
    def metrics(self) -> dict[str, float]:
        value, right = self.scored.value, [[Surprise(self.scored.text)]]
        return {name: METRICS.build(name).measured([value], right).value() for name in NAMES}

    def to_json(self) -> dict[str, Any]:
        return {"text": self.scored.text, **self.scored.to_json(), "metrics": self.metrics}

    def places(self) -> Iterator[tuple[float, str, str, str]]:
        """Yield the strangest tokens first: nats, the text before, the token, and the text after it."""
        tokens, scores = self.scored.tokens, self.scored.token_scores
        order = sorted(range(len(scores)), key=scores.__getitem__)[:PLACES]
        for place in order:
            before = "".join(tokens[max(place - AROUND, 0) : place])[-AROUND:]
            after = "".join(tokens[place + 1 : place + 1 + AROUND])[:AROUND]
            yield -scores[place], before, tokens[place] or END, after

    def __str__(self) -> str:
        """Return the numbers and the strangest tokens, for a terminal."""
        lines = [f"{self.name}: {len(self.scored.tokens):,} tokens"]
        lines += [f"  {title}: {value}" for title, value in self.facts()]
        lines.append("most surprising:")
        for nats, *texts in self.places():
            before, token, after = (printable(text.replace("\n", "␤")) for text in texts)
            lines.append(f"  {nats:5.2f} nats  {before:>{AROUND}}[{token}]{after}")
        return "\n".join(lines)

    def facts(self) -> list[tuple[str, str]]:
        """Return the metrics as titles and values."""
        parts = {name: METRICS.build(name) for name in NAMES}
        return [
            (parts[name].title, f"{value:.{parts[name].decimals}f}{parts[name].unit}")
            for name, value in self.metrics.items()
        ]

    def page(self, model: str) -> str:
        """Return a page with the text, shaded by surprise; a pointer on a token shows its nats."""
        scale = (_token(f" {nats} ", -float(nats)) for nats in range(int(STRONGEST) + 1))
        tokens, scores = self.scored.tokens[:SHOWN], self.scored.token_scores[:SHOWN]
        cut = f" The page shows the first {SHOWN:,} tokens." if len(self.scored.tokens) > SHOWN else ""
        text = (_token(token or END, score) for token, score in zip(tokens, scores, strict=True))
        places = (
            (f"{nats:.2f} nats", element("span", before, element("mark", token), after, class_="text"))
            for nats, before, token, after in self.places()
        )
        return document(
            self.name,
            element("p", f"{model} reads", class_="eyebrow"),
            element("h1", self.name),
            element("style", Markup(SHADES)),
            element("p", f"The darker a token, the less the model expected it.{cut} Nats:"),
            element("p", *scale, class_="text"),
            element("section", element("h2", "Numbers"), terms(self.facts(), "choices")),
            element(
                "section",
                element("h2", "Text"),
                element("div", *text, class_="text"),
            ),
            element("section", element("h2", "Most surprising"), terms(places, "choices")),
        )


def _token(text: str, score: float) -> Markup:
    """Return a token as HTML; a level that is 0 needs no class."""
    level = round(LEVELS * min(-score / STRONGEST, 1.0))
    return element("i", text, class_=f"s{level}" if level else None, title=f"{-score:.2f} nats")


def surprise(predictor: Predictor, given: str) -> Surprising:
    """Score a text with a language model, or the texts in a file or a folder of that name."""
    if not given.strip():
        raise InputError("the text is blank; give a text or the name of a file")
    if not os.path.lexists(given):
        return Surprising("the text", predictor.score(given))
    data = (predictor.config or Config()).data
    reader = Corpus(type(predictor.task), data).reader((given,))
    passages, length = [], 0
    for passage in reader.read(ReadReport()):
        passages.append(passage)
        length += len(passage.text)
        if length > LONGEST:
            raise InputError(
                f"{given} has more than {LONGEST:,} characters; score a part of it, or use evaluate"
            )
    if not passages:
        raise InputError(f"{given} has no text")
    found = predictor.predict(passages, scored=True)
    return Surprising(
        os.path.basename(given) or given,
        Scored(
            "".join(each.text for each in found),
            tuple(token for each in found for token in each.tokens),
            tuple(score for each in found for score in each.token_scores),
            source=given,
        ),
    )

"""Numbers, metrics, models and texts in words, for the page and the card alike."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seqwright.files import uncompressed
from seqwright.config.presets import PINNED, PRESETS
from seqwright.evaluation.text_outputs import metric_label, ItemKind


class Wording(NamedTuple):
    """How a metric is written: its name, its unit, and what one of it means."""

    label: str
    unit: str
    meaning: str


WORDINGS = {
    "exact_match": Wording("exact matches", " %", "of the items are exactly right"),
    "word_error_rate": Wording("word error rate", " %", "of the items are not exactly right"),
    "symbol_error_rate": Wording("symbol error rate", " %", "edits for 100 symbols of the references"),
    "word_edit_rate": Wording("word edit rate", " %", "edits for 100 words of the references"),
    "ter": Wording("TER", " %", "edits for 100 words of the references"),
    "bleu": Wording("BLEU", "", "from 0 to 100: word sequences shared with the references"),
    "chrf": Wording("chrF", "", "from 0 to 100: character sequences shared with the references"),
}


def metric(name: str, item: ItemKind = "word") -> Wording:
    """As it is written of items of this kind."""
    words, called = WORDINGS.get(name) or Wording(metric_label(name), "", ""), metric_label(name, item)
    return words if called == metric_label(name) else words._replace(label=called)


def score(name: str, value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}{metric(name).unit}"


def titled(label: str) -> str:
    """A label as a heading; one with a capital of its own, as chrF, stays."""
    return label if label != label.lower() else label[:1].upper() + label[1:]


def number(value: float | None) -> str:
    """Three digits that count, and no exponent where one can do without."""
    if value is None:
        return "–"
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}".replace("-", "−")
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits}f}".replace("-", "−") if digits < 6 else f"{value:.2g}"


def tick(value: float) -> str:
    """A round number on an axis."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def many(count: float) -> str:
    """1.34 million."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{number(count / size)} {name}"
    return f"{count:,.0f}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s"


def family(model: Any) -> str:
    """What kind of model a description means: by its parts, or by those of its preset."""
    given: Mapping[str, Any] = model if isinstance(model, Mapping) else {"preset": model}
    preset = PRESETS.get(str(given.get("preset")))
    known = given.get(PINNED) or (preset.model if preset else {})
    encoder, decoder = (_kind(given.get(part), known.get(part)) for part in ("encoder", "decoder"))
    names = {"transformer": "Transformer", "rnn": "RNN"}
    found = f"{names.get(encoder, encoder)} encoder with {names.get(decoder, decoder)} decoder"
    if encoder == decoder:
        found = f"{names.get(encoder, encoder)} encoder-decoder"
    if given.get("kind") != "ensemble":
        return found
    each = article(found)
    return f"ensemble of {given.get('members', 'several')} models, each {each[0].lower()}{each[1:]}"


def _kind(given: Any, known: Any) -> str:
    for spec in (given, known):
        kind = spec.get("kind") if isinstance(spec, Mapping) else spec
        if kind is not None:
            return str(kind)
    return "transformer"


def shell_word(text: str) -> str:
    """A text as one word of a command that is copied, where a tab would be lost."""
    if "\t" not in text:
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")
    return f"$'{escaped}'"


def files_like(trained: Sequence[str]) -> str:
    """Names for files of other pairs, with the endings of those that were trained on: one, or two sides."""
    endings = list(dict.fromkeys(uncompressed(file).suffix for file in trained)) or [".tsv"]
    return " ".join(shlex.quote(f"test{ending}") for ending in endings[:2])


def article(words: str) -> str:
    """The words with A or An before them."""
    return f"{'An' if words[:1].lower() in 'aeio' or words.startswith('RNN') else 'A'} {words}"

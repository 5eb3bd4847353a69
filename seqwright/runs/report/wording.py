"""Numbers, metrics, models and commands in words, for the report and the card."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from seqwright.config.presets import PINNED, PRESETS
from seqwright.data.images import URI
from seqwright.evaluation.metrics import built_in
from seqwright.files import uncompressed

HEADS = {"classes": "classifier", "tags": "tagger", "tokens": "masked language model"}


def unit(metric: str) -> str:
    known = built_in(metric)
    return known.unit if known else ""


def score(metric: str, value: float | None) -> str:
    return "–" if value is None else f"{value:.{decimals(metric, value)}f}{unit(metric)}"


def decimals(metric: str, value: float | None) -> int:
    known = built_in(metric)
    return known.places(value or 0.0) if known else 1


def titled(label: str) -> str:
    """Return a label as a heading; one with capitals of its own, such as chrF, stays."""
    return label if label != label.lower() else label[:1].upper() + label[1:]


def sentence(text: str) -> str:
    """Return a text with a capital letter and one full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def number(value: float | None) -> str:
    """Format with three significant digits, without an exponent where possible."""
    if value is None:
        return "–"
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}".replace("-", "−")
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits}f}".replace("-", "−") if digits < 6 else f"{value:.2g}"


def tick(value: float) -> str:
    """Format a round number on an axis."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def many(count: float) -> str:
    """Format a large count: 1.34 million."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{number(count / size)} {name}"
    return f"{count:,.0f}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def family(model: Any) -> str:
    """Name the kind of model that a `model` table describes, by its parts or those of its preset."""
    given: Mapping[str, Any] = model if isinstance(model, Mapping) else {"preset": model}
    preset = PRESETS.get(str(given.get("preset")))
    known = given.get(PINNED) or (preset.model if preset else {})
    encoder, decoder = (_kind(given.get(part), known.get(part)) for part in ("encoder", "decoder"))
    kind = given.get("kind", known.get("kind"))
    if kind == "decoder_only":
        return f"{decoder} language model"
    if kind == "forecaster":
        return f"forecaster by {_kind(given.get('network'), known.get('network') or 'patches')}"
    if kind == "encoder_only":
        head = _kind(given.get("head"), known.get("head"), "classes")
        return f"{encoder} {HEADS.get(head, f'encoder with the head {head}')}"
    found = (
        f"{encoder} encoder-decoder" if encoder == decoder else f"{encoder} encoder with {decoder} decoder"
    )
    if given.get("kind") != "ensemble":
        return found
    each = article(found)
    return f"ensemble of {given.get('members', 'several')} models, each {each[0].lower()}{each[1:]}"


def _kind(given: Any, known: Any, otherwise: str = "transformer") -> str:
    kinds = [spec.get("kind") if isinstance(spec, Mapping) else spec for spec in (given, known)]
    kind = next((str(kind) for kind in kinds if kind is not None), otherwise)
    return {"transformer": "Transformer", "rnn": "RNN", "ngrams": "n-gram"}.get(kind, kind)


def is_stored_image(source: str) -> bool:
    """Return whether the input of a stored example is an image, which commands name by its file."""
    return source.startswith(URI)


def shell_word(text: str) -> str:
    """Quote a text as one shell word that survives copying: a tab is written as an escape."""
    if "\t" not in text:
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")
    return f"$'{escaped}'"


def files_like(trained: Sequence[str]) -> str:
    """Return example names of test files with the extensions of the training files: one, or one per side."""
    endings = list(dict.fromkeys(uncompressed(file).suffix for file in trained)) or [".tsv"]
    return " ".join(shlex.quote(f"test{ending}") for ending in endings[:2])


def article(words: str) -> str:
    """Return the words with A or An before them."""
    spoken = words.startswith(("RNN", "n-gram"))
    return f"{'An' if words[:1].lower() in 'aeio' or spoken else 'A'} {words}"

"""Texts as outputs: how targets are written, and which metrics and edits fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import regex

from seqwright.data.fields import split_parts
from seqwright.evaluation.metrics import METRICS, Metric, built_in
from seqwright.evaluation.metrics.bases import EditRate
from seqwright.evaluation.metrics.symbol_error_rate import SymbolErrorRate

Writing = Literal["text", "symbols", "characters"]
ItemKind = Literal["word", "text"]

METRICS_FOR: dict[Writing, tuple[str, ...]] = {  # the first one is the main metric
    "text": ("bleu", "chrf", "exact_match"),
    "symbols": ("word_error_rate", "symbol_error_rate", "exact_match"),
    "characters": ("exact_match", "word_error_rate", "symbol_error_rate"),
}
_SEPARATORS: dict[Writing, str] = {"text": "", "symbols": " ", "characters": ""}
_WORDS_AND_PUNCTUATION = regex.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


class _WordsAndPunctuation(EditRate):
    """Edits of words and punctuation marks: a missing comma is an edit of its own, not another word."""

    def symbols(self, text: str) -> Sequence[str]:
        return _WORDS_AND_PUNCTUATION.findall(text)


def writing_of(tokenizer: str, texts: Iterable[str]) -> Writing:
    """Return how texts are written: text has two words or more on average, characters spell single words."""
    if tokenizer == "symbols":  # with spaces between them, such as phones
        return "symbols"
    counts = [len(text.split()) for text in texts]
    return "text" if sum(counts) >= 2 * max(len(counts), 1) else "characters"


def item_of(sources: Iterable[str], references: Iterable[Sequence[str]], writing: Writing) -> ItemKind:
    """Return what an item is: a word if its source is one (at most 1.2 on average, without features) and its
    target spells one, in characters or symbols of at most 3 characters on average; otherwise a text.
    """
    words = [sum(len(part.split()) for part in split_parts(source)[::2]) for source in sources]
    if writing == "text" or sum(words) > 1.2 * max(len(words), 1):
        return "text"
    symbols = [symbol for texts in references for text in texts for symbol in text.split()]
    spelt = writing == "characters" or sum(map(len, symbols)) <= 3 * len(symbols)
    return "word" if spelt else "text"


def metric_label(name: str, item: ItemKind = "word") -> str:
    """Return the display name of a metric; a rate of wrong texts is not called a word error rate."""
    if (name, item) == ("word_error_rate", "text"):
        return "wrong outputs"
    known = built_in(name)
    return known.label if known and known.label else name.replace("_", " ")


def build_metric(spec: str | Mapping[str, Any], writing: Writing, **given: Any) -> Metric[str]:
    """Build a metric for targets of this writing; `given` are options for those that have them."""
    return METRICS.build(spec, separator=_SEPARATORS[writing], **given)


def edits_for(writing: Writing) -> EditRate:
    """Return the edits of such targets: of words and punctuation, of symbols, or of characters."""
    return _WordsAndPunctuation() if writing == "text" else SymbolErrorRate(separator=_SEPARATORS[writing])


def copied_share(texts: Sequence[str], sources: Sequence[str]) -> float:
    """Return the mean share of words in the longest run of a text that its source has, in percent."""
    shares = []
    for text, source in zip(texts, sources, strict=True):
        words, known = text.split(), source.split()
        longest = SequenceMatcher(None, words, known, autojunk=False).find_longest_match().size
        shares.append(longest / max(len(words), 1))
    return 100 * sum(shares) / len(shares)

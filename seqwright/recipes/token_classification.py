"""A configuration for tagged sentences, chosen by their number, with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from seqwright.config.recipe import ENDS, Choice, Recipe, times
from seqwright.config.registry import parse as parse_spec
from seqwright.data.survey import Survey
from seqwright.data.tag_scheme import scheme_of
from seqwright.data.text_display import pluralize
from seqwright.recipes.bases.held_out import held_out, share_of
from seqwright.tasks.token_classification import SPELLING, refuse_one_tag

LONGEST = 256  # words of a sentence that are read together, at most
LONGEST_PIECES = 1024  # the same for a tagger that reads pieces of words
PIECES = {"bytes": 4, "letters": 4}  # of a character, at most; of other tokenizers one
SPEED = 12_000  # words per second of tiny-tagger on two cores, roughly
DROPOUT = ((5, 0.1), (15, 0.2), (40, 0.3), (math.inf, 0.4))  # below so many epochs
WORDS = 1024  # of a batch
CORES = 2
FEW = 5_000  # sentences
HELD_OUT = 1000
TAGGED = 2000  # sentences that a validation tags


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    refuse_one_tag(survey.labels, survey.name)
    sentences, ending = survey.report.examples, requested.get("training", {})
    time = [] if ending.keys() & set(ENDS) else [_time(sentences)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    length = _length(survey, "start" in requested, requested.get("tokenizer", {}))
    choices = [_words(), length, _model(survey, ends), _batch(), *time, _validation(survey, ends)]
    return Recipe((*choices, *held_out(requested, share_of(sentences, HELD_OUT), "sentences")))


def _words() -> Choice:
    reason = "new words are known by their endings and capitals"
    table = {"tokenizer": {"source": "characters"}}
    return Choice("words with a vector for their characters, and one of their own if frequent", table, reason)


def _length(survey: Survey, started: bool, tokenizer: Mapping[str, Any]) -> Choice:
    """Choose how much is read together: words, or their pieces if the tokenizer does not spell words. The
    tokenizer of another run spells none, because its encoder reads pieces only.
    """
    sentence = survey.report.columns["sentence"]
    kind = parse_spec("tokenizer", tokenizer["source"])[0] if "source" in tokenizer else None
    what, size, longest = "words", sentence.words.longest, LONGEST
    if kind is not None and (started or kind not in SPELLING):
        what, longest = "pieces of words", LONGEST_PIECES
        size = PIECES.get(kind, 1) * sentence.characters.longest + 1  # a word may begin with a mark
    whole = max(size, 16)
    most = min(whole, longest)
    reason = "longer sentences are tagged in parts"
    if most == whole:
        reason = "the longest sentence" if what == "words" else "the longest sentence has no more of them"
    return Choice(f"{most} {what} at once", {"data": {"max_length": most}}, reason)


def _model(survey: Survey, ends: Mapping[str, Any]) -> Choice:
    words = survey.labels.total()
    epochs = ends.get("epochs")
    if epochs is None:
        steps = ends.get("steps")
        read = steps * ends.get("tokens", WORDS) if steps else ends["minutes"] * 60 * SPEED
        epochs = read / words
    dropout = next(dropout for most, dropout in DROPOUT if epochs < most)
    table = {"preset": "tiny-tagger", "dropout": dropout}
    reason = f"{pluralize(words, 'word')}, each is seen {times(epochs)}"
    return Choice(f"model tiny-tagger, dropout {dropout}", {"model": table}, reason)


def _batch() -> Choice:
    optimizer = {"kind": "adamw", "rate": 2e-3, "decay": 0.05}
    table = {"tokens": WORDS, "accumulate": CORES, "optimizer": optimizer, "smoothing": 0.0}
    what = f"{WORDS:,} words per batch, in {CORES} parts for up to {CORES} cores, rate 0.002"
    return Choice(what, {"training": table}, "on small data more steps beat larger batches")


def _time(sentences: int) -> Choice:
    minutes = 3.0 if sentences < FEW else 5.0
    reason = "usual for so many sentences; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _validation(survey: Survey, ends: Mapping[str, Any]) -> Choice:
    scheme = scheme_of(survey.labels.keys())
    metric = "accuracy" if scheme is None else "entity_f1"
    reason = "a tag is right or wrong" if scheme is None else f"the tags mark entities ({scheme})"
    validations = min(max(round(3 * ends.get("minutes", 3)), 5), 20)
    table = {"metric": metric, "validations": validations, "decode": TAGGED}
    what = f"about {validations} validations, by {metric.replace('_', ' ')}"
    return Choice(what, {"training": table}, reason)

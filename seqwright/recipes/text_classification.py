"""A configuration for texts with labels, chosen by their number and lengths, with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from seqwright.config import DataConfig
from seqwright.config.presets import as_table
from seqwright.config.recipe import ENDS, Choice, Recipe
from seqwright.data.checks.statistics import LengthHistogram, TextColumn
from seqwright.data.survey import Survey
from seqwright.data.text_display import pluralize
from seqwright.errors import InputError

PRESET = "tiny-classifier"
PIECES = 1.3  # tokens per word
READ = 0.95  # share of the texts that are read whole
LONGEST = 400  # tokens that are read of a text, at most
SPEED = 25_000  # tokens per second of tiny-classifier on two cores, roughly
DROPOUT = ((3, 0.2), (10, 0.3), (math.inf, 0.5))  # below so many epochs
SUBWORDS = ((20_000, 4_000), (200_000, 16_000), (math.inf, 32_000))  # pieces for so many texts
UNEVEN = 10  # times as frequent as the rarest label from which on labels are weighed
BALANCE = 0.5
WORDS = 2  # words of a text on average, below which it is read by characters
CORES = 2
HELD_OUT = 2500
DECODED = 4000  # texts that a validation labels


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    if len(survey.labels) < 2:
        (only,) = survey.labels or [""]
        raise InputError(
            f"{survey.name}: every text has the label {only!r}; a classifier needs at least two labels"
        )
    texts, column = survey.report.examples, survey.report.columns["text"]
    words, ending = column.words.mean >= WORDS, requested.get("training", {})
    time = [] if ending.keys() & set(ENDS) else [_time(texts)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    length = _length(column, words)
    choices = [
        _tokenizer(texts, words),
        length,
        *_sentences(requested),
        _model(survey, ends, length.table["data"]["max_length"], words),
        _batch(words),
        *time,
        _validation(ends),
    ]
    data = requested.get("data", {})
    return Recipe(
        tuple(choices) if data.get("valid") else (*choices, _held_out(texts, bool(data.get("test"))))
    )


def _tokenizer(texts: int, words: bool) -> Choice:
    if not words:
        return Choice("characters", {"tokenizer": {"source": "characters"}}, "the texts are single words")
    size = next(size for limit, size in SUBWORDS if texts < limit)
    table = {"tokenizer": {"source": {"kind": "bpe", "max_size": size}}}
    return Choice(f"BPE with {size:,} pieces", table, f"running text, {pluralize(texts, 'text')}")


def _length(column: TextColumn, words: bool) -> Choice:
    lengths = column.words if words else column.characters
    whole = math.ceil((PIECES if words else 1.0) * _quantile(lengths, READ)) + 2
    longest = max(min(whole, LONGEST), 16)
    reason = f"{READ:.0%} of the texts fit" if longest == whole else "longer texts are cut, to save time"
    return Choice(f"the first {longest} tokens of a text", {"data": {"max_length": longest}}, reason)


def _sentences(requested: Mapping[str, Any]) -> list[Choice]:
    """Return how a text is cut for an encoder that reads sentences."""
    from seqwright.models.building import reads_sentences

    if not reads_sentences({"preset": PRESET, **as_table(requested.get("model", {}))}):
        return []
    data = DataConfig(**requested.get("data", {}))
    what = f"in at most {data.max_sentences} sentences of at most {data.max_sentence_length} tokens"
    reason = "the encoder reads sentences; longer ones are cut into several, further ones are not read"
    return [Choice(what, {}, reason)]


def _quantile(lengths: LengthHistogram, share: float) -> int:
    """Return the length that this share of the texts does not exceed."""
    seen, total = 0, lengths.total()
    for length, count in sorted(lengths.items()):
        seen += count
        if seen >= share * total:
            return length
    return 0


def _model(survey: Survey, ends: Mapping[str, Any], longest: int, words: bool) -> Choice:
    texts, column = survey.report.examples, survey.report.columns["text"]
    length = min(PIECES * column.words.mean if words else column.characters.mean, longest) + 1
    epochs = ends.get("epochs")
    if epochs is None:
        steps = ends.get("steps")
        tokens = steps * ends.get("tokens", 4096) if steps else ends["minutes"] * 60 * SPEED
        epochs = tokens / (texts * length)
    dropout = next(dropout for most, dropout in DROPOUT if epochs < most)
    table: dict[str, Any] = {"preset": PRESET, "dropout": dropout}
    what, reason = f"model {PRESET}, dropout {dropout}", f"each text is seen about {epochs:.0f} times"
    most, least = (count for _, count in (survey.labels.most_common()[0], survey.labels.most_common()[-1]))
    if most >= UNEVEN * least:
        table["head"] = {"balance": BALANCE}
        what += f", classes weighed by their frequency to the power of −{BALANCE}"
        reason += f"; the most frequent label has {most:,} texts, the rarest {least:,}"
    return Choice(what, {"model": table}, reason)


def _batch(words: bool) -> Choice:
    tokens = 4096 if words else 1024
    optimizer = {"kind": "adamw", "rate": 2e-3, "embedding_rate": 2.0, "decay": 0.05}
    table = {"tokens": tokens, "accumulate": CORES, "optimizer": optimizer, "smoothing": 0.0}
    what = f"{tokens:,} tokens per batch, in {CORES} parts for up to {CORES} cores, rate 0.002"
    return Choice(what, {"training": table}, "on small data more steps beat larger batches")


def _time(texts: int) -> Choice:
    minutes = 3.0 if texts < 10_000 else 10.0
    reason = "usual for so many texts; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _validation(ends: Mapping[str, Any]) -> Choice:
    validations = min(max(round(3 * ends.get("minutes", 3)), 5), 20)
    table = {"training": {"metric": "accuracy", "validations": validations, "decode": DECODED, "traces": 0}}
    return Choice(f"about {validations} validations, by accuracy", table, "a label is right or wrong")


def _held_out(texts: int, tested: bool) -> Choice:
    """Hold out enough to tell apart scores that differ by a point or two; of small data at most a tenth."""
    share = 0.1 if texts < 5_000 else max(min(0.1, HELD_OUT / texts), 1e-5)
    again = "" if tested else ", and as many for the test"
    what = f"{100 * share:.2g} % of the texts of each label for validation{again}"
    reason = "to choose the best weights" + ("" if tested else ", and for the final score")
    return Choice(what, {"data": {"held_out": share}}, reason)

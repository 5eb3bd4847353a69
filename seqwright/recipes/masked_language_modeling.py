"""A configuration for running text with blanks, chosen by size and training time, with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from seqwright.config.recipe import ENDS, Choice, Recipe, times
from seqwright.data.survey import Survey
from seqwright.recipes.language_modeling import CORES, DECODED, PIECE, held_out, time_for

SPEED = 25_000  # tokens per second of `tiny-mlm` on two cores, roughly
SUBWORDS = ((300_000, 1_000), (3_000_000, 4_000), (30_000_000, 8_000), (math.inf, 16_000))  # by characters
WINDOW, ROWS, RATE = 128, 32, 3e-3
EMBEDDINGS = 4.0  # times the rate: rare pieces of words get few updates
DROPOUT = ((20, 0.0), (60, 0.1), (math.inf, 0.2))  # below so many readings of the text


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    lengths = survey.report.columns["text"].characters
    characters = round(lengths.mean * lengths.total())
    training, data = requested.get("training", {}), requested.get("data", {})
    time = [] if training.keys() & set(ENDS) else [time_for(characters)]
    ends = {**(time[0].table["training"] if time else {}), **training}
    choices = [_tokenizer(characters), _model(ends, characters / PIECE), _window(characters), _batch(), *time]
    choices.append(_validation(ends))
    if not data.get("valid"):
        choices.append(held_out(characters, tested=bool(data.get("test"))))
    return Recipe(tuple(choices))


def _tokenizer(characters: int) -> Choice:
    ids = next(ids for limit, ids in SUBWORDS if characters < limit)
    table = {"tokenizer": {"source": {"kind": "bpe", "max_size": ids}}}
    reason = f"the text has {characters:,} characters; models that start from this one keep it"
    return Choice(f"BPE with {ids:,} pieces", table, reason)


def _model(ends: Mapping[str, Any], tokens: float) -> Choice:
    minutes, epochs = ends.get("minutes"), ends.get("epochs")
    if epochs is None:
        seen = minutes * 60 * SPEED if minutes else ends["steps"] * WINDOW * ROWS
        epochs = seen / max(tokens, 1)
    dropout = next(dropout for most, dropout in DROPOUT if epochs < most)
    table = {"preset": "tiny-mlm", "dropout": dropout}
    reason = f"the text is read {times(epochs)}, each time with other tokens hidden"
    return Choice(f"model tiny-mlm, dropout {dropout}", {"model": table}, reason)


def _window(characters: int) -> Choice:
    window = max(min(WINDOW, int(characters / PIECE / 10)), 8)
    reason = "hidden tokens depend on their neighbours most" if window == WINDOW else "the text is short"
    return Choice(f"a window of {window} tokens", {"data": {"max_length": window}}, reason)


def _batch() -> Choice:
    table = {
        "tokens": WINDOW * ROWS,
        "accumulate": CORES,
        "smoothing": 0.0,
        "average": 0.0,  # the rate falls to zero, which averages as well
        "optimizer": {"kind": "adamw", "rate": RATE, "embedding_rate": EMBEDDINGS},
        "schedule": {"kind": "linear", "warmup": 100, "flat": 0.3},
    }
    what = f"{ROWS} windows per batch, in {CORES} parts for up to {CORES} cores, rate {RATE:g}"
    what += f", {EMBEDDINGS:g} times that for embeddings"
    return Choice(what, {"training": table}, "in little time many small steps teach more")


def _validation(ends: Mapping[str, Any]) -> Choice:
    minutes = ends.get("minutes")
    validations = min(max(round(minutes), 4), 20) if minutes else 10
    training = {"metric": "loss", "validations": validations, "decode": DECODED, "traces": 0}
    reason = "the loss uses every hidden token"
    return Choice(f"about {validations} validations, by the loss", {"training": training}, reason)

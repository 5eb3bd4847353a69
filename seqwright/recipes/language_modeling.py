"""A configuration for running text, chosen by its size and the time for training, with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from seqwright.config.recipe import ENDS, Choice, Recipe, times
from seqwright.data.survey import Survey

SPEED = 20_000  # tokens per second of `tiny-lm` on two cores, roughly
CHARACTERS = 5_000_000  # texts of fewer characters are read by characters
SUBWORDS = ((20_000_000, 4_000), (200_000_000, 8_000), (math.inf, 16_000))  # ids, by characters of text
PIECE = 3.5  # characters of a subword, roughly
CORES = 2  # for which a batch is divided
HELD_OUT = 500_000  # characters in the validation split, at most
DECODED = 8  # passages that a validation scores whole


class Size(NamedTuple):
    """A model for trainings of up to so many minutes; `cost`: the time of a token, that of `tiny-lm` is 1."""

    minutes: float
    preset: str
    options: Mapping[str, Any]
    window: int
    rows: int
    rate: float
    cost: float

    @property
    def name(self) -> str:
        changed = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.preset} with {changed}" if changed else self.preset


SIZES = (
    Size(5, "tiny-lm", {}, 128, 32, 4e-3, 1.0),
    Size(25, "tiny-lm", {"size": 160, "hidden": 640, "heads": 5}, 192, 24, 4e-3, 1.5),
    Size(90, "tiny-lm", {"size": 224, "hidden": 896, "heads": 7}, 256, 24, 3e-3, 2.5),
    Size(math.inf, "small-lm", {}, 256, 32, 2e-3, 5.0),
)
DROPOUT = ((7, 0.0), (25, 0.1), (60, 0.2), (math.inf, 0.3))  # below so many readings of the text


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    lengths = survey.report.columns["text"].characters
    characters = round(lengths.mean * lengths.total())
    training, data = requested.get("training", {}), requested.get("data", {})
    tokenizer = _tokenizer(characters)
    tokens = characters if tokenizer.table["tokenizer"]["source"] == "characters" else characters / PIECE
    time = [] if training.keys() & set(ENDS) else [time_for(characters)]
    ends = {**(time[0].table["training"] if time else {}), **training}
    seen, size = _seen(ends, tokens)
    choices = [
        tokenizer,
        _model(size, seen / max(tokens, 1), requested.get("model", {})),
        _window(size, tokens, data),
        _batch(size),
        *time,
        _validation(ends),
    ]
    if not data.get("valid"):
        choices.append(held_out(characters, tested=bool(data.get("test"))))
    return Recipe(tuple(choices))


def _seen(training: Mapping[str, Any], tokens: float) -> tuple[float, Size]:
    """Return how many tokens the training reads, roughly, and the model that fits its time."""
    if training.get("minutes"):
        size = next(each for each in SIZES if training["minutes"] <= each.minutes)
        return training["minutes"] * 60 * SPEED / size.cost, size
    size = SIZES[0]
    if training.get("epochs"):
        return training["epochs"] * tokens, size
    return training["steps"] * size.window * size.rows, size


def _tokenizer(characters: int) -> Choice:
    if characters < CHARACTERS:
        reason = f"the text has {characters:,} characters, too few to learn pieces of words"
        return Choice("characters", {"tokenizer": {"source": "characters"}}, reason)
    ids = next(ids for limit, ids in SUBWORDS if characters < limit)
    spec = {"kind": "bpe", "max_size": ids, "byte_fallback": True}
    reason = f"the text has {characters:,} characters; pieces of words make it shorter"
    return Choice(f"BPE with {ids:,} pieces", {"tokenizer": {"source": spec}}, reason)


def _model(size: Size, epochs: float, model: Mapping[str, Any]) -> Choice:
    dropout = next(dropout for most, dropout in DROPOUT if epochs < most)
    table = {"preset": size.preset, **({} if "preset" in model else size.options), "dropout": dropout}
    reason = f"the largest that learns well in this time; the text is read {times(epochs)}"
    return Choice(f"model {size.name}, dropout {dropout}", {"model": table}, reason)


def _window(size: Size, tokens: float, data: Mapping[str, Any]) -> Choice:
    window = max(min(size.window, int(tokens / 10)), 8)
    reason = (
        "longer ones cost more per token than they help" if window == size.window else "the text is short"
    )
    return Choice(f"a window of {window} tokens", {"data": {"max_length": window}}, reason)


def _batch(size: Size) -> Choice:
    schedule = {"kind": "linear", "warmup": 100, "flat": 0.3}
    table = {
        "tokens": size.window * size.rows,
        "accumulate": CORES,
        "smoothing": 0.0,
        "average": 0.0,  # the rate falls to zero, which averages as well; a short training would lag behind
        "optimizer": {"kind": "adamw", "rate": size.rate},
        "schedule": schedule,
    }
    what = f"{size.rows} windows per batch, in {CORES} parts for up to {CORES} cores, rate {size.rate:g}"
    return Choice(what, {"training": table}, "small batches, and a rate that falls for most of the time")


def time_for(characters: int) -> Choice:
    minutes = 5.0 if characters < 2_000_000 else 15.0 if characters < 20_000_000 else 60.0
    reason = "usual for a text of this size; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _validation(training: Mapping[str, Any]) -> Choice:
    minutes = training.get("minutes")
    validations = min(max(round(2 * minutes), 4), 20) if minutes else 10
    table = {"training": {"metric": "loss", "validations": validations, "decode": DECODED}}
    return Choice(
        f"about {validations} validations, by the loss", table, "the loss is what the model is used for"
    )


def held_out(characters: int, *, tested: bool) -> Choice:
    share = max(min(0.1, HELD_OUT / max(characters, 1)), 1e-4)
    again = "" if tested else ", and as much for the test"
    what = f"{100 * share:.2g} % of the text for validation{again}"
    reason = "the end of the text: windows of a random split would share most of their text with the training"
    return Choice(what, {"data": {"held_out": share}}, reason)

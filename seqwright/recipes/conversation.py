"""A configuration for conversations, chosen by the number and the lengths of replies, with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from seqwright.config.presets import KIND, PRESETS
from seqwright.config.recipe import ENDS, Choice, Recipe
from seqwright.data.survey import Survey
from seqwright.data.text_display import pluralize
from seqwright.recipes.bases.held_out import held_out

PIECES = 1.3  # subwords per word
SPEED = 16_000  # tokens of contexts and replies per second on two cores, roughly
DETECTED = 300_000  # the same by detectors of n-grams
DROPOUT = ((5, 0.1), (15, 0.2), (math.inf, 0.3))  # below so many epochs
SUBWORDS = ((5_000, 1_000), (20_000, 3_000), (math.inf, 8_000))  # pieces for so many replies
LEAST, LONGEST = 96, 256  # tokens of a context that are read; a longer reply is left out, too
PASSES = 4  # through the data, for which a context is shortened: unread turns cost less than unseen replies
CORES = 2
FEW = 5_000  # replies
RETRIEVAL, RETRIEVER = "dual_encoder", "tiny-retriever"
ALONE = "decoder_only"
DECODED = 100  # replies that a validation generates, which takes most of its time
HELD_OUT = 0.05


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    replies, columns = survey.report.examples, survey.report.columns
    length = PIECES * columns["reply"].words.mean + 1
    ending = requested.get("training", {})
    time = [] if ending.keys() & set(ENDS) else [_time(replies)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    mean, model = PIECES * columns["context"].words.mean, requested.get("model", {})
    kind, preset = _kind_and_preset(model, requested.get("data", {}).get("context", "all"))
    readable = _readable(ends, DETECTED if preset == RETRIEVER else SPEED)
    context = _context(mean, readable / (PASSES * max(replies, 1)) - length)
    read = min(mean, requested.get("data", {}).get("max_length", context.table["data"]["max_length"]))
    epochs = _epochs(max(replies, 1), length, read, ends, readable)
    choices = [
        _tokenizer(replies),
        context,
        _model(epochs, kind, preset),
        _batch(replies, kind),
        *time,
        _validation(ends),
    ]
    reason = "a conversation is never divided: its turns resemble each other"
    return Recipe((*choices, *held_out(requested, HELD_OUT, "conversations", reason)))


def _tokenizer(replies: int) -> Choice:
    size = next(size for limit, size in SUBWORDS if replies < limit)
    table = {"tokenizer": {"joint": True, "source": {"kind": "bpe", "max_size": size}}}
    return Choice(f"BPE with {size:,} pieces", table, "contexts and replies are the same language")


def _kind_and_preset(model: Mapping[str, Any], turns: int | str) -> tuple[str, str]:
    """Return the kind and the preset that are requested, or those to choose."""
    preset = model.get("preset")
    if preset is None:
        usual = KIND if turns == 1 or "encoder" in model else ALONE
        kind = str(model.get("kind", usual))
        alone = not model.keys() - {"kind", "dropout"}
        return kind, RETRIEVER if kind == RETRIEVAL and alone else "tiny"
    named = PRESETS.get(preset)
    return str(model.get("kind") or (named.kind if named else KIND)), preset


def _readable(ends: Mapping[str, Any], speed: int) -> float:
    """Return how many tokens of contexts and replies the time allows; without a time, any number."""
    return ends["minutes"] * 60 * speed if "minutes" in ends else math.inf


def _context(tokens: float, affordable: float) -> Choice:
    wanted = max(LEAST, 32 * math.ceil(2 * tokens / 32))
    longest = 32 * int(min(LONGEST, wanted, max(LEAST, affordable)) // 32)
    reason = f"a context has {tokens:.0f} tokens on average; the most recent ones matter most"
    if longest < min(LONGEST, wanted):
        reason += ", and a longer training could read more"
    return Choice(f"the last {longest} tokens of a context", {"data": {"max_length": longest}}, reason)


def _epochs(replies: int, length: float, context: float, ends: Mapping[str, Any], readable: float) -> float:
    """Return how often each reply is seen; a step counts the tokens of replies alone."""
    if "epochs" in ends:
        return float(ends["epochs"])
    if "steps" in ends:
        return float(ends["steps"] * ends.get("tokens", 2048) / (replies * length))
    return readable / (replies * (context + length))


def _model(epochs: float, kind: str, preset: str) -> Choice:
    dropout = next(dropout for most, dropout in DROPOUT if epochs < most)
    named = PRESETS.get(preset)
    shares = kind not in (ALONE, RETRIEVAL) and named and named.model.get("share")
    table: dict[str, Any] = {"preset": preset, "dropout": dropout} | ({"share": True} if shares else {})
    what, reason = f"model {preset}", f"each reply is seen about {pluralize(max(round(epochs), 1), 'time')}"
    if preset == RETRIEVER:
        reason += "; n-grams find the right reply in a fraction of the time that attention takes"
    elif kind == ALONE:
        table |= {"kind": kind, "source_loss": 1.0}
        what += " without an encoder"
        reason += "; a conversation is one sequence, so the turns of a context are learned like the reply"
    return Choice(f"{what}, dropout {dropout}", {"model": table}, reason)


def _batch(replies: int, kind: str) -> Choice:
    many = 1024 if kind == ALONE else 2048  # it learns the tokens of the contexts, too
    tokens, rate = (4096, 2e-3) if kind == RETRIEVAL else (many if replies >= FEW else 512, 4e-3)
    optimizer = {"kind": "adamw", "rate": rate, "embedding_rate": 4.0}
    table = {"tokens": tokens, "accumulate": CORES, "optimizer": optimizer}
    what = f"{tokens:,} tokens of replies per batch, in {CORES} parts for up to {CORES} cores, rate {rate:g}"
    reason = (
        "the other replies of a batch are the wrong ones"
        if kind == RETRIEVAL
        else "replies vary, so a batch should have many of them"
        if replies >= FEW
        else "on small data more steps beat larger batches"
    )
    return Choice(what, {"training": table}, reason)


def _time(replies: int) -> Choice:
    minutes = 5.0 if replies < FEW else 20.0
    reason = f"usual for {pluralize(replies, 'reply', 'replies')}; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _validation(ends: Mapping[str, Any]) -> Choice:
    validations = min(max(round(ends.get("minutes", 5) / 2), 3), 10)
    table = {"metric": "loss", "validations": validations, "decode": DECODED, "traces": 0}
    reason = "many replies are right, so the surprise at real ones is the best measure"
    return Choice(f"about {validations} validations, by the loss", {"training": table}, reason)

"""A configuration for pairs of texts, chosen by their number, lengths and alphabets, with reasons."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seqwright.config.presets import PRESETS
from seqwright.config.recipe import ENDS, Choice, Recipe, times
from seqwright.data.checks.statistics import Statistics, TextColumn
from seqwright.data.read_report import Pair
from seqwright.data.survey import Survey
from seqwright.data.text_display import percent, pluralize
from seqwright.recipes.bases.held_out import held_out, share_of
from seqwright.tasks.text_to_text import ONE_TOKENIZER

SPEED = 8000  # target tokens per second of `tiny` on two cores, roughly
GREEDY = 3000  # tokens per second of greedy search with one thread, roughly
DECODING = 0.05  # the share of the time that validations may spend on it
PIECES = 1.3  # subwords per word
DROPOUT = ((5, 0.0), (15, 0.1), (40, 0.2), (math.inf, 0.3))  # below so many epochs
FAST = {"rate": 5e-3, "embedding_rate": 4.0}  # of tiny, which starts with zeros in its residual outputs
LITTLE, DECAY = 0.1, 0.05  # dropout and weight decay of a Transformer for many words
ALONE = "decoder_only"
CORES = 2  # for which a batch is divided
HELD_OUT = 2500  # sources in the validation split, at most
SYMBOLS, OFTEN = 400, 100  # a side of so few distinct words, short or frequent ones, has symbols
SYLLABLES = 2000  # so does one of so many distinct short words, if hardly one of them is rare
LONG = 50_000, 20  # pairs and epochs from which on a Transformer learns words better, in larger batches
OTHER_OPTIONS = {"dropout", "kind", "members"}  # options of a model that do not concern its parts
COMPOSED = 3  # characters per letter from which on a script counts as composed
SUBWORDS = ((5_000, 1_000), (20_000, 3_000), (200_000, 8_000), (1_000_000, 16_000), (math.inf, 32_000))
NAMES = {  # of a tokenizer, and why it fits
    "symbols": ("symbols between spaces", "made of few distinct words"),
    "characters": ("characters", "mostly single words"),
    "letters": ("letters that make up its characters", "mostly single words in a composed script"),
    "bpe": ("BPE with {:,} pieces", "running text"),
}


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    return choose_for(survey.report, survey.sample, requested)


def choose_for(
    report: Statistics, sample: Sequence[Pair], requested: Mapping[str, Any] | None = None
) -> Recipe:
    """Return a recipe for pairs with these statistics."""
    requested = requested or {}
    source, target = report.columns["source"], report.columns["target"]
    kinds = [_kind(source, [pair.source for pair in sample]), _kind(target, [pair.target for pair in sample])]
    words, ending = "bpe" not in kinds, requested.get("training", {})
    time = [] if ending.keys() & set(ENDS) else [_time(report.examples, words)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    length = _length(target, kinds[1])
    epochs = _epochs(report.examples * length, ends)
    model = requested.get("model", {})
    named = PRESETS.get(model.get("preset"))
    kind = model.get("kind", named and named.kind)
    alone, joint = kind == ALONE, ONE_TOKENIZER.get(kind)
    tokenizer = _tokenizer(kinds, report) if joint is None else _joint_tokenizer(kinds, report, joint)
    # options of parts are those of Transformers, and an RNN alone forgets its source
    free = not alone and not model.keys() - OTHER_OPTIONS
    many = report.examples >= LONG[0] and epochs >= LONG[1] and not requested.get("start")
    long = words and many and not alone and model.get("preset", "tiny-words") in {"tiny", "tiny-words"}
    preset = "tiny-words" if long else "tiny-rnn" if words and free else "tiny"
    members = _members(model)
    each = epochs / members if ends.get("minutes") else epochs  # steps and epochs are those of each model
    share = tokenizer.table["tokenizer"]["joint"] and (named is None or bool(named.model.get("share")))
    chosen = _model(report.examples, words, each, preset, members, share=None if alone else share)
    name = model.get("preset", chosen.table["model"]["preset"])
    choices = [tokenizer, chosen, _batch(report.examples, words, name, long=long), *time]
    data, usual = requested.get("data", {}), share_of(report.distinct, HELD_OUT, most=0.05)
    most = math.inf if data.get("valid") else data.get("held_out", usual) * report.distinct
    metric = _metric(kinds, ends, length * members, most=most)
    return Recipe((*choices, metric, *held_out(requested, usual, "sources")))


def _length(target: TextColumn, kind: str) -> float:
    """Return the tokens of a target with its end, on average."""
    lengths = {"symbols": target.words.mean, "bpe": PIECES * target.words.mean}
    return lengths.get(kind, target.characters.mean) + 1


def _epochs(tokens: float, training: Mapping[str, Any]) -> float:
    """Return how often each pair will be seen, roughly: many times and the model overfits, few and it
    underfits.
    """
    if training.get("epochs"):
        return float(training["epochs"])
    if training.get("steps"):
        return training["steps"] * training.get("tokens", 512) / tokens
    return training["minutes"] * 60 * SPEED / tokens


def _kind(side: TextColumn, texts: Sequence[str]) -> str:
    """Return the tokenizer of a side: symbols (phonemes), bpe (sentences), or for single words characters,
    or letters where a script composes many characters of few letters.
    """
    found = [word for text in texts for word in text.split()]
    distinct = len(set(found))
    words = max(side.words.mean, 1e-9)
    letters = (side.characters.mean - (words - 1)) / words  # in a word
    if words >= 2 and distinct <= SYMBOLS and (letters <= 3 or len(found) >= OFTEN * distinct):
        return "symbols"
    if words >= 2:
        return "symbols" if letters <= 4 and _closed(texts) else "bpe"
    letters_only = set(unicodedata.normalize("NFD", "".join(side.alphabet)))
    return "letters" if len(letters_only) <= len(side.alphabet) / COMPOSED else "characters"


def _closed(texts: Sequence[str]) -> bool:
    """Whether the words are a closed set, such as the syllables of a language: most occur several times. In
    running text about half of the distinct words occur once, however much of it there is (Zipf).
    """
    counts = Counter(word for text in set(texts) for word in text.split())
    once = sum(count == 1 for count in counts.values())
    return len(counts) <= SYLLABLES and counts.total() >= 10 * len(counts) and 5 * once <= len(counts)


def _tokenizer(kinds: Sequence[str], report: Statistics) -> Choice:
    joint = kinds[0] == kinds[1] and report.shared_alphabet >= 0.5
    size = next(size for limit, size in SUBWORDS if report.examples < limit)
    source, target = ({"kind": "bpe", "max_size": size} if kind == "bpe" else kind for kind in kinds)
    (one, why), (other, why_other) = ((NAMES[kind][0].format(size), NAMES[kind][1]) for kind in kinds)
    if joint:
        what = f"one tokenizer: {one}"
        reason = f"both sides share {percent(report.shared_alphabet)} of their characters"
    elif kinds[0] == kinds[1]:
        what, reason = f"each side: {one}", f"both are {why}, with different alphabets"
    else:
        what, reason = f"source: {one}; target: {other}", f"source is {why}; target is {why_other}"
    return Choice(what, {"tokenizer": {"joint": joint, "source": source, "target": target}}, reason)


def _joint_tokenizer(kinds: Sequence[str], report: Statistics, reason: str) -> Choice:
    """Choose one tokenizer for a model that needs the same ids on both sides."""
    kind = kinds[0] if kinds[0] == kinds[1] else "bpe" if "bpe" in kinds else "characters"
    table = _tokenizer([kind, kind], report).table["tokenizer"]
    name = NAMES[kind][0].format(table["source"]["max_size"] if kind == "bpe" else 0)
    reason = f"the model {reason}"
    return Choice(f"one tokenizer: {name}", {"tokenizer": {**table, "joint": True}}, reason)


def _members(model: Mapping[str, Any]) -> int:
    """Return the requested number of models; a wrong number is refused when the model is built."""
    requested = model.get("members", 2 if model.get("kind") == "ensemble" else 1)
    return max(requested, 1) if isinstance(requested, int) else 1


def _model(
    pairs: int, words: bool, epochs: float, preset: str, members: int, *, share: bool | None
) -> Choice:
    """Choose the size and the dropout by the epochs of each member; share None: a decoder alone."""
    dropout = next(dropout for most, dropout in DROPOUT if epochs < most)
    reason = f"each pair is seen {times(epochs)}"
    if preset == "tiny-words":
        dropout = LITTLE
        reason += "; with so much training a Transformer is better at words than a recurrent model"
    elif preset == "tiny-rnn":
        share = False
        reason += "; a recurrent model with attention learns words fastest"
    elif words or pairs < 200_000:
        reason = f"{pluralize(pairs, 'pair')}; {reason}; a larger model would be too slow or overfit"
    else:
        preset, reason = "small", f"{pluralize(pairs, 'pair')}; {reason}"
    table: dict[str, Any] = {"preset": preset, "dropout": dropout}
    table |= {"kind": ALONE} if share is None else {"share": share}
    what = f"model {preset}, dropout {dropout}"
    if members > 1:
        table |= {"kind": "ensemble", "members": members}
        what, reason = f"{members} models {preset}, dropout {dropout}", f"{reason}; {members} are requested"
    return Choice(what, {"model": table}, reason)


def _batch(pairs: int, words: bool, preset: str, *, long: bool) -> Choice:
    tokens = 1024 if long else 512 if words else 1536 if pairs < 200_000 else 4096
    rate = 2e-3 if words else FAST["rate"] if preset == "tiny" else 3e-3
    optimizer: dict[str, Any] = {"kind": "adamw", "rate": rate}
    what = f"{tokens} target tokens per batch, in {CORES} parts for up to {CORES} cores, rate {rate:g}"
    if preset == "tiny" and not words:
        optimizer |= FAST
        what += f", {FAST['embedding_rate']:g} times that for embeddings"
    reason = "on small data more steps beat larger batches"
    if long or tokens == 4096:
        reason = "there is much to read"
    if long:
        optimizer["decay"] = DECAY
        what += f", decay {DECAY:g}"
    table = {"tokens": tokens, "accumulate": CORES, "optimizer": optimizer}
    return Choice(what, {"training": table}, reason)


def _time(pairs: int, words: bool) -> Choice:
    minutes = 5.0 if words and pairs < 20_000 else 10.0 if words else 20.0
    reason = "usual for pairs of this kind and number; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _metric(kinds: Sequence[str], training: Mapping[str, Any], length: float, most: float) -> Choice:
    """Choose how often and by what the training is validated; `most` sources can be decoded.

    The more outputs, the less chance decides: one standard error of 300 words is 2.7 points, of 2,000 one,
    more than the last half of a training may gain.
    """
    minutes, decoded = training.get("minutes"), 300
    validations = min(max(training.get("steps", 1000) // 50, 3), 20)
    if minutes:
        validations = min(max(round((1.5 if "bpe" in kinds else 4) * minutes), 3), 20)
        tokens = DECODING * minutes * 60 * GREEDY / validations
        decoded = round(min(max(tokens / length, 100), 6000))
    metric, name, reason = "exact_match", "exact match", "an output of this kind is right or wrong"
    if kinds[1] == "bpe":
        metric, name, reason = "chrf", "chrF", "a sentence can be right in many ways"
    table = {"training": {"metric": metric, "validations": validations, "decode": decoded}}
    several = "all" if decoded >= most else f"up to {decoded:,}"
    what = f"about {validations} validations, by the {name} of {several} greedy outputs"
    return Choice(what, table, reason)

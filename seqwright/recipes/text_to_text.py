"""What a data set needs: from its size, lengths and alphabets to a complete configuration, with a reason for
each choice.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seqwright.config.presets import PRESETS
from seqwright.config.recipe import Choice, Recipe
from seqwright.data.checks.statistics import Statistics, TextColumn
from seqwright.data.read_report import Pair
from seqwright.data.survey import Survey
from seqwright.data.text_display import pluralize

ENDS = {"minutes", "steps", "epochs"}
SPEED = 8000  # target tokens a second of `tiny` on two cores, roughly
GREEDY = 3000  # tokens a second of greedy search with one thread, roughly
DECODING = 0.05  # the share of the time that validations have for it
PIECES = 1.3  # subwords in a word
DROPOUT = (  # below so many passes at the usual speed; the forecast counts them at that of the day
    (1, "hardly ever", 0.0),
    (5, "seldom", 0.0),
    (15, "a few times", 0.1),
    (40, "often", 0.2),
    (math.inf, "very often", 0.3),
)
LITTLE = 0.1  # dropout of a Transformer of many words
DECAY = 0.05  # of its weights
PARTS = 2  # of a batch, each for a core of its own
HELD_OUT = 2500  # sources in each held-out part, at most
SYMBOLS = 400  # a side of at most so many different words that are short, or come often, has symbols
OFTEN = 100  # times that a word comes on average
SYLLABLES = 2000  # a side of at most so many different words that are short, and hardly one of them rare, too
LONG = 50_000, 20  # pairs and passes from which on a Transformer learns words better, in larger batches
NO_PARTS = {"dropout", "kind", "members"}  # options of a model that say nothing of its parts
COMPOSED = 3  # characters to a letter, from which on a script counts as one that composes them


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    return choose_for(survey.report, survey.sample, requested)


def choose_for(report: Statistics, sample: Sequence[Pair], asked: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe for pairs like these; what is `asked` in so many words, when training ends, say, is not
    chosen.
    """
    asked = asked or {}
    kinds = [
        _kind(report.source, [pair.source for pair in sample]),
        _kind(report.target, [p.target for p in sample]),
    ]
    words, ending = "bpe" not in kinds, asked.get("training", {})
    time = [] if ENDS & ending.keys() else [_time(report.pairs, words)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    length = _length(report, kinds[1])
    passes = _passes(report.pairs * length, ends)
    tokenizer = _tokenizer(kinds, report)
    joint = tokenizer.table["tokenizer"]["joint"]
    model = asked.get("model", {})
    free = not model.keys() - NO_PARTS  # options of parts are those of Transformers
    many = report.pairs >= LONG[0] and passes >= LONG[1] and not asked.get("start")
    long = words and many and model.get("preset", "tiny-words") in {"tiny", "tiny-words"}
    preset = "tiny-words" if long else "tiny-rnn" if words and free else "tiny"
    members = _members(model)
    each = passes / members if ends.get("minutes") else passes  # steps and epochs are those of each model
    chosen = _model(report.pairs, words, each, preset, members, share=joint and _shares(asked))
    choices = [tokenizer, chosen, _batch(report.pairs, words, long=long), *time]
    data = asked.get("data", {})
    if data.get("valid"):
        return Recipe((*choices, _judge(kinds, ends, length * members, most=math.inf)))
    held_out = _held_out(report.sources, tested=bool(data.get("test")))
    share = data.get("held_out", held_out.table["data"]["held_out"])
    return Recipe((*choices, _judge(kinds, ends, length * members, most=share * report.sources), held_out))


def _length(report: Statistics, kind: str) -> float:
    """Tokens of a target with its end, about."""
    target = report.target
    lengths = {"symbols": target.words.mean, "bpe": PIECES * target.words.mean}
    return lengths.get(kind, target.characters.mean) + 1


def _passes(tokens: float, training: Mapping[str, Any]) -> float:
    """How often each pair will be read, about: what decides between learning by heart and not learning."""
    if training.get("epochs"):
        return float(training["epochs"])
    if training.get("steps"):
        return training["steps"] * training.get("tokens", 512) / tokens
    return training["minutes"] * 60 * SPEED / tokens


def _kind(side: TextColumn, texts: Sequence[str]) -> str:
    """symbols (phonemes and their kin), bpe (sentences), or for single words characters, or their letters
    where a script composes many characters of few.
    """
    said = [word for text in texts for word in text.split()]
    different = len(set(said))
    words = max(side.words.mean, 1e-9)
    letters = (side.characters.mean - (words - 1)) / words  # in a word
    if words >= 2 and different <= SYMBOLS and (letters <= 3 or len(said) >= OFTEN * different):
        return "symbols"
    if words >= 2 and letters <= 4 and _closed(texts):
        return "symbols"
    if words >= 2:
        return "bpe"
    letters_only = set(unicodedata.normalize("NFD", "".join(side.alphabet)))
    return "letters" if len(letters_only) <= len(side.alphabet) / COMPOSED else "characters"


def _closed(texts: Sequence[str]) -> bool:
    """Whether the words are a closed set, such as the syllables of a language: most have come several times
    already. In running text about half of the different words come once, however much of it there is (Zipf).
    """
    counts = Counter(word for text in set(texts) for word in text.split())
    once = sum(count == 1 for count in counts.values())
    return len(counts) <= SYLLABLES and counts.total() >= 10 * len(counts) and 5 * once <= len(counts)


def _tokenizer(kinds: Sequence[str], report: Statistics) -> Choice:
    joint = kinds[0] == kinds[1] and report.shared_alphabet >= 0.5
    tables: list[Any] = [
        {"kind": "bpe", "max_size": _subwords(report.pairs)} if kind == "bpe" else kind for kind in kinds
    ]
    named = {
        "symbols": "symbols between spaces",
        "characters": "characters",
        "letters": "letters, into which its characters are taken apart",
        "bpe": f"BPE with {_subwords(report.pairs):,} pieces",
    }
    if joint:
        what = f"one tokenizer: {named[kinds[0]]}"
        reason = f"both sides are written alike (they share {report.shared_alphabet:.0%} of their characters)"
    else:
        what = f"source: {named[kinds[0]]}; target: {named[kinds[1]]}"
        reason = f"source is {_why(kinds[0])}; target is {_why(kinds[1])}"
        if kinds[0] == kinds[1]:
            what, reason = f"each side: {named[kinds[0]]}", f"both are {_why(kinds[0])}, written differently"
    return Choice(what, {"tokenizer": {"joint": joint, "source": tables[0], "target": tables[1]}}, reason)


def _why(kind: str) -> str:
    return {
        "symbols": "made of few different words",
        "characters": "mostly single words",
        "letters": "mostly single words, in many characters that are made of few letters",
        "bpe": "running text",
    }[kind]


def _subwords(pairs: int) -> int:
    for limit, size in ((5_000, 1_000), (20_000, 3_000), (200_000, 8_000), (1_000_000, 16_000)):
        if pairs < limit:
            return size
    return 32_000


def _members(model: Mapping[str, Any]) -> int:
    """How many models are asked for; what is wrong with the number is said when the model is made."""
    asked = model.get("members", 2 if model.get("kind") == "ensemble" else 1)
    return max(asked, 1) if isinstance(asked, int) else 1


def _model(pairs: int, words: bool, passes: float, preset: str, members: int, *, share: bool) -> Choice:
    """`passes` are those of each of the `members`."""
    often, dropout = next(chosen for most, *chosen in DROPOUT if passes < most)
    reason = f"a pair comes again {often} in this training"
    if preset == "tiny-words":
        dropout = LITTLE
        reason += "; so a Transformer overtakes the recurrent model, which learns words soonest"
    elif preset == "tiny-rnn":
        share = False
        reason += "; a recurrent model with attention learns words soonest"
    elif words or pairs < 200_000:
        larger = "a larger one would be too slow for the time or learn them by heart"
        reason = f"{pluralize(pairs, 'pair')}; {reason}; {larger}"
    else:
        preset, reason = "small", f"{pluralize(pairs, 'pair')}; {reason}"
    table: dict[str, Any] = {"preset": preset, "share": share, "dropout": dropout}
    what = f"model {preset}, dropout {dropout}"
    if members > 1:
        table |= {"kind": "ensemble", "members": members}
        what = f"{members} models {preset}, dropout {dropout}"
        reason += f"; {members} were asked for"
    return Choice(what, {"model": table}, reason)


def _shares(asked: Mapping[str, Any]) -> bool:
    """Whether the preset that is asked for is one with an embedding for both sides."""
    named = asked.get("model", {}).get("preset")
    return named not in PRESETS or bool(PRESETS[named].model.get("share"))


def _batch(pairs: int, words: bool, *, long: bool) -> Choice:
    tokens = 1024 if long else 512 if words else 1536 if pairs < 200_000 else 4096
    rate = 3e-3 if tokens >= 1536 else 2e-3
    optimizer: dict[str, Any] = {"kind": "adamw", "rate": rate}
    what = f"{tokens} target tokens a batch, in {PARTS} parts for up to {PARTS} cores, rate {rate:g}"
    reason = "on small data more steps beat larger batches"
    if long or tokens == 4096:
        reason = "there is much to read"
    if long:
        optimizer["decay"] = DECAY
        what += f", decay {DECAY:g}"
    table = {"tokens": tokens, "accumulate": PARTS, "optimizer": optimizer}
    return Choice(what, {"training": table}, reason)


def _time(pairs: int, words: bool) -> Choice:
    minutes = 5.0 if words and pairs < 20_000 else 10.0 if words else 20.0
    return Choice(
        f"{minutes:g} minutes of training",
        {"training": {"minutes": minutes}},
        "usual for pairs of this kind and number; --minutes changes it",
    )


def _held_out(sources: int, *, tested: bool) -> Choice:
    """As many as tell scores that are a few points apart, of small data no more than a tenth."""
    share = 0.1 if sources < 5_000 else max(min(0.05, HELD_OUT / sources), 1e-5)
    return Choice(
        f"{100 * share:.2g} % of the sources held out" + ("" if tested else ", and as many again"),
        {"data": {"held_out": share}},
        "to choose the best model by" + ("" if tested else ", and for the final score"),
    )


def _validations(training: Mapping[str, Any], words: bool) -> int:
    """How often: each takes seconds, which a short training has not."""
    if training.get("minutes"):
        return min(max(round((4 if words else 1.5) * training["minutes"]), 3), 20)
    return min(max(training.get("steps", 1000) // 50, 3), 20)


def _decoded(training: Mapping[str, Any], validations: int, length: float) -> int:
    """How many at a validation: the more, the less the choice of the best is chance. One standard error of
    300 words is 2.7 points, of 2,000 one: more than the last half of a training may win.
    """
    if not training.get("minutes"):
        return 300
    tokens = DECODING * training["minutes"] * 60 * GREEDY / validations
    return round(min(max(tokens / length, 100), 6000))


def _judge(kinds: Sequence[str], training: Mapping[str, Any], length: float, most: float) -> Choice:
    """`most` sources can be decoded, about."""
    validations = _validations(training, "bpe" not in kinds)
    decoded = _decoded(training, validations, length)
    metric, named, reason = "exact_match", "exact matches", "an output of this kind is right or wrong"
    if kinds[1] == "bpe":
        metric, named, reason = "chrf", "chrF", "sentences can be right in many ways"
    table = {"training": {"metric": metric, "validations": validations, "decode": decoded}}
    several = "all" if decoded >= most else f"up to {decoded:,}"
    what = f"about {validations} validations, judged by {named} of {several} greedy outputs"
    return Choice(what, table, reason)

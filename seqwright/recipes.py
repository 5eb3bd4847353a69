"""What a data set needs: from its size, lengths and alphabets to a complete configuration, with a reason for
each choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seqwright.data.checking import Report, Side
from seqwright.data.fields import has_fields
from seqwright.data.tally import Pair

SAMPLE = 5000  # pairs that are looked at for the kind of the sides
SYMBOLS = 400  # a side of at most so many different short words is written in symbols


@dataclass(frozen=True)
class Choice:
    """One decision: the keys that it sets, and in words what and why."""

    what: str
    table: dict[str, Any]
    reason: str


@dataclass(frozen=True)
class Recipe:
    choices: tuple[Choice, ...]

    def table(self) -> dict[str, Any]:
        """All choices as one configuration."""
        result: dict[str, Any] = {}
        for choice in self.choices:
            _merge(result, choice.table)
        return result


def choose(report: Report, sample: Sequence[Pair], minutes: float | None = None) -> Recipe:
    """A recipe for pairs like these. `minutes`, if given, is the time to train."""
    kinds = [
        _kind(report.source, [pair.source for pair in sample]),
        _kind(report.target, [p.target for p in sample]),
    ]
    words = "bpe" not in kinds
    tokenizer = _tokenizer(kinds, report)
    model = _model(report.pairs, words, joint=tokenizer.table["tokenizer"]["joint"])
    return Recipe(
        (tokenizer, model, _batch(report.pairs, words), _time(report.pairs, words, minutes), _judge(kinds))
    )


def _kind(side: Side, texts: Sequence[str]) -> str:
    """symbols (phonemes and their kin), characters (single words), or bpe (sentences)."""
    different = {word for text in texts for word in text.split()}
    words = max(side.words.mean, 1e-9)
    letters = (side.characters.mean - (words - 1)) / words  # in a word
    if words >= 2 and letters <= 3 and len(different) <= SYMBOLS:
        return "symbols"
    return "characters" if words < 2 or any(map(has_fields, texts[:10])) else "bpe"


def _tokenizer(kinds: Sequence[str], report: Report) -> Choice:
    joint = kinds[0] == kinds[1] and report.shared_alphabet >= 0.5
    tables: list[Any] = [
        {"kind": "bpe", "max_size": _subwords(report.pairs)} if kind == "bpe" else kind for kind in kinds
    ]
    named = {
        "symbols": "symbols between spaces",
        "characters": "characters",
        "bpe": f"BPE with {_subwords(report.pairs):,} pieces",
    }
    if joint:
        what = f"one tokenizer: {named[kinds[0]]}"
        reason = f"both sides are written alike (they share {report.shared_alphabet:.0%} of their characters)"
    else:
        what = f"source: {named[kinds[0]]}; target: {named[kinds[1]]}"
        reason = "; ".join(
            f"{side} {_why(kind)}" for side, kind in zip(("source", "target"), kinds, strict=True)
        )
    return Choice(what, {"tokenizer": {"joint": joint, "source": tables[0], "target": tables[1]}}, reason)


def _why(kind: str) -> str:
    return {
        "symbols": "has few different short words",
        "characters": "is mostly single words",
        "bpe": "is running text",
    }[kind]


def _subwords(pairs: int) -> int:
    for limit, size in ((5_000, 1_000), (20_000, 3_000), (200_000, 8_000), (1_000_000, 16_000)):
        if pairs < limit:
            return size
    return 32_000


def _model(pairs: int, words: bool, *, joint: bool) -> Choice:
    preset = "tiny" if pairs < 200_000 or words else "small"
    dropout = 0.3 if pairs < 12_000 else 0.2 if pairs < 60_000 else 0.1
    table: dict[str, Any] = {"preset": preset, "share": joint, "dropout": dropout}
    reason = (
        f"{pairs:,} pairs; a larger one would learn them by heart" if preset == "tiny" else f"{pairs:,} pairs"
    )
    return Choice(f"model {preset}, dropout {dropout}", {"model": table}, reason)


def _batch(pairs: int, words: bool) -> Choice:
    tokens = 512 if words else 1536 if pairs < 200_000 else 4096
    rate = 3e-3 if tokens >= 1536 else 2e-3
    table = {"tokens": tokens, "optimizer": {"kind": "adamw", "rate": rate}}
    reason = "on small data more steps beat larger batches" if tokens < 4096 else "there is much to read"
    return Choice(f"{tokens} target tokens a batch, rate {rate:g}", {"training": table}, reason)


def _time(pairs: int, words: bool, minutes: float | None) -> Choice:
    reason = "as asked"
    if minutes is None:
        minutes = 5.0 if words and pairs < 20_000 else 10.0 if words else 20.0
        reason = "enough for pairs of this kind and number; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _judge(kinds: Sequence[str]) -> Choice:
    if kinds[1] == "bpe":
        return Choice(
            "the best by chrF", {"training": {"metric": "chrf"}}, "sentences can be right in many ways"
        )
    return Choice(
        "the best by exact matches",
        {"training": {"metric": "exact_match"}},
        "an output of this kind is right or wrong",
    )


def _merge(into: dict[str, Any], table: dict[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value

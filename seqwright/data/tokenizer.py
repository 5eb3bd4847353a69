"""Tokenizers: text to ids and back, one JSON file each.

Ids 0 to 3 are pad, unk, begin and end. They have no spelling, so no text can turn into one of them: `</s>` in
a text is four characters like any others. Entries follow from id 4 on, after the 256 bytes where a tokenizer
has them. An entry is a piece of text, or a marker of `seqwright.data.fields`, whose first character cannot
occur in a piece.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from seqwright.config.registry import Registry, options_of, snake_case, unknown
from seqwright.data.fields import FIELD, SYMBOL, split_parts
from seqwright.errors import ConfigError, InputError, ModelError, SeqwrightError
from seqwright.files import write_text

PAD, UNK, BEGIN, END = range(4)
FIRST = 4
FORMAT = 1
UNKNOWN_TEXT = "\N{DOUBLE QUESTION MARK}"

TOKENIZERS = Registry("tokenizer", "seqwright.data.tokenizers", "seqwright.data.tokenizer:Tokenizer")


class Piece(NamedTuple):
    """The text that an id stands for: `text == whole[start:end]`.

    The bytes of a character share its span; the space that some kinds put before a text has an empty one.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Vocabulary:
    """Entries in the order of their ids, and what some kinds learn beside them."""

    entries: tuple[str, ...] = ()
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """How much of a text a tokenizer does not know, and what most often."""

    tokens: int
    unknown: int
    most_common: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        return self.unknown / max(1, self.tokens)


@dataclass(frozen=True)
class Losses:
    """Texts that do not come back as they were: because of unknown pieces, of spacing alone, or in all."""

    texts: int
    changed: int
    unknown: int
    spacing: int


class Tokenizer(ABC):
    """Without a vocabulary it knows nothing; `learned` makes one that does, `grown` one that knows more.

    The options of a kind are the keyword-only arguments of its constructor, each kept as an attribute of its
    name.
    """

    byte_fallback: bool = False
    """Whether the ids from 4 on are the 256 bytes, for what the entries do not know."""

    def __init__(self, vocabulary: Vocabulary | None = None):
        self.vocabulary = vocabulary or Vocabulary()
        self._first = FIRST + 256 * self.byte_fallback
        self._ids = {entry: self._first + k for k, entry in enumerate(self.vocabulary.entries)}
        if len(self._ids) < len(self.vocabulary.entries):
            twice = [entry for entry, count in Counter(self.vocabulary.entries).items() if count > 1]
            raise ModelError(
                f"tokenizer entries come twice: {', '.join(map(repr, twice[:5]))}; learn it again"
            )

    # What a kind provides -------------------------------------------------------------------------

    @abstractmethod
    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text. Texts are not empty and hold no markers."""

    @abstractmethod
    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where each of those ids stands in its text."""

    @abstractmethod
    def _join(self, pieces: list[str]) -> str:
        """The text of a run of pieces, the inverse of `_encode_texts`."""

    @abstractmethod
    def _learn(self, texts: Iterator[str]) -> Vocabulary: ...

    @abstractmethod
    def _units(self, text: str) -> Iterable[str]:
        """The smallest pieces that a vocabulary can grow by."""

    # Encoding -------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return snake_case(type(self).__name__)

    @property
    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in options_of(type(self))}

    @property
    def size(self) -> int:
        """The number of ids."""
        return self._first + len(self.vocabulary.entries)

    def encode(self, text: str) -> list[int]:
        """Ids without begin and end."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; many at once are faster."""
        divided = [split_parts(text) for text in texts]
        encoded = iter(self._encode_texts([part for parts in divided for part in parts[::2] if part]))
        return [self._with_markers(parts, encoded) for parts in divided]

    def encode_sampled(self, text: str, seed: int) -> list[int]:
        """One of the ways to encode a text, drawn by the seed; kinds with only one way return that."""
        return self.encode(text)

    def pieces(self, text: str) -> list[Piece]:
        """What the ids of `encode` stand for, one by one."""
        found, position = [], 0
        for number, part in enumerate(split_parts(text)):
            spans = [(0, len(part))] if number % 2 else self._spans(part) if part else []
            found += [Piece(part[start:end], position + start, position + end) for start, end in spans]
            position += len(part)
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; pad, begin and end have none, and an unknown becomes ⁇."""
        parts: list[str] = []
        pieces: list[str] = []
        raw = bytearray()
        for number in ids:
            if raw and not FIRST <= number < self._first:
                pieces.append(raw.decode("utf-8", "replace"))
                raw.clear()
            if number == UNK:
                pieces.append(UNKNOWN_TEXT)
            elif FIRST <= number < self._first:
                raw.append(number - FIRST)
            elif number >= FIRST:
                entry = self._entry(number)
                if entry[0] in (FIELD, SYMBOL):
                    parts += [self._join(pieces) if pieces else "", entry]
                    pieces = []
                else:
                    pieces.append(entry)
        if raw:
            pieces.append(raw.decode("utf-8", "replace"))
        return "".join([*parts, self._join(pieces) if pieces else ""])

    def _entry(self, number: int) -> str:
        if number >= self.size:
            raise InputError(
                f"id {number} is not one of the tokenizer's {self.size}; is it from another one?"
            )
        return self.vocabulary.entries[number - self._first]

    def _with_markers(self, parts: list[str], encoded: Iterator[list[int]]) -> list[int]:
        if len(parts) == 1:
            return next(encoded) if parts[0] else []
        ids: list[int] = []
        for number, part in enumerate(parts):
            if number % 2:
                ids.append(self._ids.get(part, UNK))
            elif part:
                ids += next(encoded)
        return ids

    # Learning -------------------------------------------------------------------------------------

    def learned(self, texts: Iterable[str]) -> Self:
        """A tokenizer with the same options and a vocabulary from these texts, which are read once."""
        markers: set[str] = set()
        vocabulary = self._learn(_plain_parts(texts, markers))
        if not (vocabulary.entries or markers or self.byte_fallback):
            raise InputError(
                f"no text to learn a tokenizer of {self.kind} from; all texts are empty or too rare"
            )
        return self._with(_appended(vocabulary, sorted(markers)))

    def grown(self, texts: Iterable[str]) -> Self:
        """One that also knows what is new in these texts. Old ids keep their meaning; new ones follow."""
        markers: set[str] = set()
        units: Counter[str] = Counter()
        for part in _plain_parts(texts, markers):
            units.update(unit for unit in self._units(part) if unit not in self._ids)
        new = [unit for unit, _ in ranked(units)] + sorted(markers - self._ids.keys())
        return self._with(_appended(self.vocabulary, new))

    def _with(self, vocabulary: Vocabulary) -> Self:
        return type(self)(vocabulary, **self.options)

    # Looking --------------------------------------------------------------------------------------

    def count_unknown(self, texts: Iterable[str], examples: int = 10) -> Unknown:
        tokens, found = 0, Counter[str]()
        for text in texts:
            ids = self.encode(text)
            tokens += len(ids)
            if UNK in ids:
                found.update(
                    p.text for p, number in zip(self.pieces(text), ids, strict=True) if number == UNK
                )
        return Unknown(tokens, found.total(), tuple(ranked(found)[:examples]))

    def losses(self, texts: Iterable[str]) -> Losses:
        count = changed = lost = spacing = 0
        for text in texts:
            ids = self.encode(text)
            back = self.decode(ids)
            count += 1
            changed += back != text
            lost += UNK in ids
            spacing += back != text and "".join(back.split()) == "".join(text.split())
        return Losses(count, changed, lost, spacing)

    # Keeping --------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        entries, merges, scores = self.vocabulary.entries, self.vocabulary.merges, self.vocabulary.scores
        learned = {"entries": list(entries), "merges": list(map(list, merges)), "scores": list(scores)}
        return {"format": FORMAT, "kind": self.kind, "options": self.options, **learned}

    @property
    def fingerprint(self) -> str:
        """Equal for equal tokenizers, and for no others."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Written to the side and renamed, so that there is never half a file."""
        write_text(Path(path), self._text())

    def _text(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False, indent=0) + "\n"


def train_tokenizer(kind: str, texts: Iterable[str], **options: Any) -> Tokenizer:
    """A tokenizer of a kind (`TOKENIZERS.names()`) from texts of one side, or of both for a joint one."""
    return TOKENIZERS.build({"kind": kind, **options}).learned(texts)


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            return from_json(json.load(file))
    except OSError as error:
        raise ModelError(f"tokenizer {name} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise ModelError(f"{name} is not a tokenizer: {error}; was it copied whole?") from error
    except SeqwrightError as error:
        raise ModelError(f"tokenizer {name}: {error}") from error


def from_json(value: Mapping[str, Any]) -> Tokenizer:
    """The inverse of `Tokenizer.to_json`. A file is data: it cannot make us import a kind from outside."""
    if not isinstance(value, Mapping) or not isinstance(value.get("format"), int):
        raise ModelError("no format number: this is not a tokenizer of Seqwright")
    if value["format"] > FORMAT:
        raise ModelError(f"format {value['format']} is newer than this program's {FORMAT}; update Seqwright")
    kind, options = value.get("kind"), value.get("options")
    if kind not in TOKENIZERS.names() or not isinstance(options, Mapping):
        raise ModelError(unknown("tokenizer", str(kind), TOKENIZERS.names()))
    part = TOKENIZERS.get(kind)
    for key in options:
        if key not in options_of(part):
            raise ModelError(unknown(f"option of tokenizer {kind}", str(key), sorted(options_of(part))))
    return part(_vocabulary(value), **options)


def ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, equals by their text: an order that does not depend on that of the data."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def at_least(name: str, value: float, least: float) -> None:
    if not isinstance(value, int | float) or not least <= value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it must be at least {least}, and finite")


def probability(name: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value!r}; it must be between 0 and 1")


def utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"unpaired surrogate at position {error.start + 1} of {text[:40]!a}; replace it"
        ) from error


def _plain_parts(texts: Iterable[str], markers: set[str]) -> Iterator[str]:
    """The texts between the markers, which are collected on the way."""
    for text in texts:
        parts = split_parts(text)
        markers.update(parts[1::2])
        yield from filter(None, parts[::2])


def _appended(vocabulary: Vocabulary, new: Sequence[str]) -> Vocabulary:
    """New entries are as unlikely as the least likely old one."""
    scores = vocabulary.scores + (min(vocabulary.scores),) * len(new) if vocabulary.scores else ()
    return replace(vocabulary, entries=(*vocabulary.entries, *new), scores=scores)


def _vocabulary(value: Mapping[str, Any]) -> Vocabulary:
    entries, merges, scores = (value.get(key, []) for key in ("entries", "merges", "scores"))
    if not (isinstance(entries, list) and all(isinstance(entry, str) and entry for entry in entries)):
        raise ModelError("its entries are not a list of texts")
    if not isinstance(scores, list) or (scores and len(scores) != len(entries)):
        raise ModelError(f"it has {len(entries)} entries and not as many scores")
    if not isinstance(merges, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in merges):
        raise ModelError("its merges are not a list of pairs")
    return Vocabulary(
        tuple(entries), tuple((left, right) for left, right in merges), tuple(map(float, scores))
    )

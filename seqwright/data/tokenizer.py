"""Tokenizers: text to ids and back, one JSON file each.

Ids 0 to 3 are pad, unk, begin and end. They have no spelling, so no text can become one of them: `</s>` in a
text is four ordinary characters. Entries follow from id 4 on, or after the 256 bytes with byte fallback. An
entry is a piece of text, or a marker of `seqwright.data.fields`.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from seqwright.config.registry import Registry, check_options, options_of, snake_case, unknown
from seqwright.data.fields import FIELD, SYMBOL, split_parts
from seqwright.errors import InputError, ModelError, SeqwrightError, WriteError
from seqwright.files import MOST_JSON, read_json, write_text

PAD, UNK, BEGIN, END = range(4)
FIRST = 4
FORMAT = 1
MOST = 1 << 18  # ids of a tokenizer
LARGEST = 1e30  # score of an entry, without its sign; the library computes in floats
UNKNOWN_TEXT = "\N{DOUBLE QUESTION MARK}"

TOKENIZERS = Registry("tokenizer", "seqwright.data.tokenizers", "seqwright.data.tokenizer:Tokenizer")


class Piece(NamedTuple):
    """The text that an id stands for: `text == whole[start:end]`.

    The bytes of a character share its span. The space that some kinds put before a text has an empty span.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Vocabulary:
    """Entries in the order of their ids, and the merges or scores of some kinds."""

    entries: tuple[str, ...] = ()
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """The number of unknown tokens in texts, and the most common ones."""

    tokens: int
    unknown: int
    most_common: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        return self.unknown / max(1, self.tokens)


class Tokenizer(ABC):
    """Base of all kinds. `learned` returns one with a vocabulary from texts, `grown` one with more entries.

    The options of a kind are the keyword-only arguments of its constructor, stored under the same names.
    """

    byte_fallback: bool = False
    """Whether the ids from 4 on are the 256 bytes, which spell unknown characters."""

    spaced: bool = False
    """Whether a piece includes the space before it."""

    def __init__(self, vocabulary: Vocabulary | None = None):
        self.vocabulary = vocabulary or Vocabulary()
        self._first = FIRST + 256 * self.byte_fallback
        if self.size > MOST:
            raise ModelError(f"the tokenizer has {self.size:,} ids; the limit is {MOST:,}; lower max_size")
        for entry in self.vocabulary.entries:
            utf8(entry)  # what cannot be saved is refused
        self._ids = {entry: self._first + k for k, entry in enumerate(self.vocabulary.entries)}
        if len(self._ids) < len(self.vocabulary.entries):
            twice = [entry for entry, count in Counter(self.vocabulary.entries).items() if count > 1]
            entries = ", ".join(ascii(entry[:40]) for entry in twice[:5])
            raise ModelError(f"the tokenizer has duplicate entries: {entries}; train it again")

    # Methods of each kind -------------------------------------------------------------------------

    @abstractmethod
    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text. Texts are not empty and have no markers."""

    @abstractmethod
    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return the span of each of those ids in its text."""

    def _join(self, pieces: list[str]) -> str:
        """Return the text of consecutive pieces; the inverse of `_encode_texts`."""
        return "".join(pieces)

    @abstractmethod
    def _learn(self, texts: Iterator[str]) -> Vocabulary: ...

    @abstractmethod
    def _units(self, text: str) -> Iterable[str]:
        """Return the smallest pieces that can be added to a vocabulary."""

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
        """Return the ids of a text, without begin and end."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; faster than one call per text."""
        divided = [split_parts(text) for text in texts]
        encoded = iter(self._encode_texts([part for parts in divided for part in parts[::2] if part]))
        return [self._with_markers(parts, encoded) for parts in divided]

    def encode_sampled(self, text: str, seed: int) -> list[int]:
        """Return one possible encoding of a text, drawn by the seed; some kinds have only one."""
        return self.encode(text)

    def pieces(self, text: str) -> list[Piece]:
        """Return the pieces of the ids of `encode`, one for each."""
        found, position = [], 0
        for number, part in enumerate(split_parts(text)):
            spans = [(0, len(part))] if number % 2 else self._spans(part) if part else []
            found += [Piece(part[start:end], position + start, position + end) for start, end in spans]
            position += len(part)
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids. Pad, begin and end have none; unk becomes ⁇."""
        parts: list[str] = []
        pieces: list[str] = []
        raw = bytearray()
        for number in (*ids, PAD):  # the last one ends a run of bytes
            if raw and not FIRST <= number < self._first:
                pieces.append(raw.decode("utf-8", "replace"))
                raw.clear()
            if number == UNK:
                pieces.append(UNKNOWN_TEXT)
            elif FIRST <= number < self._first:
                raw.append(number - FIRST)
            elif number >= FIRST:
                if number >= self.size:
                    rule = f"id {number} is outside the tokenizer's {self.size} ids"
                    raise InputError(f"{rule}; is it from another tokenizer?")
                entry = self.vocabulary.entries[number - self._first]
                if entry[0] in (FIELD, SYMBOL):
                    parts += [self._join(pieces), entry]
                    pieces = []
                else:
                    pieces.append(entry)
        return "".join([*parts, self._join(pieces)])

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
        """Return a tokenizer with the same options and a vocabulary from these texts, which are read once."""
        markers: set[str] = set()
        vocabulary = self._learn(_plain_parts(texts, markers))
        if not (vocabulary.entries or markers or self.byte_fallback):
            rule = "all texts are empty, or their parts are too rare"
            raise InputError(f"no text to train a {self.kind} tokenizer; {rule}")
        return self._with(_appended(vocabulary, sorted(markers)))

    def grown(self, texts: Iterable[str]) -> Self:
        """Return a tokenizer that also knows the new parts of these texts. Old ids keep their meaning."""
        markers: set[str] = set()
        units: Counter[str] = Counter()
        for part in _plain_parts(texts, markers):
            units.update(unit for unit in self._units(part) if unit not in self._ids)
        new = [unit for unit, _ in ranked(units)] + sorted(markers - self._ids.keys())
        return self._with(_appended(self.vocabulary, new))

    def _with(self, vocabulary: Vocabulary) -> Self:
        return type(self)(vocabulary, **self.options)

    def count_unknown(self, texts: Iterable[str], examples: int = 10) -> Unknown:
        tokens, found = 0, Counter[str]()
        for text in texts:
            ids = self.encode(text)
            tokens += len(ids)
            if UNK in ids:
                pieces = zip(self.pieces(text), ids, strict=True)
                found.update(piece.text for piece, number in pieces if number == UNK)
        return Unknown(tokens, found.total(), tuple(ranked(found)[:examples]))

    # Saving ---------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        entries, merges, scores = self.vocabulary.entries, self.vocabulary.merges, self.vocabulary.scores
        learned = {"entries": list(entries), "merges": list(map(list, merges)), "scores": list(scores)}
        return {"format": FORMAT, "kind": self.kind, "options": self.options, **learned}

    @property
    def fingerprint(self) -> str:
        """A hash that is equal exactly for equal tokenizers."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically. What `load_tokenizer` would refuse is not written."""
        text = self._text()
        if len(text.encode()) > MOST_JSON:
            raise WriteError(f"{os.fspath(path)} would have more than {MOST_JSON:,} bytes; lower max_size")
        write_text(Path(path), text)

    def _text(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False, indent=0) + "\n"


def train_tokenizer(kind: str, texts: Iterable[str], **options: Any) -> Tokenizer:
    """Return a tokenizer of a kind (`TOKENIZERS.names()`) with a vocabulary from texts."""
    return TOKENIZERS.build({"kind": kind, **options}).learned(texts)


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    value = read_json(Path(path))
    try:
        return from_json(value)
    except SeqwrightError as error:
        raise ModelError(f"{os.fspath(path)} is not a tokenizer: {error}") from error


def from_json(value: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of `Tokenizer.to_json`. A file cannot import a kind from outside of Seqwright."""
    if not isinstance(value, Mapping) or not isinstance(value.get("format"), int):
        raise ModelError("it has no format number, so it is not a Seqwright tokenizer")
    if value["format"] > FORMAT:
        raise ModelError(f"its format is newer than this program's {FORMAT}; update Seqwright")
    kind, options = value.get("kind"), value.get("options")
    if kind not in TOKENIZERS.names() or not isinstance(options, Mapping):
        raise ModelError(unknown("tokenizer", str(kind)[:40], TOKENIZERS.names()))
    part = TOKENIZERS.get(kind)
    check_options(f"tokenizer {kind}", part, options)
    return part(_vocabulary(value), **options)


def ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """Sort by frequency, then by text, so that the order does not depend on the order of the data."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        message = f"unpaired surrogate at position {error.start + 1} of {text[:40]!a}; replace it"
        raise InputError(message) from error


def _plain_parts(texts: Iterable[str], markers: set[str]) -> Iterator[str]:
    """Yield the texts between the markers, and collect the markers."""
    for text in texts:
        parts = split_parts(text)
        markers.update(parts[1::2])
        yield from filter(None, parts[::2])


def _appended(vocabulary: Vocabulary, new: Sequence[str]) -> Vocabulary:
    """Return the vocabulary with new entries; each gets the lowest score of the old ones."""
    scores = vocabulary.scores + (min(vocabulary.scores),) * len(new) if vocabulary.scores else ()
    return replace(vocabulary, entries=(*vocabulary.entries, *new), scores=scores)


def _vocabulary(value: Mapping[str, Any]) -> Vocabulary:
    entries, merges, scores = (value.get(key, []) for key in ("entries", "merges", "scores"))
    if not _is_list(entries, lambda entry: _is_text(entry) and entry != ""):
        raise ModelError("its entries are not a list of non-empty texts")
    if not _is_list(merges, lambda pair: _is_list(pair, _is_text) and len(pair) == 2):
        raise ModelError("its merges are not a list of pairs of texts")
    if not _is_list(scores, lambda score: type(score) in (int, float) and abs(score) < LARGEST):
        raise ModelError("its scores are not a list of finite numbers")
    if scores and len(scores) != len(entries):
        raise ModelError(f"it has {len(entries)} entries, but another number of scores")
    pairs = tuple((left, right) for left, right in merges)
    return Vocabulary(tuple(entries), pairs, tuple(map(float, scores)))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any, accepts: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(accepts, value))

"""Sentences of a text, by a rule: what a hierarchical encoder reads one by one.

A sentence ends
- at a line break, written as such or as the `<br>` of HTML, which belongs to no sentence;
- after `.`, `!`, `?` or `…`, repeated or not, and closing quotes and brackets, before white space that is not
  followed by a lower-case letter;
- after `。`, `！` or `？`, with or without white space.

A single period does not end one after an abbreviation (`ABBREVIATIONS`, or `BEFORE_NUMBERS` before a digit),
after upper-case initials (J. R. R. Tolkien, U.S.) other than I, or after the number with which the sentence
begins (1. Introduction).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

# fmt: off
ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "mx", "dr", "prof", "st", "sr", "jr", "mt", "rev", "hon", "gen", "col", "maj", "capt",
    "lt", "sgt", "sen", "rep", "gov", "pres", "vs", "cf", "e.g", "i.e", "viz", "dept", "approx",
))
BEFORE_NUMBERS = frozenset(("no", "nr", "nos", "fig", "eq", "sec", "ch", "p", "pp", "vol", "art"))
# fmt: on
LONGEST = 16  # characters before a period that are looked at

_LINES = re.compile(r"<br\s*/?>|[\n\r\v\f\x85\u2028\u2029]", re.IGNORECASE)
_STOPS = re.compile(r"(?<![.!?…])(?P<stop>[.!?…]++)[\"'”’»)\]}]*+(?=\s)|[。！？]+[”’」』）]*")
_NEXT = re.compile(r"\s*(\S?)")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]\Z")


class Span(NamedTuple):
    """A sentence: `text == whole[start:end]`, without white space around it."""

    text: str
    start: int
    end: int


def split_sentences(text: str) -> list[Span]:
    """Return the sentences of a text in order; none is empty."""
    found, begin = [], 0
    for line in (*_LINES.finditer(text), None):
        stop = len(text) if line is None else line.start()
        for start, end in _sentences(text[begin:stop]):
            sentence = text[begin + start : begin + end].strip()
            if sentence:
                at = text.index(sentence, begin + start)
                found.append(Span(sentence, at, at + len(sentence)))
        begin = stop if line is None else line.end()
    return found


def _sentences(line: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _STOPS.finditer(line):
        following = _NEXT.match(line, match.end())[1]  # type: ignore[index]
        if match["stop"] is not None and following.islower():
            continue
        if match[0] == "." and _abbreviates(line, start, match.start(), following):
            continue
        yield start, match.end()
        start = match.end()
    yield start, len(line)


def _abbreviates(line: str, start: int, stop: int, following: str) -> bool:
    """Whether the period at `stop` does not end the sentence from `start` on."""
    before = line[max(start, stop - LONGEST) : stop]
    word = re.split(r"[^\w.]", before)[-1]
    if word.isdigit() and line[start:stop].strip() == word:
        return True
    if word.isupper() and _INITIALS.match(word):
        return word != "I"
    return word.lower() in ABBREVIATIONS or (word.lower() in BEFORE_NUMBERS and following.isdigit())


@dataclass(frozen=True)
class SentenceLimits:
    """Limits of a text that is read by sentences, in tokens and sentences.

    tokens: of a sentence; a longer one is cut into several, so that nothing is lost. sentences: of a text;
    `total`: tokens of a text. What exceeds these two is not read.
    """

    tokens: int
    sentences: int
    total: int

    def cut(self, sentences: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        """Return what is read of the ids of sentences; empty ones are left out."""
        n = self.tokens
        runs = (ids[i : i + n] for ids in sentences for i in range(0, len(ids), n))
        kept, room = [], self.total
        for run in islice(runs, self.sentences):
            kept.append(run[:room])
            room -= len(kept[-1])
            if not room:
                break
        return kept

"""Pieces, words and where they stand in a text: how a trace names what a model reads and says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from seqwright.data.fields import FIELD, SYMBOL
from seqwright.data.tokenizer import BEGIN, END, FIRST, PAD, UNK, Piece, Tokenizer

WORD = re.compile(f"{FIELD}|{SYMBOL}[^{FIELD}{SYMBOL}]*|[^\\s{FIELD}{SYMBOL}]+")
NAMES = {PAD: "⟨pad⟩", UNK: "⟨unknown⟩", BEGIN: "⟨begin⟩", END: "⟨end⟩"}


def text_pieces(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """A text that is given, as the model reads it: its pieces and the end."""
    return _described(text, tokenizer.encode(text), tokenizer.pieces(text), ended=True)


def target_pieces(tokenizer: Tokenizer, ids: Sequence[int], text: str, *, ended: bool) -> dict[str, Any]:
    """What a decoder said: ids without the end, and the text that they make."""
    return _described(text, ids, locate(tokenizer, ids), ended=ended)


def locate(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Piece]:
    """Where each id stands in `decode(ids)`, also where `encode` would have cut that text otherwise."""
    whole = tokenizer.decode(ids)
    if tokenizer.encode(whole) == list(ids):
        return tokenizer.pieces(whole)
    ends = [_agreement(tokenizer.decode(ids[:count]), whole) for count in range(len(ids) + 1)]
    ends[-1] = len(whole)
    for place in range(len(ids) - 1, 0, -1):  # a character that is not whole yet has not ended
        ends[place] = min(ends[place], ends[place + 1])
    spans = list(pairwise(ends))
    for place in range(len(ids) - 2, -1, -1):  # the bytes of one character share its span
        if spans[place][0] == spans[place][1] and _is_byte(tokenizer, ids[place]):
            spans[place] = spans[place + 1]
    return [Piece(whole[start:end], start, end) for start, end in spans]


def symbol_text(tokenizer: Tokenizer, number: int) -> str:
    """How an id is shown where it stands alone: an entry as it is, with its space if it begins with one."""
    if number in NAMES:
        return NAMES[number]
    if _is_byte(tokenizer, number):
        return f"⟨{number - FIRST:02x}⟩"
    entries = tokenizer.vocabulary.entries
    return entries[number - (tokenizer.size - len(entries))]


def _is_byte(tokenizer: Tokenizer, number: int) -> bool:
    return tokenizer.byte_fallback and FIRST <= number < FIRST + 256


def _agreement(begun: str, whole: str) -> int:
    """How many characters two texts have in common before they differ."""
    if whole.startswith(begun):
        return len(begun)
    return next(place for place, (a, b) in enumerate(zip(begun, whole, strict=False)) if a != b)


def _described(text: str, ids: Sequence[int], pieces: Sequence[Piece], *, ended: bool) -> dict[str, Any]:
    words = [match.span() for match in WORD.finditer(text)]
    found: list[dict[str, Any]] = []
    for number, piece in zip(ids, pieces, strict=True):
        found.append({"id": number, "text": text[piece.start : piece.end], "start": piece.start})
        found[-1] |= {"end": piece.end, "word": _word(text, piece, words)}
        if number == UNK:
            found[-1]["special"] = "unknown"
    if ended:
        place = {"start": len(text), "end": len(text), "word": None}
        found.append({"id": END, "text": "", **place, "special": "end"})
    return {
        "pieces": found,
        "words": [{"text": text[start:end], "start": start, "end": end} for start, end in words],
    }


def _word(text: str, piece: Piece, words: Sequence[tuple[int, int]]) -> int | None:
    """The word of the first character that is not white space."""
    place = next((k for k in range(piece.start, piece.end) if not text[k].isspace()), None)
    if place is None:
        return None
    return next((number for number, (start, end) in enumerate(words) if start <= place < end), None)

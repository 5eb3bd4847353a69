"""Pieces and words of a text with their positions, as a trace stores them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rapidfuzz.distance import Prefix

from seqwright.data.fields import FIELD, SYMBOL, places_read
from seqwright.data.tokenizer import BEGIN, END, FIRST, PAD, UNK, Piece, Tokenizer

WORD = re.compile(f"{FIELD}|{SYMBOL}[^{FIELD}{SYMBOL}]*|[^\\s{FIELD}{SYMBOL}]+")
NAMES = {PAD: "⟨pad⟩", UNK: "⟨unknown⟩", BEGIN: "⟨begin⟩", END: "⟨end⟩"}


def text_pieces(
    tokenizer: Tokenizer, text: str, limit: int | None = None, separator: int | None = None
) -> dict[str, Any]:
    """The pieces of a given text as the model reads them, at most `limit`, with the end token. separator: the
    id between two texts.
    """
    ids, pieces = tokenizer.encode(text), tokenizer.pieces(text)
    unread = {} if limit is None else {"unread": max(0, len(ids) - limit)}
    places = places_read(ids, len(ids) if limit is None else limit, separator)
    read = [ids[place] for place in places], [pieces[place] for place in places]
    return {**piece_entries(text, *read, ended=True), **unread}


def locate(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Piece]:
    """The span of each id in `decode(ids)`, even if `encode` would cut that text differently."""
    whole = tokenizer.decode(ids)
    if tokenizer.encode(whole) == list(ids):
        return tokenizer.pieces(whole)
    ends = [Prefix.similarity(tokenizer.decode(ids[:count]), whole) for count in range(len(ids))]
    ends.append(len(whole))
    for place in range(len(ids) - 1, 0, -1):  # an incomplete character has not ended
        ends[place] = min(ends[place], ends[place + 1])
    spans = list(pairwise(ends))
    for place in range(len(ids) - 2, -1, -1):  # the bytes of one character share its span
        if spans[place][0] == spans[place][1] and _is_byte(tokenizer, ids[place]):
            spans[place] = spans[place + 1]
    return [Piece(whole[start:end], start, end) for start, end in spans]


def symbol_text(tokenizer: Tokenizer, number: int) -> str:
    """The text that represents a single id: the vocabulary entry, with its leading space if it has one."""
    if number in NAMES:
        return NAMES[number]
    if _is_byte(tokenizer, number):
        return f"⟨{number - FIRST:02x}⟩"
    entries = tokenizer.vocabulary.entries
    return entries[number - (tokenizer.size - len(entries))]


def _is_byte(tokenizer: Tokenizer, number: int) -> bool:
    return tokenizer.byte_fallback and FIRST <= number < FIRST + 256


def piece_entries(text: str, ids: Sequence[int], pieces: Sequence[Piece], *, ended: bool) -> dict[str, Any]:
    """The pieces of a text, or of the part that is read, and the words that they touch. ids: without the end
    token.
    """
    words = _words(text, pieces)
    starts = [start for start, _ in words]
    found: list[dict[str, Any]] = [
        {
            "id": number,
            "text": text[piece.start : piece.end],
            "start": piece.start,
            "end": piece.end,
            "word": _word(text, piece, words, starts),
            **({"special": "unknown"} if number == UNK else {}),
        }
        for number, piece in zip(ids, pieces, strict=True)
    ]
    if ended:
        found.append(end_piece(text))
    spans = [{"text": text[start:end], "start": start, "end": end} for start, end in words]
    return {"pieces": found, "words": spans}


def end_piece(text: str) -> dict[str, Any]:
    """The end token after a text."""
    return {"id": END, "text": "", "start": len(text), "end": len(text), "word": None, "special": "end"}


def joined_entries(ids: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    """Predictions as a text of their names, with a piece and a word for each."""
    pieces, text = list[dict[str, Any]](), " ".join(names)
    for number, name in zip(ids, names, strict=True):
        start = pieces[-1]["end"] + 1 if pieces else 0
        span = {"text": name, "start": start, "end": start + len(name)}
        pieces.append({"id": number, **span, "word": len(pieces)})
    words = [{key: piece[key] for key in ("text", "start", "end")} for piece in pieces]
    return {"text": text, "pieces": pieces, "words": words}


def _words(text: str, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    """The spans of the words from the first to the last of some pieces."""
    first = min((piece.start for piece in pieces), default=0)
    last = max((piece.end for piece in pieces), default=0)
    spans = (match.span() for match in WORD.finditer(text))
    return [(start, end) for start, end in spans if start < last and end > first]


def _word(text: str, piece: Piece, words: Sequence[tuple[int, int]], starts: Sequence[int]) -> int | None:
    """The number of the word that holds the first character of a piece that is not white space."""
    place = next((k for k in range(piece.start, piece.end) if not text[k].isspace()), -1)
    number = bisect_right(starts, place) - 1
    return number if number >= 0 and place < words[number][1] else None

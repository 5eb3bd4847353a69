"""Pieces cut their text exactly, for every tokenizer, even where the output is not what `encode` gives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.data.fields import FIELD, SYMBOL, join_fields
from seqwright.data.tokenizer import END, FIRST, TOKENIZERS, UNK, train_tokenizer
from seqwright.lens.trace.pieces import locate, piece_entries, symbol_text, text_pieces

CORPUS = [
    "the small dog runs",
    "the tall dogs ran",
    "a Straße, a cafe\u0301",
    join_fields(["gehen", ["V", "PST"], "x"]),
]
SMALL = {"bpe": {"max_size": 60}, "unigram": {"max_size": 60}}
TRAINED = {kind: train_tokenizer(kind, CORPUS, **SMALL.get(kind, {})) for kind in TOKENIZERS.names()}
TRAINED["bpe-bytes"] = train_tokenizer("bpe", CORPUS, max_size=330, byte_fallback=True)

every_kind = pytest.mark.parametrize("kind", TRAINED)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=FIELD + SYMBOL), max_size=12)
near = st.lists(
    st.sampled_from(["the", "dog", " ", "s", "é", "日", "\U0001f600", ",", "\n"]), max_size=8
).map("".join)


def check(text: str, found: dict) -> None:
    pieces, words = found["pieces"], found["words"]
    assert all(piece["text"] == text[piece["start"] : piece["end"]] for piece in pieces)
    assert all(a["start"] <= b["start"] and a["end"] <= b["end"] for a, b in pairwise(pieces))
    assert all(word["text"] == text[word["start"] : word["end"]] for word in words)
    covered = {place for piece in pieces for place in range(piece["start"], piece["end"])}
    assert all(place in covered or text[place].isspace() for place in range(len(text)))
    for piece in pieces:
        if piece["word"] is not None:
            word = words[piece["word"]]
            assert word["start"] < piece["end"]
            assert piece["start"] < word["end"]
        else:
            assert not piece["text"].strip()


@every_kind
@given(text=texts | near)
def test_pieces_of_a_source_cut_it(kind, text):
    tokenizer = TRAINED[kind]
    found = text_pieces(tokenizer, text)
    check(text, found)
    assert [piece["id"] for piece in found["pieces"]] == [*tokenizer.encode(text), END]
    assert found["pieces"][-1]["special"] == "end"


@every_kind
@given(data=st.data())
def test_pieces_of_an_output_cut_it(kind, data):
    """Any ids at all: bytes that make no character, and cuts that no encoder makes."""
    tokenizer = TRAINED[kind]
    ids = data.draw(st.lists(st.sampled_from([UNK, *range(FIRST, tokenizer.size)]), max_size=10))
    text = tokenizer.decode(ids)
    found = piece_entries(text, ids, locate(tokenizer, ids), ended=False)
    assert [piece["id"] for piece in found["pieces"]] == ids
    check(text, found)


@pytest.mark.parametrize("kind", ["bytes", "bpe-bytes"])
def test_the_bytes_of_a_character_share_its_span(kind):
    tokenizer = TRAINED[kind]
    ids = tokenizer.encode("日")
    assert [piece.text for piece in locate(tokenizer, ids)][-3:] == ["日"] * 3
    ids = [*ids, ids[-1]]  # and a byte that belongs to no character: `encode` never gives this
    assert [piece.text for piece in locate(tokenizer, ids)][-4:] == ["日"] * 3 + ["\ufffd"]


def test_words_are_what_stands_between_spaces_and_fields():
    source = join_fields(["two words", ["V", "PST"], "more"])
    found = text_pieces(TRAINED["characters"], source)
    names = ["two", "words", SYMBOL + "V", SYMBOL + "PST", FIELD, "more"]
    assert [word["text"] for word in found["words"]] == names
    assert [piece["word"] for piece in found["pieces"]] == [0] * 3 + [None] + [1] * 5 + [2, 3, 4] + [
        5
    ] * 4 + [None]


def test_unknown_symbols_are_shown_as_what_stood_there():
    found = text_pieces(TRAINED["characters"], "a☃")["pieces"]
    assert [(piece["text"], piece.get("special")) for piece in found] == [
        ("a", None),
        ("☃", "unknown"),
        ("", "end"),
    ]


@every_kind
def test_every_id_can_be_shown(kind):
    tokenizer = TRAINED[kind]
    names = [symbol_text(tokenizer, number) for number in range(tokenizer.size)]
    assert names[:4] == ["⟨pad⟩", "⟨unknown⟩", "⟨begin⟩", "⟨end⟩"]
    assert all(names)
    assert len(set(names)) == len(names)


def test_only_the_words_of_the_part_that_is_read_are_listed():
    tokenizer = TRAINED["characters"]
    text = "the tall dogs ran"
    first = text_pieces(tokenizer, text, 6)
    assert [word["text"] for word in first["words"]] == ["the", "tall"]
    assert [piece["word"] for piece in first["pieces"]] == [0, 0, 0, None, 1, 1, None]
    assert first["unread"] == len(text) - 6
    last = piece_entries(text, tokenizer.encode(text)[-5:], tokenizer.pieces(text)[-5:], ended=False)
    assert [word["text"] for word in last["words"]] == ["dogs", "ran"]
    assert [piece["word"] for piece in last["pieces"]] == [0, None, 1, 1, 1]


def test_the_words_of_a_long_text_are_found_without_comparing_every_piece_with_every_word():
    """Of a megabyte that is read in part, and of all pieces of a shorter text."""
    tokenizer = TRAINED["characters"]
    long = text_pieces(tokenizer, "a dog " * 170_000, 24)
    assert (len(long["pieces"]), len(long["words"])) == (25, 8)
    every = text_pieces(tokenizer, "a dog " * 50_000)
    assert every["pieces"][-3]["word"] == len(every["words"]) - 1 == 99_999

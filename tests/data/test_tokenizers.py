"""Laws for every kind of tokenizer; a new kind is tested automatically."""

import errno
import json
import math
import os
import pickle
import subprocess
import sys
import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqwright.data.fields import FIELD, SYMBOL, join_fields
from seqwright.data.tokenizer import (
    BEGIN,
    END,
    MOST,
    PAD,
    TOKENIZERS,
    UNK,
    Vocabulary,
    from_json,
    load_tokenizer,
    train_tokenizer,
)
from seqwright.errors import ConfigError, InputError, ModelError, WriteError

KINDS = TOKENIZERS.names()
EXACT = ["bpe", "bytes", "characters", "unigram"]
SPECIALS = ["<s>", "</s>", "<unk>", "<pad>", "<0xC3>", "▁", "Ġ", "[UNK]", "⁇", "<|endoftext|>", "\0"]
SENTENCES = [
    f"{article} {adjective} {noun} {verb}."
    for article in ("the", "a")
    for adjective in ("small", "smaller", "tall")
    for noun in ("dog", "dogs", "Straße", "cafe\u0301")
    for verb in ("runs", "ran", "is running")
]
PLAIN = [*SENTENCES, *SPECIALS, " leading and trailing ", "two  spaces\tand a tab"]
CORPUS = [
    *PLAIN,
    join_fields(["gehen", ["V", "PST"]]),
    join_fields(["question", "context"]),
]
SMALL = {"bpe": {"max_size": 120}, "unigram": {"max_size": 120}}
TRAINED = {kind: train_tokenizer(kind, CORPUS, **SMALL.get(kind, {})) for kind in KINDS}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
KNOWN = st.text(st.sampled_from(sorted(set("".join(PLAIN)) - {"\u0301"})))

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("kind", EXACT)
@given(text=KNOWN)
def test_known_characters_round_trip_exactly(kind, text):
    tokenizer = TRAINED[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@every_kind
def test_training_texts_round_trip(kind):
    tokenizer = TRAINED[kind]
    assert tokenizer.count_unknown(CORPUS).unknown == 0
    decoded = [tokenizer.decode(tokenizer.encode(text)) for text in CORPUS]
    changed = [text for text, back in zip(CORPUS, decoded, strict=True) if text != back]
    decomposed = [text for text in CORPUS if not unicodedata.is_normalized("NFC", text)]
    if kind == "symbols":
        assert len(changed) == 2
        assert ["".join(back.split()) for back in decoded] == ["".join(text.split()) for text in CORPUS]
    else:
        assert changed == (decomposed if kind == "letters" else [])


def test_letters_of_syllables():
    letters = train_tokenizer("letters", ["한글", "하늘"])
    assert len(train_tokenizer("characters", ["한글", "하늘"]).vocabulary.entries) == 4
    assert set(letters.vocabulary.entries) == set("\u1112\u1161\u11ab\u1100\u1173\u11af\u1102")
    assert UNK not in letters.encode("날글")  # syllables of known letters
    assert letters.decode(letters.encode("날글")) == "날글"
    assert [piece.text for piece in letters.pieces("날")] == ["날"] * 3


@given(st.text(st.sampled_from("aé\u0301\u0316\u0323\u0308한글"), min_size=1))
def test_the_span_of_each_letter_is_correct(text):
    """Even if marks are not in the canonical order of Unicode."""
    pieces = train_tokenizer("letters", [text]).pieces(text)
    parts = [unicodedata.normalize("NFD", piece.text) for piece in pieces]
    whole = unicodedata.normalize("NFD", text)
    assert all(letter in part for letter, part in zip(whole, parts, strict=True))


@given(text=TEXTS)
def test_bytes_round_trip_every_text(text):
    assert TRAINED["bytes"].decode(TRAINED["bytes"].encode(text)) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=TEXTS.filter(lambda text: FIELD not in text and SYMBOL not in text))
@settings(max_examples=60)
def test_byte_fallback_round_trips_every_text(kind, text):
    tokenizer = _with_bytes(kind)
    ids = tokenizer.encode(text)
    assert UNK not in ids
    assert tokenizer.decode(ids) == text == tokenizer.decode(tokenizer.encode_sampled(text, 3))


def _with_bytes(kind, made={}):  # noqa: B006 - one for all examples
    if kind not in made:
        made[kind] = train_tokenizer(kind, CORPUS, max_size=380, byte_fallback=True)
    return made[kind]


@every_kind
@given(text=TEXTS)
def test_no_text_becomes_a_special_id(kind, text):
    for number in TRAINED[kind].encode(text):
        assert number not in (PAD, BEGIN, END)
        assert number < TRAINED[kind].size


@every_kind
@pytest.mark.parametrize("special", SPECIALS)
def test_special_looking_text_stays_text(kind, special):
    tokenizer = TRAINED[kind]
    for text in (special, f"the {special} dog", special * 3):
        for ids in (tokenizer.encode(text), tokenizer.encode_sampled(text, 1)):
            if UNK not in ids:
                assert tokenizer.decode(ids) == text
    assert UNK not in tokenizer.encode(special)
    assert tokenizer.decode([BEGIN, *tokenizer.encode(special), END, PAD, PAD]) == tokenizer.decode(
        tokenizer.encode(special)
    )


@every_kind
@given(texts=st.lists(st.one_of(KNOWN, TEXTS), max_size=6))
def test_alone_or_in_a_batch(kind, texts):
    assert TRAINED[kind].encode_batch(texts) == [TRAINED[kind].encode(text) for text in texts]


@every_kind
@given(text=st.one_of(KNOWN, TEXTS))
def test_pieces_have_correct_spans(kind, text):
    tokenizer = TRAINED[kind]
    pieces, ids = tokenizer.pieces(text), tokenizer.encode(text)
    assert len(pieces) == len(ids)
    assert all(text[start:end] == piece for piece, start, end in pieces)
    assert all(a.start <= b.start for a, b in pairwise(pieces))
    covered = {k for _, start, end in pieces for k in range(start, end)}
    missing = "".join(text[k] for k in range(len(text)) if k not in covered)
    assert not missing or (kind == "symbols" and missing.isspace())


@every_kind
def test_fields_are_encoded_separately(kind):
    tokenizer = TRAINED[kind]
    lemma, verb = tokenizer.encode("gehen"), tokenizer.encode(SYMBOL + "V")
    assert len(verb) == 1
    assert verb != tokenizer.encode("V")
    source = join_fields(["gehen", ["V", "PST"]])
    assert tokenizer.encode(source) == lemma + verb + tokenizer.encode(SYMBOL + "PST")
    assert tokenizer.decode(tokenizer.encode(source)) == source
    two = join_fields(["question", "context"])
    marker = tokenizer.encode(FIELD)
    assert tokenizer.encode(two) == tokenizer.encode("question") + marker + tokenizer.encode("context")
    assert tokenizer.encode_sampled(two, 5).count(marker[0]) == 1
    assert tokenizer.encode(SYMBOL + "NEVER_SEEN") == [UNK]
    assert tokenizer.encode("") == tokenizer.encode_sampled("", 1) == []


@every_kind
def test_save_and_load_round_trip(kind, tmp_path):
    tokenizer, path = TRAINED[kind], tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode_batch(CORPUS) == tokenizer.encode_batch(CORPUS)
    assert [loaded.encode_sampled(text, 4) for text in CORPUS] == [
        tokenizer.encode_sampled(t, 4) for t in CORPUS
    ]
    assert from_json(tokenizer.to_json()).size == tokenizer.size
    assert list(tmp_path.iterdir()) == [path]
    assert pickle.loads(pickle.dumps(tokenizer)).encode_batch(CORPUS) == tokenizer.encode_batch(CORPUS)


@every_kind
def test_learning_is_deterministic_and_ignores_order(kind):
    again = train_tokenizer(kind, iter(CORPUS[::-1]), **SMALL.get(kind, {}))
    assert again.fingerprint == TRAINED[kind].fingerprint


def test_learning_is_the_same_in_another_process(tmp_path):
    program = (
        "import sys, json; from seqwright.data.tokenizer import *; corpus = json.load(sys.stdin);"
        "print(*[train_tokenizer(k, corpus, max_size=120).fingerprint for k in ('bpe', 'unigram')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(CORPUS),
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.split() == [TRAINED[kind].fingerprint for kind in ("bpe", "unigram")], done.stderr


@every_kind
def test_growing_keeps_old_ids(kind):
    old = TRAINED[kind]
    new_texts = ["жизнь dog", join_fields(["gehen", ["V", "FUT"]])]
    new = old.grown(new_texts)
    assert new.vocabulary.entries[: len(old.vocabulary.entries)] == old.vocabulary.entries
    assert new.encode_batch(CORPUS) == old.encode_batch(CORPUS)
    assert UNK not in [number for ids in new.encode_batch(new_texts) for number in ids]
    assert new.decode(new.encode(new_texts[0])) == new_texts[0]
    assert new.size > old.size
    assert new.grown(new_texts).fingerprint == new.fingerprint
    assert UNK in old.encode(new_texts[1])


@given(text=KNOWN)
def test_growing_a_unigram_keeps_the_encoding_of_old_text(text):
    grown = TRAINED["unigram"].grown(["жизнь"])
    assert grown.encode(text) == TRAINED["unigram"].encode(text)


@pytest.mark.parametrize(
    ("kind", "units"),
    [("characters", 2), ("letters", 2), ("symbols", 1), ("words", 1), ("bpe", 2), ("unigram", 2)],
)
def test_unknown_tokens_are_counted(kind, units):
    tokenizer = TRAINED[kind]
    text = "дж the" if kind in ("symbols", "words") else "дж"
    found = tokenizer.count_unknown([text, "the", "the"])
    assert found.unknown == units
    assert "".join(piece.strip() for piece, _ in sorted(found.most_common)) == "дж"
    assert 0 < found.share < 1
    assert tokenizer.decode(tokenizer.encode("дж")).count("⁇") == units


def test_a_grapheme_cluster_is_one_character():
    tokenizer = train_tokenizer("characters", ["cafe\u0301 🇩🇪👩‍👩‍👧 नि"])
    assert [piece.text for piece in tokenizer.pieces("e\u0301🇩🇪👩‍👩‍👧नि")] == [
        "e\u0301",
        "🇩🇪",
        "👩‍👩‍👧",
        "नि",
    ]
    assert tokenizer.encode("é") == [UNK]  # the composed letter is another text; it must not be confused


@every_kind
def test_very_long_texts_take_linear_time(kind):
    tokenizer = TRAINED[kind]
    start = time.process_time()
    for text in ("a" + "\u0301" * 10_000, "x" * 200_000, " " * 50_000, "dog " * 20_000):
        tokenizer.encode(text)
        tokenizer.pieces(text)
    tokenizer.encode_sampled("dogs" * 5_000, 1)
    assert time.process_time() - start < 10  # quadratic costs would take minutes


def test_words_keep_the_spacing_of_punctuation():
    tokenizer = train_tokenizer("words", ["Yes, it's a well-known dog."])
    pieces = [piece.text for piece in tokenizer.pieces("Yes, it's a well-known dog.")]
    assert pieces == ["Yes", ",", " it's", " a", " well-known", " dog", "."]


def test_limits_of_a_table():
    texts = ["a a a b b c"]
    assert train_tokenizer("symbols", texts, min_count=2).vocabulary.entries == ("a", "b")
    assert train_tokenizer("symbols", texts, max_size=5).vocabulary.entries == ("a",)
    assert train_tokenizer("bpe", CORPUS, max_size=100).size <= 100 + 4  # and the markers


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("bpee", {}, "did you mean 'bpe'"),
        ("bpe", {"dropuot": 0.1}, "did you mean 'dropout'"),
        ("bpe", {"dropout": 1.5}, "from 0 to 1"),
        ("bpe", {"max_size": 4}, "at least 5"),
        ("characters", {"min_count": 0}, "at least 1"),
        ("unigram", {"alpha": math.nan}, "at least 0"),
        ("unigram", {"alpha": math.inf}, "finite"),
    ],
)
def test_bad_options_are_reported(kind, options, words):
    with pytest.raises(ConfigError, match=words):
        train_tokenizer(kind, CORPUS, **options)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bytes"])
def test_nothing_to_learn_from(kind):
    with pytest.raises(InputError, match="no text"):
        train_tokenizer(kind, ["", ""])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 99}, "newer"),
        ({"format": None}, "no format"),
        ({"kind": "os:system"}, "unknown tokenizer 'os:system'"),
        ({"options": {"max_size": 50, "evil": 1}}, "unknown option"),
        ({"entries": ["a", "b", "a"], "scores": []}, "duplicate entries: 'a'"),
        ({"entries": ["a", 3]}, "list of non-empty texts"),
        ({"entries": ["a", "\ud800"]}, "unpaired surrogate"),
        ({"entries": ["a", "a" * 1_000_000]}, "more than 1,000 characters"),  # it crashes the library
        ({"entries": [str(number) for number in range(MOST + 1)]}, "the limit is"),
        ({"scores": [1.0]}, "another number of scores"),
        ({"scores": [10**400]}, "list of finite numbers"),
        ({"scores": ["1.0"]}, "list of finite numbers"),
        ({"merges": [["a"]]}, "list of pairs"),
        ({"merges": [["ж", "a"]]}, "merge of 'ж' and 'a'"),
        ({"merges": [["ж" * 1000, "a"]]}, "merge of 'ж{40}' and 'a'"),
        ({"merges": [[1, 2]]}, "pairs of texts"),
        ({"options": {"max_size": "many"}}, "max_size"),
        ({"options": {"byte_fallback": "yes"}}, "tokenizer"),
        ({"kind": "unigram", "options": {}}, "finite score"),
    ],
)
def test_files_that_are_not_tokenizers(tmp_path, change, words):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**TRAINED["bpe"].to_json(), **change}))
    with pytest.raises(ModelError, match=words) as error:
        load_tokenizer(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "version https://git-lfs.github.com/spec/v1", b"\xff\xfe"]
)
def test_files_that_are_not_json(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_tokenizer(path)
    with pytest.raises(ModelError, match="cannot be read"):
        load_tokenizer(tmp_path / "none.json")


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    words = train_tokenizer("words", ["ab " + "a" * 9_000_000, "b" * 9_000_000])
    with pytest.raises(WriteError, match="lower max_size"):
        words.save(tmp_path / "tokenizer.json")


def test_a_vocabulary_is_limited_to_the_most_frequent_parts():
    words = train_tokenizer("words", ["again again", *(f"w{number}" for number in range(MOST))])
    assert words.size == MOST
    assert UNK not in words.encode("again")


def test_a_failed_save_is_reported(tmp_path):
    with pytest.raises(WriteError, match="cannot be written"):
        TRAINED["bytes"].save(tmp_path / "none" / "tokenizer.json")


def test_a_save_that_fails_at_the_end_leaves_no_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="cannot be written"):
        TRAINED["bytes"].save(tmp_path / "tokenizer.json")
    assert list(tmp_path.iterdir()) == []


def test_ids_of_another_tokenizer_are_refused():
    with pytest.raises(InputError, match="id 100000"):
        TRAINED["bpe"].decode([100_000])


@pytest.mark.parametrize("kind", ["bpe", "bytes", "unigram"])
def test_surrogates_are_reported(kind):
    with pytest.raises(InputError, match="unpaired surrogate at position 3"):
        TRAINED[kind].encode("ab\ud83d")


def test_an_empty_vocabulary_knows_nothing():
    for kind in KINDS:
        tokenizer = TOKENIZERS.get(kind)(Vocabulary())
        assert set(tokenizer.encode("dog")) == ({UNK} if kind != "bytes" else {b + 4 for b in b"dog"})

"""Sentences: hard cases of the rule, and laws of splitting and of the limits."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.data.sentences import SentenceLimits, split_sentences

CASES = {  # sentences, joined by " | "
    "two": "I came. | I saw.",
    "one": "No end at all",
    "question": "Why? | Because! | Really?! | Yes...",
    "ellipsis": "Well... maybe not. | Wait… | What?",
    "lower": "The site imdb.com has it. version 2.0 is out",
    "decimal": "It scored 3.5 of 5. | Not bad.",
    "digit": "It was long. | 3 hours!",
    "title": "Mr. Smith met Dr. Jones at St. Mary's. | They spoke.",
    "initials": "J. R. R. Tolkien was born in the U.K. Office. | He wrote.",
    "me": "So do I. | Then we left.",
    "latin": "Big cities, e.g. Paris vs. London, i.e. Europe. | Done.",
    "time": "He left at 5 p.m. | She stayed.",
    "number": "See No. 5 and fig. 3. | Did he? | No. | He did not.",
    "list": "1. Introduction and aims. | 2. Methods.",
    "quotes": 'He said "Stop!" | "Why?" | She left.',
    "said": '"Stop!" he said. | ("Why?" she asked.) | End.',
    "curly": "“Run.” | “Where?” | ‘There.’ | Ok.",
    "brackets": "(It rained.) | [It snowed.] | It stopped.",
    "spanish": "¿Qué? | ¡Nada! | Ah.",
    "accents": "C'est fini. | Élan vital. | Ça va.",
    "no space": "one.Two stays one.",
    "chinese": "你好。 | 再见！ | 真的？",
    "hindi": "क्या? | हाँ।",
    "only stops": "... | !",
}


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_hard_cases(text):
    assert texts(text.replace(" | ", " ")) == text.split(" | ")


def test_line_breaks_end_sentences():
    assert texts("a title\nthe text. More\r\n\r\nend") == ["a title", "the text.", "More", "end"]
    assert texts("so bad<br /><br />really<BR>yes") == ["so bad", "really", "yes"]


def test_chinese_needs_no_space():
    assert texts("你好。再见！") == ["你好。", "再见！"]


def test_nothing_is_no_sentence():
    assert texts("") == texts(" \n <br/> ") == []


@given(st.text(alphabet="aB1 .!?…\"')(\n。", max_size=40))
def test_only_white_space_is_lost(text):
    found = split_sentences(text)
    assert all(sentence.text == text[sentence.start : sentence.end] for sentence in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert "".join("".join(sentence.text for sentence in found).split()) == "".join(text.split())
    assert all(sentence.text == sentence.text.strip() != "" for sentence in found)


@pytest.mark.parametrize("text", ["." * 200_000, "a. " * 100_000, ". " * 100_000, '."' * 100_000 + " A"])
def test_a_long_text_takes_a_moment(text):
    begin = time.process_time()
    split_sentences(text)
    assert time.process_time() - begin < 3


@given(
    sentences=st.lists(st.lists(st.integers(4, 9), max_size=7), max_size=6),
    tokens=st.integers(1, 5),
    most=st.integers(1, 6),
    total=st.integers(1, 20),
)
def test_limits_keep_the_beginning_of_a_text(sentences, tokens, most, total):
    read = SentenceLimits(tokens, most, total).cut(sentences)
    flat, every = ([word for run in runs for word in run] for runs in (read, sentences))
    assert flat == every[: len(flat)]
    assert all(1 <= len(run) <= tokens for run in read)
    assert len(read) <= most
    assert len(flat) <= total
    if len(read) < most and len(flat) < total:
        assert flat == every


def test_a_long_sentence_becomes_several():
    assert SentenceLimits(3, 9, 99).cut([[4, 5, 6, 7], [], [8]]) == [[4, 5, 6], [7], [8]]

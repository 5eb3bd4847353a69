"""Training and sampling of BPE and unigram, compared with naive versions of their papers."""

import math
import random
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.data.tokenizer import Vocabulary, train_tokenizer
from seqwright.data.tokenizers.segmentation.likelihood import Lattices, learn_unigram
from seqwright.data.tokenizers.segmentation.spaces import parts_of
from seqwright.data.tokenizers.segmentation.tables import count_parts
from seqwright.data.tokenizers.unigram import Unigram

WORDS = ["low", "lower", "lowest", "new", "newer", "newest", "wide", "wider", "widest"]
TEXTS = [" ".join(random.Random(k).choices(WORDS, k=8)) + "." for k in range(200)]
BPE = train_tokenizer("bpe", TEXTS, max_size=40, dropout=0.3)
UNIGRAM = train_tokenizer("unigram", TEXTS, max_size=24)
LETTERS = sorted(set(" ." + "".join(WORDS)))
PIECES = (*LETTERS, " low", "lo", "low", "ow", "we", "es", "st", "est", "er", " ne", "wi")
LIVELY = Unigram(Vocabulary(PIECES, scores=tuple(-2.0 - 0.1 * k for k in range(len(PIECES)))), alpha=0.5)


def segmentations(text, pieces):
    """Return all segmentations of a text into pieces."""
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), count):
            parts = [text[a:b] for a, b in zip((0, *cuts), (*cuts, len(text)), strict=True)]
            if all(part in pieces for part in parts):
                yield parts


def test_bpe_merges_the_most_frequent_neighbours_first():
    words = Counter(part for text in TEXTS for part in parts_of(" " + text))
    pairs = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            pairs[pair] += count
    first = BPE.vocabulary.merges[0]
    assert pairs[first] == max(pairs.values())


@given(st.text("lowernstid. ", max_size=30))
def test_bpe_without_dropout_is_the_naive_algorithm(text):
    """Without dropout the sampler is the textbook loop; it must agree with the library."""
    plain = train_tokenizer("bpe", TEXTS, max_size=40, dropout=0.0)
    assert plain.encode_sampled(text, 1) == plain.encode(text)


def test_bpe_with_full_dropout_yields_characters():
    spelling = train_tokenizer("bpe", TEXTS, max_size=40, dropout=1.0)
    assert [len(spelling.vocabulary.entries[k - 4]) for k in spelling.encode_sampled("lower", 1)] == [1] * 6


@pytest.mark.parametrize("tokenizer", [BPE, LIVELY], ids=["bpe", "unigram"])
def test_samples_are_a_function_of_text_and_seed(tokenizer):
    text = TEXTS[0]
    samples = [tokenizer.encode_sampled(text, seed) for seed in range(20)]
    random.random()
    assert samples == [tokenizer.encode_sampled(text, seed) for seed in range(20)]
    assert len({tuple(ids) for ids in samples}) > 5
    assert {tokenizer.decode(ids) for ids in samples} == {text}


@pytest.mark.parametrize("tokenizer", [UNIGRAM, LIVELY], ids=["learned", "lively"])
def test_unigram_encodes_the_most_likely_segmentation(tokenizer):
    scores = dict(zip(tokenizer.vocabulary.entries, tokenizer.vocabulary.scores, strict=True))
    for word in (*WORDS, "tidewinn"):
        best = max(sum(map(scores.get, parts)) for parts in segmentations(" " + word, scores))
        found = [tokenizer.vocabulary.entries[k - 4] for k in tokenizer.encode(word)]
        assert sum(map(scores.get, found)) == pytest.approx(best, abs=1e-4)


def test_unigram_draws_by_probability():
    """The frequency of every segmentation is that of P^alpha, within four standard errors."""
    scores = dict(zip(PIECES, LIVELY.vocabulary.scores, strict=True))
    ways = {
        tuple(parts): math.exp(0.5 * sum(map(scores.get, parts)))
        for parts in segmentations(" lowest", scores)
    }
    total, draws = sum(ways.values()), 4000
    samples = (LIVELY.encode_sampled("lowest", seed) for seed in range(draws))
    drawn = Counter(tuple(PIECES[k - 4] for k in ids) for ids in samples)
    assert len(drawn) > 10
    for parts, chance in ways.items():
        expected = chance / total
        assert drawn[parts] / draws == pytest.approx(expected, abs=4 * math.sqrt(expected / draws) + 1e-3)


@given(st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=5), st.integers(0, 100))
def test_expectations_equal_the_sum_over_all_segmentations(texts, seed):
    pieces = ["a", "b", "c", "ab", "bc", "abc", "aa"]
    chances = np.random.default_rng(seed).dirichlet(np.ones(len(pieces)))
    weights = np.arange(1.0, len(texts) + 1)
    naive = Counter()
    for text, weight in zip(texts, weights, strict=True):
        ways = [
            (parts, math.prod(chances[pieces.index(p)] for p in parts))
            for parts in segmentations(text, pieces)
        ]
        total = sum(chance for _, chance in ways)
        for parts, chance in ways:
            for part in parts:
                naive[part] += weight * chance / total
    found = Lattices(texts, pieces, 3).expected(chances, weights)
    assert found == pytest.approx([naive[piece] for piece in pieces], abs=1e-9)


def test_advantage_is_measured_against_the_best_other_segmentation():
    pieces = ["a", "b", "ab", "aab"]
    chances = np.array([0.4, 0.3, 0.2, 0.1])
    found = Lattices(pieces, pieces, 3).advantage(chances)
    assert found[2] == pytest.approx(math.log(0.2) - math.log(0.4 * 0.3))
    assert found[3] == pytest.approx(math.log(0.1) - math.log(0.4 * 0.2))


def test_unigram_keeps_every_character_and_its_size():
    words = Counter({" lowest": 5, " newest": 3, " widest": 1})
    learned = learn_unigram(words, 20, 8)
    pieces = [piece for piece, _ in learned]
    assert len(pieces) <= 20
    assert set("".join(words)) <= set(pieces)
    assert sum(math.exp(score) for _, score in learned) == pytest.approx(1, abs=1e-3)
    assert len(learn_unigram(words, 1, 8)) == len(set("".join(words)))


def test_counting_is_bounded_and_keeps_the_frequent():
    stream = ([f"rare {k}", "often"] for k in range(5000))
    counts = count_parts(stream, most=100)
    assert len(counts) <= 100
    assert counts["often"] == 5000

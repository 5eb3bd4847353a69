"""Filters exclude what they should, in both searches, and never leave a row without a token."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from search_toys import END, FIRST, ToyModel, ToyState, check_scores, start

from seqwright.errors import ConfigError
from seqwright.search import BeamOptions, NoRepeat, SamplingOptions, beam_search, generate
from seqwright.search.filters import IMPOSSIBLE

SEEDS = st.integers(0, 10_000)


def both(model, rows=2, given=None, **options):
    """All outputs of a beam and of sampling."""
    given = given or start(rows)
    beams = beam_search(
        model.step, ToyState.start(range(rows), 3), given, BeamOptions(size=3, n_best=3, **options)
    )
    samples = generate(model.step, ToyState.start(range(rows)), given, SamplingOptions(**options))
    return [[*found, sample] for found, sample in zip(beams, samples, strict=True)]


@given(SEEDS, st.integers(2, 5), st.integers(1, 3))
def test_no_gram_occurs_twice(seed, vocabulary, size):
    model = ToyModel(vocabulary, seed)
    for source, outputs in enumerate(both(model, no_repeat=size, max_length=12)):
        for output in outputs:
            tokens = output.tokens
            grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
            assert len(set(grams)) == len(grams)
            check_scores(model, source, output)


@given(SEEDS, st.integers(1, 4), st.integers(0, 8), st.integers(1, 4))
def test_no_repeat_bans_exactly_the_repeats(seed, rows, length, size):
    history = torch.randint(3, (rows, length), generator=torch.Generator().manual_seed(seed))
    log_probs = torch.zeros(rows, 3)
    NoRepeat(size)(log_probs, history, range(rows))
    for tokens, row in zip(history.tolist(), log_probs.tolist(), strict=True):
        grams = {tuple(tokens[i : i + size]) for i in range(length - size + 1)}
        context = tokens[max(length - size + 1, 0) :]
        assert [math.isinf(value) for value in row] == [(*context, token) in grams for token in range(3)]


@given(SEEDS, st.integers(0, 5))
def test_no_end_before_the_minimum_and_no_banned_token(seed, shortest):
    for outputs in both(ToyModel(5, seed), min_length=shortest, banned=(3,), max_length=5):
        for output in outputs:
            assert len(output.tokens) >= shortest
            assert 3 not in output.tokens


@given(SEEDS, st.integers(2, 5))
def test_silent_tokens_are_never_output_and_change_no_score(seed, vocabulary):
    """As if they were banned, in both searches; where only they are left, the output ends."""
    model = ToyModel(vocabulary, seed)
    silent = (FIRST, 2)[: vocabulary - 1]
    given_start = start(2, silent=silent)
    found = both(model, given=given_start, max_length=6)
    for source, outputs in enumerate(found):
        for output in outputs:
            assert not {FIRST, 2} & set(output.tokens)
            check_scores(model, source, output)
    assert found == both(model, banned=silent, max_length=6)


@given(SEEDS, st.lists(st.lists(st.integers(2, 4), max_size=4), min_size=2, max_size=3))
def test_a_prefix_is_a_prefix_and_scored_by_the_model(seed, prefixes):
    model = ToyModel(5, seed)
    given_start = start(len(prefixes), prefixes=prefixes)
    for source, outputs in enumerate(both(model, len(prefixes), given_start, max_length=5)):
        for output in outputs:
            assert output.tokens[: len(prefixes[source])] == prefixes[source]
            check_scores(model, source, output)


def test_a_prefix_wins_over_other_filters_and_over_the_model():
    def step(tokens, state):
        return torch.tensor([[0.0, 0.0, -math.inf]]).expand(len(tokens), -1), state

    given_start = start(1, prefixes=[[2, 2, 2]])
    for search, options in (
        (beam_search, BeamOptions(no_repeat=1)),
        (generate, SamplingOptions(no_repeat=1)),
    ):
        found = search(step, ToyState.start([0]), given_start, options)[0]
        found = found[0] if search is beam_search else found
        assert found.tokens[:3] == [2, 2, 2]
        assert found.token_scores[:3] == [IMPOSSIBLE] * 3


@given(SEEDS, st.integers(2, 5))
def test_where_everything_is_forbidden_the_output_ends(seed, vocabulary):
    model = ToyModel(vocabulary, seed)
    everything = tuple(range(vocabulary))
    for source, outputs in enumerate(both(model, banned=everything, min_length=4)):
        for output in outputs:
            assert (output.tokens, output.finish_reason) == ([], "end")
            check_scores(model, source, output)


def test_an_own_filter_sees_histories_and_inputs():
    class Counting:
        """Input i may output 2 + i only, any number of times."""

        name = "counting"

        def __call__(self, log_probs, history, inputs):
            assert len(inputs) == len(history) == len(log_probs)
            for row, source in enumerate(inputs):
                assert set(history[row].tolist()) <= {2 + source}
                others = [token for token in range(log_probs.shape[1]) if token not in (END, 2 + source)]
                log_probs[row, others] = -math.inf

    for source, outputs in enumerate(both(ToyModel(6), 3, filters=(Counting(),), max_length=4)):
        for output in outputs:
            assert set(output.tokens) <= {2 + source}


@pytest.mark.parametrize(
    ("prefix", "options", "named"),
    [
        ([2, 9], {}, "token 9 .prefix of input 1. is not in the vocabulary"),
        ([-1], {}, "token -1 "),
        ([2, 3, 4], {"max_length": 2}, "3 tokens, and 2 are allowed: token 4 "),
        ([2, END], {}, "token 1 in the prefix of input 1 is banned, silent or the end"),
        ([3], {"banned": (3,)}, "token 3 in the prefix"),
        ([], {"banned": (7,)}, "token 7 .banned."),
        ([FIRST], {}, "token 0 in the prefix of input 1 is banned, silent or the end"),
    ],
)
def test_wrong_tokens_are_named(prefix, options, named):
    with pytest.raises(ConfigError, match=named):
        both(ToyModel(5), 2, start(2, prefixes=[[], prefix], silent=(FIRST,)), **options)


def test_a_silent_token_that_the_model_does_not_score_is_named():
    with pytest.raises(ConfigError, match=r"token 5 \(silent\) is not in the vocabulary"):
        both(ToyModel(5), given=start(2, silent=(5,)))


@pytest.mark.parametrize(
    "given_rows", [{"prefixes": [[2]]}, {"limits": [3]}, {"seeds": [1, 2, 3]}, {"limits": [3, 0]}]
)
def test_what_is_given_per_input_must_fit(given_rows):
    with pytest.raises(ConfigError, match=next(iter(given_rows))[:5]):
        start(2, **given_rows)

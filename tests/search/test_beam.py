"""Laws of beam search."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from search_toys import END, FIRST, ToyModel, ToyState, all_ended, check_scores, patient_beam, start

from seqwright.errors import ConfigError, ModelError
from seqwright.search import BeamOptions, Lattice, SamplingOptions, beam_search, generate
from seqwright.search.options import LENGTH_RULES

ALPHAS = st.sampled_from([-1.5, -0.5, 0.0, 0.6, 1.0, 2.0])
RULES = st.sampled_from(sorted(LENGTH_RULES))
SEEDS = st.integers(0, 10_000)


def search(model, rows=1, sources=None, **options):
    options = BeamOptions(**options)
    state = ToyState.start(sources or range(rows), width=options.size)
    return beam_search(model.step, state, start(len(state.sources)), options)


@given(SEEDS, st.integers(2, 6), st.integers(1, 6), ALPHAS, RULES, st.integers(0, 3))
def test_a_beam_of_one_is_greedy(seed, size, limit, alpha, rule, shortest):
    model = ToyModel(size, seed)
    lengths = {"max_length": limit, "min_length": min(shortest, limit)}
    beams = search(model, 3, size=1, length_penalty=alpha, length_rule=rule, **lengths)
    greedy = generate(
        model.step, ToyState.start(range(3)), start(3), SamplingOptions(temperature=0, **lengths)
    )
    for (one,), other in zip(beams, greedy, strict=True):
        assert (one.tokens, one.token_scores, one.finish_reason) == (
            other.tokens,
            other.token_scores,
            other.finish_reason,
        )


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 4), st.integers(2, 4), ALPHAS, RULES, st.data())
def test_a_beam_as_wide_as_the_space_finds_the_best(seed, size, limit, alpha, rule, data):
    model, shortest = ToyModel(size, seed), data.draw(st.integers(0, limit - 1))
    options = BeamOptions(
        size=size**limit,
        n_best=2,
        length_penalty=alpha,
        length_rule=rule,
        min_length=shortest,
        max_length=limit,
    )
    wanted = all_ended(model, 0, options.penalty, shortest, limit)[:2]
    (found,) = beam_search(model.step, ToyState.start([0], options.size), start(1), options)
    whole = [hypothesis for hypothesis in found if hypothesis.finish_reason == "end"]
    assert [hypothesis.tokens for hypothesis in whole] == [tokens for _, tokens in wanted]
    torch.testing.assert_close([hypothesis.score for hypothesis in whole], [score for score, _ in wanted])


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 7), st.integers(2, 5), st.integers(1, 8), ALPHAS, RULES, st.data())
def test_stopping_early_loses_nothing(seed, vocabulary, size, limit, alpha, rule, data):
    n_best = data.draw(st.integers(1, size))
    model = ToyModel(vocabulary, seed, spread=data.draw(st.sampled_from([0.3, 1.0, 3.0])))
    options = BeamOptions(size=size, n_best=n_best, length_penalty=alpha, length_rule=rule, max_length=limit)
    wanted = patient_beam(model, 0, size, options.penalty, limit)[:n_best]
    (found,) = beam_search(model.step, ToyState.start([0], size), start(1), options)
    whole = [(h.score, h.tokens) for h in found if h.finish_reason == "end"]
    assert [tokens for _, tokens in whole] == [tokens for _, tokens in wanted]
    torch.testing.assert_close([score for score, _ in whole], [score for score, _ in wanted])


def table(rows):
    """A step that depends on the last token: token -> probabilities of the next."""

    def step(tokens, state):
        return torch.tensor([rows[token] for (token,) in tokens.tolist()]).log(), state

    return step


@pytest.mark.parametrize("alpha", [-5, -1.5, -0.5, 0, 0.6, 2])
def test_a_better_end_that_comes_later_is_waited_for(alpha):
    step = table({FIRST: [0.02, 0.25, 0.7, 0.03], 2: [0, 1, 0, 0], 3: [1, 0, 0, 0]})
    options = BeamOptions(size=2, length_penalty=alpha, max_length=50)
    ((best,),) = beam_search(step, ToyState.start([0], 2), start(1), options)
    assert best.tokens == ([2] if options.penalty(2) * math.log(0.25) < math.log(0.7) else [])


def test_an_end_that_a_full_beam_would_not_hold_is_dropped():
    step = table({FIRST: [0, 0.05, 0.55, 0.4], 2: [0, 0.5, 0.45, 0.05], 3: [0.1, 0.6, 0.1, 0.2]})
    options, recorder = BeamOptions(size=2, n_best=2, max_length=2), Lattice()
    (found,) = beam_search(step, ToyState.start([0]), start(1), options, recorder)
    assert [(h.tokens, h.finish_reason) for h in found] == [([2], "end"), ([2, 2], "length")]
    (third,) = [one for one in recorder.candidates if (one.step, one.token, one.fate) == (2, END, "dropped")]
    assert third.reason == "rank 3 of 2"


def test_stopping_early_stops():
    calls = []
    model = ToyModel(6, spread=3)

    def step(tokens, state):
        calls.append(len(tokens))
        return model.step(tokens, state)

    beam_search(step, ToyState.start([0]), start(1), BeamOptions(size=3, length_penalty=0, max_length=200))
    assert len(calls) < 30


@given(SEEDS, st.integers(2, 6), st.integers(1, 5), st.integers(1, 6), ALPHAS)
def test_results_are_sorted_distinct_and_scored_by_the_model(seed, vocabulary, size, limit, alpha):
    model = ToyModel(vocabulary, seed)
    options = BeamOptions(size=size, n_best=size, length_penalty=alpha, max_length=limit)
    results = beam_search(model.step, ToyState.start([4, 7], size), start(2), options)
    for source, found in zip([4, 7], results, strict=True):
        assert 1 <= len(found) <= size
        assert len({tuple(h.tokens) for h in found}) == len(found)
        ranks = [(h.finish_reason == "length", -h.score) for h in found]  # the ended ones come first
        assert ranks == sorted(ranks)
        for hypothesis in found:
            check_scores(model, source, hypothesis)
            length = len(hypothesis.token_scores)
            assert math.isclose(hypothesis.score, hypothesis.log_prob / options.penalty(length))
            assert END not in hypothesis.tokens
            assert length <= limit
            assert (hypothesis.finish_reason == "end") == (len(hypothesis.tokens) < length)


@given(SEEDS, st.lists(st.integers(0, 20), min_size=2, max_size=5), st.integers(1, 4), ALPHAS, st.data())
def test_alone_is_as_in_any_batch(seed, sources, size, alpha, data):
    model = ToyModel(5, seed)
    limits = [data.draw(st.integers(1, 7)) for _ in sources]
    prefixes = [data.draw(st.lists(st.integers(2, 4), max_size=limit)) for limit in limits]
    options = BeamOptions(size=size, n_best=size, length_penalty=alpha, no_repeat=2)
    together = beam_search(
        model.step,
        ToyState.start(sources, size),
        start(len(sources), prefixes=prefixes, limits=limits),
        options,
    )
    for place, source in enumerate(sources):
        given_alone = start(1, prefixes=[prefixes[place]], limits=[limits[place]])
        assert beam_search(model.step, ToyState.start([source], size), given_alone, options) == [
            together[place]
        ]
        for hypothesis in together[place]:
            assert hypothesis.tokens[: len(prefixes[place])] == prefixes[place]


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_vocabulary_of_two(size, limit):
    for found in search(ToyModel(2), 2, size=size, n_best=size, max_length=limit):
        wanted = {("end", 0), ("length", 1)} if limit == 1 else {("end", 0), ("end", 1), ("length", 2)}
        outputs = {(h.finish_reason, len(h.tokens)) for h in found}
        assert outputs <= wanted
        assert outputs == wanted or size < len(wanted)


def test_an_output_that_never_ends_is_cut_and_returned():
    def step(tokens, state):
        return torch.tensor([[0.0, -math.inf, 1.0]]).expand(len(tokens), 3), state

    (found,) = beam_search(step, ToyState.start([0]), start(1), BeamOptions(size=2, n_best=2, max_length=5))
    assert [h.finish_reason for h in found] == ["length", "length"]
    assert found[0].tokens == [2] * 5


def test_ended_outputs_come_before_cut_ones():
    def step(tokens, state):  # the end is unlikely, so that the cut outputs have the better scores
        return torch.tensor([[3.0, 0.0, 3.0]]).expand(len(tokens), 3), state

    (found,) = beam_search(step, ToyState.start([0]), start(1), BeamOptions(size=3, n_best=3, max_length=1))
    assert [h.finish_reason for h in found] == ["end", "length", "length"]
    assert found[0].score < found[1].score


def test_patience_stops_at_the_first_comers():
    model = ToyModel(6, seed=3, spread=0.5)
    calls = {}
    for patience in (1, 2, math.inf):
        calls[patience] = 0

        def step(tokens, state, patience=patience):
            calls[patience] += 1
            return model.step(tokens, state)

        options = BeamOptions(size=3, length_penalty=2, patience=patience, max_length=40)
        beam_search(step, ToyState.start([0], 3), start(1), options)
    assert calls[1] < calls[2] < calls[math.inf]


@pytest.mark.parametrize("bad", [[math.nan, 0, 0], [math.inf, 0, 0], [-math.inf] * 3])
@pytest.mark.parametrize("size", [1, 3])
def test_logits_that_are_no_numbers_name_the_step(bad, size):
    def step(tokens, state):
        logits = torch.zeros(len(tokens), 3) if tokens[0, 0] == FIRST else torch.ones(len(tokens), 3)
        logits[:, END] = -5
        logits[:, FIRST] = -9
        if tokens[0, 0] != FIRST:
            logits[-1] = torch.tensor(bad)
        return logits, state

    with pytest.raises(ModelError, match="step 2 for input 1"):
        beam_search(step, ToyState.start([0, 1]), start(2), BeamOptions(size=size))


def test_half_precision_and_strided_logits():
    logits = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).bfloat16().T

    def step(tokens, state):
        assert torch.is_inference_mode_enabled()
        return logits[: len(tokens)], state

    (found,) = beam_search(
        step, ToyState.start([0]), start(1), BeamOptions(size=4, max_length=1, min_length=1)
    )
    wanted = logits[0].float().log_softmax(-1)
    wanted[END] = -math.inf
    assert found[0].tokens == [wanted.argmax()]
    torch.testing.assert_close(found[0].log_prob, wanted.max().item())


def test_no_inputs_no_outputs():
    assert beam_search(ToyModel(3).step, ToyState.start([]), start(0), BeamOptions()) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"size": 0}, "size is 0"),
        ({"size": -2}, "size is -2"),
        ({"size": 10**9}, "size is 1000000000"),
        ({"size": 2, "n_best": 3}, "n_best is 3"),
        ({"length_penalty": math.nan}, "length_penalty is nan"),
        ({"length_rule": "wuu"}, "'wuu'"),
        ({"patience": 0}, "patience is 0"),
        ({"min_length": 5, "max_length": 4}, "min_length is 5"),
        ({"max_length": 0}, "max_length is 0"),
        ({"no_repeat": -1}, "no_repeat is -1"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        BeamOptions(**options)


def test_all_problems_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        BeamOptions(size=0, max_length=0, no_repeat=-1, patience=math.nan, length_penalty=math.inf)
    message = str(caught.value)
    assert "\n" not in message
    for name in ("size", "max_length", "no_repeat", "patience", "length_penalty"):
        assert f"{name} is" in message

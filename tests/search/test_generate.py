"""Laws of greedy search and sampling."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from search_toys import END, FIRST, ToyModel, ToyState, check_scores, start

from seqwright.errors import ConfigError, ModelError
from seqwright.search import SamplingOptions, generate, stream
from seqwright.search.generate import draw, kept_weights

SEEDS = st.integers(0, 10_000)


def run(model, sources, options, **given):
    return generate(model.step, ToyState.start(sources), start(len(sources), **given), options)


@given(SEEDS, st.integers(2, 6), st.integers(1, 8))
def test_greedy_takes_the_best_token(seed, size, limit):
    model = ToyModel(size, seed)
    for source, found in enumerate(run(model, range(3), SamplingOptions(temperature=0, max_length=limit))):
        check_scores(model, source, found)
        outputs = found.tokens + [END] * (found.finish_reason == "end")
        assert len(outputs) == limit or found.finish_reason == "end"
        for place, token in enumerate(outputs):
            logits = model.logits(source, (FIRST, *outputs[:place]))
            assert logits[token] == max(logits)


@given(SEEDS, st.floats(0.01, 100))
def test_top_k_of_one_and_no_heat_are_greedy(seed, temperature):
    model = ToyModel(6, seed)
    greedy = run(model, range(3), SamplingOptions(temperature=0, max_length=8))
    assert run(model, range(3), SamplingOptions(top_k=1, temperature=temperature, max_length=8)) == greedy
    assert run(model, range(3), SamplingOptions(top_p=1e-9, temperature=temperature, max_length=8)) == greedy
    assert run(model, range(3), SamplingOptions(temperature=1e-300, max_length=8)) == greedy


@given(SEEDS, st.integers(0, 99), st.sampled_from([0, 3]), st.sampled_from([1.0, 0.8]))
def test_samples_are_repeatable_and_alone_as_in_any_batch(seed, base, top_k, top_p):
    model, sources = ToyModel(6, seed), [3, 1, 3, 8]
    options = SamplingOptions(top_k=top_k, top_p=top_p, max_length=6, seed=base)
    together = run(model, sources, options)
    assert together == run(model, sources, options)
    assert together[:2] == run(model, sources[:2], options)
    seeds = [base + place for place in range(4)]
    seeded = run(model, sources, options, seeds=seeds)
    for source, own, found in zip(sources, seeds, seeded, strict=True):
        check_scores(model, source, found)
        assert run(model, [source], options, seeds=[own]) == [found]


def test_other_seeds_give_other_samples():
    model = ToyModel(9, spread=0.1)
    outputs = [run(model, [0, 0], SamplingOptions(max_length=12, seed=seed)) for seed in (0, 1)]
    assert len({tuple(found.tokens) for both in outputs for found in both}) == 4


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_distribution(temperature):
    logits, draws = torch.tensor([0.3, -1.0, 1.2, 0.0, -math.inf, 0.9]), 20_000

    def step(tokens, state):
        return logits.expand(len(tokens), -1), state

    options = SamplingOptions(temperature=temperature, max_length=1)
    counts = Counter(
        (h.tokens or [END])[0] for h in generate(step, ToyState.start([0] * draws), start(draws), options)
    )
    wanted = (logits / temperature).softmax(-1)
    assert counts[4] == 0
    statistic = sum(
        (counts[token] - draws * p) ** 2 / (draws * p) for token, p in enumerate(wanted.tolist()) if p > 0
    )
    assert statistic < 23.5  # chi-square with 4 degrees of freedom: p = 1e-4


@pytest.mark.parametrize(("bits", "token"), [(0, 1), (2**32 - 1, 2)])
def test_the_ends_of_the_interval_hit_no_token_without_weight(bits, token):
    class Fixed:
        def getrandbits(self, count):
            return bits

    log_probs = torch.tensor([[-math.inf, -0.7, -0.7, -math.inf]])
    assert draw(log_probs, SamplingOptions(), [Fixed()])[1].item() == token


@given(SEEDS, st.floats(0.01, 1, exclude_max=True), st.integers(2, 600), st.floats(0.2, 5), st.integers(0, 9))
def test_a_nucleus_is_the_smallest_set_with_its_mass(seed, top_p, size, temperature, top_k):
    log_probs = torch.randn(3, size, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)
    options = SamplingOptions(top_p=top_p, temperature=temperature, top_k=top_k)
    for row, weights in zip(log_probs, kept_weights(log_probs, options), strict=True):
        tempered = (row.double() / temperature).softmax(-1)
        ranked = tempered.sort(descending=True).values[: top_k or size]
        share = ranked / ranked.sum()
        kept = int((weights > 0).sum())
        assert share[:kept].sum() >= top_p - 1e-6
        assert share[: kept - 1].sum() < top_p + 1e-6
        assert weights[row.argmax()] > 0
        torch.testing.assert_close(
            (weights / weights.sum()).sort(descending=True).values[:kept], share[:kept] / share[:kept].sum(),
            rtol=1e-4, atol=1e-7,
        )  # fmt: skip


@given(SEEDS, st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_a_stream_yields_what_is_collected(seed, sources):
    model = ToyModel(4, seed)
    limits = [2 + source % 4 for source in sources]
    options, given_start = SamplingOptions(seed=seed), start(len(sources), limits=limits)
    outputs: list[list[int]] = [[] for _ in sources]
    over: dict[int, str] = {}
    for emissions in stream(model.step, ToyState.start(sources), given_start, options):
        assert not torch.is_inference_mode_enabled()  # the caller's code is not the search's
        for emission in emissions:
            assert emission.row not in over
            outputs[emission.row].append(emission.token)
            if emission.finish_reason:
                over[emission.row] = emission.finish_reason
    for row, found in enumerate(generate(model.step, ToyState.start(sources), given_start, options)):
        assert outputs[row] == found.tokens + [END] * (found.finish_reason == "end")
        assert over[row] == found.finish_reason
        assert len(outputs[row]) <= limits[row]


def test_finished_rows_leave_the_batch():
    sizes = []

    def step(tokens, state):  # input i ends at step i + 1
        sizes.append(len(tokens))
        logits = torch.zeros(len(tokens), 3)
        for row, (source, history) in enumerate(zip(state.sources, state.histories, strict=True)):
            logits[row, END if source == len(history) else 2] = 9
        histories = tuple((*history, 0) for history in state.histories)
        return logits, ToyState(state.sources, histories)

    found = generate(step, ToyState.start([2, 0, 1]), start(3), SamplingOptions(temperature=0))
    assert [len(h.tokens) for h in found] == [2, 0, 1]
    assert sizes == [3, 2, 1]


@pytest.mark.parametrize("bad", [[math.nan, 0, 0], [math.inf, 0, 0], [-math.inf] * 3])
@pytest.mark.parametrize(
    "options", [{"temperature": 0}, {}, {"top_k": 2}, {"top_p": 0.5}, {"min_length": 3}, {"banned": (2,)}]
)
def test_logits_that_are_no_numbers_name_the_step(bad, options):
    def step(tokens, state):
        logits = torch.tensor([[0.0, -99.0, 1.0], [0.0, -99.0, 1.0]])
        if state.histories[0]:
            logits[1] = torch.tensor(bad)
        return logits, ToyState(state.sources, ((0,), (0,)))

    with pytest.raises(ModelError, match="step 2 for input 1"):
        generate(step, ToyState.start([0, 1]), start(2), SamplingOptions(**options))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"top_p": math.nan}, "top_p is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 1.5}, "top_k is 1.5"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        SamplingOptions(**options)


def test_no_inputs_no_outputs():
    assert run(ToyModel(3), [], SamplingOptions()) == []

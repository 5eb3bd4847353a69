"""A prompt that is read in one call gives the same as forcing its tokens one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from cases import DECODER_CASES, source, with_decoder
from hypothesis import given
from hypothesis import strategies as st
from search_toys import END, FIRST, ToyModel, ToyState, start
from torch.testing import assert_close

from seqwright.errors import ConfigError, ModelError
from seqwright.models.building import build_model
from seqwright.search import BeamOptions, Lattice, SamplingOptions, Start, beam_search, generate, stream
from seqwright.search.filters import IMPOSSIBLE

SEEDS = st.integers(0, 10_000)
PREFIXES = st.lists(st.lists(st.integers(2, 4), min_size=2, max_size=7), min_size=1, max_size=3)
OPTIONS = st.fixed_dictionaries(
    {"min_length": st.sampled_from([0, 5]), "no_repeat": st.sampled_from([0, 1, 2]), "max_length": st.just(8)}
)


def counted(model, calls):
    """The steps of a model, and the number of tokens in each of its calls."""

    def step(tokens, state):
        calls.append(tokens.shape[1])
        return model.step(tokens, state)

    return step


@given(SEEDS, PREFIXES, OPTIONS)
def test_a_beam_finds_the_same(seed, prefixes, options):
    model, rows = ToyModel(5, seed), len(prefixes)
    forced = start(rows, prefixes=prefixes)
    found = []
    for given_start in (forced, replace(forced, prefill=model.prefill)):
        state = ToyState.start(range(rows), 3 if given_start.prefill is None else 0)
        found.append(beam_search(model.step, state, given_start, BeamOptions(size=3, n_best=3, **options)))
    assert found[0] == found[1]


@given(SEEDS, PREFIXES, OPTIONS, st.sampled_from([0.0, 0.7]))
def test_generation_finds_the_same(seed, prefixes, options, temperature):
    """Also the drawn tokens: a given token consumes as much randomness as a drawn one."""
    model, rows = ToyModel(5, seed), len(prefixes)
    forced = start(rows, prefixes=prefixes)
    chosen = SamplingOptions(temperature=temperature, seed=seed, **options)
    both = [forced, replace(forced, prefill=model.prefill)]
    one, other = (generate(model.step, ToyState.start(range(rows)), each, chosen) for each in both)
    assert one == other
    one, other = (list(stream(model.step, ToyState.start(range(rows)), each, chosen)) for each in both)
    assert one == other


@pytest.mark.parametrize("limits", [(), (6, 6), (9, 30)])
def test_limits_are_kept(limits):
    model, prefixes = ToyModel(5, 3), [[2, 3, 4, 2, 3, 4], [3, 3, 3, 3, 3, 3]]
    forced = start(2, prefixes=prefixes, limits=limits)
    for options in (BeamOptions(size=2, max_length=6), SamplingOptions(max_length=6)):
        search = beam_search if isinstance(options, BeamOptions) else generate
        one, other = (
            search(model.step, ToyState.start([0, 1]), each, options)
            for each in (forced, replace(forced, prefill=model.prefill))
        )
        assert one == other


def test_the_common_part_is_read_in_one_call():
    model, calls = ToyModel(5), []
    prefixes = [[2] * 20, [3] * 22]
    given_start = start(2, prefixes=prefixes, prefill=model.prefill)
    generate(counted(model, calls), ToyState.start([0, 1]), given_start, SamplingOptions(max_length=24))
    assert len(calls) <= 1 + 24 - 20  # the first token, then the steps behind the common part


def test_a_lattice_has_every_step():
    model, lattices = ToyModel(5), [Lattice(), Lattice()]
    forced = start(1, prefixes=[[2, 3, 4, 2]])
    for given_start, lattice in zip((forced, replace(forced, prefill=model.prefill)), lattices, strict=True):
        beam_search(model.step, ToyState.start([0]), given_start, BeamOptions(size=2, max_length=6), lattice)
    assert lattices[0].candidates == lattices[1].candidates


def test_what_the_model_excludes_is_taken_all_the_same():
    def step(tokens, state):
        return torch.tensor([[0.0, 0.0, -math.inf]]).expand(len(tokens), -1), state

    def prefill(tokens, state):
        return torch.full((len(tokens), tokens.shape[1] - 1), -math.inf), state

    given_start = start(1, prefixes=[[2, 2, 2, 2]], prefill=prefill)
    found = generate(step, ToyState.start([0]), given_start, SamplingOptions(max_length=6))[0]
    assert found.token_scores[:4] == [IMPOSSIBLE] * 4


def test_logits_that_are_no_numbers_name_the_step():
    model = ToyModel(5)

    def prefill(tokens, state):
        scores, state = model.prefill(tokens, state)
        scores[1, 0] = math.nan
        return scores, state

    given_start = start(2, prefixes=[[2, 3, 4, 2]] * 2, prefill=prefill)
    with pytest.raises(ModelError, match="step 2 for input 1"):
        generate(model.step, ToyState.start([0, 1]), given_start, SamplingOptions())


def test_a_token_outside_of_the_vocabulary_is_named_before_it_is_read():
    model = with_decoder("transformer:sinusoidal")
    given_start = Start(rows=1, first=FIRST, end=END, prefixes=[[4, 5, 99, 4]], prefill=model.prefill)
    with pytest.raises(ConfigError, match="token 99"):
        generate(model.step, model.start(source([[4, 5]])), given_start, SamplingOptions())


def check_model(model, state):
    prefixes = [[4, 5, 6, 7, 8], [8, 7, 6, 5]]
    forced = Start(rows=2, first=2, end=3, silent=(0, 2), prefixes=prefixes)
    both = [forced, replace(forced, prefill=model.prefill)]
    for one, other in (
        [beam_search(model.step, state, each, BeamOptions(size=3, n_best=2, max_length=9)) for each in both],
        [[[h] for h in generate(model.step, state, each, SamplingOptions(max_length=9))] for each in both],
    ):
        for ours, theirs in zip(one, other, strict=True):
            assert [h.tokens for h in ours] == [h.tokens for h in theirs]
            assert [h.finish_reason for h in ours] == [h.finish_reason for h in theirs]
            assert_close([h.token_scores for h in ours], [h.token_scores for h in theirs])


@pytest.mark.parametrize("case", DECODER_CASES)
def test_every_decoder_reads_prompts(case):
    model = with_decoder(case)
    with torch.inference_mode():
        check_model(model, model.start(source([[4, 5, 6], [7]])))


def test_an_ensemble_reads_prompts():
    description = {"kind": "ensemble", "members": 2, "heads": 2, "size": 8, "layers": 1}
    model = build_model(description, source_vocabulary=9, target_vocabulary=9).double().eval()
    with torch.inference_mode():
        check_model(model, model.start(source([[4, 5, 6], [7]])))

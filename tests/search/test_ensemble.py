"""Several models as one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from search_toys import ToyModel, ToyState, start

from seqwright.errors import ConfigError, ModelError
from seqwright.search import BeamOptions, Ensemble, SamplingOptions, beam_search, generate

MEANS = st.sampled_from(["probability", "log_probability"])
OPTIONS = BeamOptions(size=3, n_best=3, max_length=6)


@given(st.integers(0, 1000), MEANS, st.integers(1, 3))
def test_a_model_with_itself_is_the_model(seed, mean, members):
    model = ToyModel(5, seed)
    ensemble = Ensemble([model.step] * members, mean=mean)
    state = ensemble.start([ToyState.start([0, 1], 3)] * members)
    ours = beam_search(ensemble, state, start(2), OPTIONS)
    theirs = beam_search(model.step, ToyState.start([0, 1], 3), start(2), OPTIONS)
    for one, other in zip(ours, theirs, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        torch.testing.assert_close([h.token_scores for h in one], [h.token_scores for h in other])


@given(st.integers(0, 1000))
def test_the_means_are_means(seed):
    models, tokens = [ToyModel(5, seed), ToyModel(5, seed + 1)], torch.tensor([[0], [2]])
    logs = torch.stack([m.step(tokens, ToyState.start([0, 1]))[0].log_softmax(-1) for m in models])
    for mean, wanted in (("probability", logs.exp().mean(0)), ("log_probability", logs.mean(0).softmax(-1))):
        ensemble = Ensemble([model.step for model in models], mean=mean)
        logits, _ = ensemble(tokens, ensemble.start([ToyState.start([0, 1])] * 2))
        torch.testing.assert_close(logits.softmax(-1), wanted)


def test_members_of_other_families_work_together():
    class Counter:
        """A model whose state is a number of steps and nothing else."""

        def __init__(self, rows, steps=0):
            self.rows, self.steps = rows, steps

        def select(self, rows):
            return Counter(len(rows), self.steps)

        @staticmethod
        def step(tokens, state):
            assert len(tokens) == state.rows
            logits = torch.zeros(state.rows, 5)
            logits[:, 1] = 20.0 if state.steps == 3 else -20.0
            return logits, Counter(state.rows, state.steps + 1)

    model = ToyModel(5)
    ensemble = Ensemble([model.step, Counter.step], mean="log_probability")
    state = ensemble.start([ToyState.start([0, 1]), Counter(2)])
    found = generate(ensemble, state, start(2), SamplingOptions(temperature=0))
    assert [len(hypothesis.tokens) for hypothesis in found] == [3, 3]


def test_wrong_members_are_named():
    with pytest.raises(ConfigError, match="no members"):
        Ensemble([])
    with pytest.raises(ConfigError, match="'median'"):
        Ensemble([ToyModel(4).step], mean="median")
    ensemble = Ensemble([ToyModel(4).step, ToyModel(5).step])
    with pytest.raises(ConfigError, match="1 states for 2 members"):
        ensemble.start([ToyState.start([0])])
    with pytest.raises(ModelError, match="4, 5 tokens"):
        generate(ensemble, ensemble.start([ToyState.start([0])] * 2), start(1), SamplingOptions())

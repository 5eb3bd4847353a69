"""The lattice of a beam search: recording changes nothing, and everything is there."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from search_toys import END, FIRST, ToyModel, ToyState, start

from seqwright.search import BeamOptions, Lattice, beam_search

OPTIONS = st.builds(
    BeamOptions,
    size=st.just(3),
    n_best=st.integers(1, 3),
    length_penalty=st.sampled_from([-1.0, 0.0, 0.6, 1.5]),
    no_repeat=st.integers(0, 2),
    min_length=st.integers(0, 2),
    max_length=st.integers(2, 7),
    patience=st.sampled_from([1.0, math.inf]),
)


def record(model, options, prefixes=()):
    lattice, given_start = Lattice(), start(2, prefixes=prefixes)
    results = beam_search(model.step, ToyState.start([0, 1], 3), given_start, options, lattice)
    assert results == beam_search(model.step, ToyState.start([0, 1], 3), given_start, options)
    return lattice, results


@given(st.integers(0, 1000), OPTIONS, st.sampled_from([(), ([2, 3], [])]))
def test_every_hypothesis_is_a_path_and_every_candidate_has_a_fate(seed, options, prefixes):
    lattice, results = record(ToyModel(5, seed), options, prefixes)
    for sentence, found in enumerate(results):
        candidates = lattice.of(sentence)
        finished = {
            tuple(one.token for one in lattice.path(number)): one
            for number, one in candidates.items()
            if one.fate == "finished"
        }
        for hypothesis in found:
            ending = (END,) * (hypothesis.finish_reason == "end")
            last = finished[(*ending, *reversed(hypothesis.tokens), FIRST)]
            assert last.reason == hypothesis.finish_reason
            assert math.isclose(last.log_prob, hypothesis.log_prob)
            assert math.isclose(last.score, hypothesis.score)
        for one in candidates.values():
            assert one.reason
            assert one.fate != "finished" or (one.token == END) == (one.reason == "end")
            parent = lattice.candidates[one.parent] if one.parent is not None else None
            if parent is not None:
                assert (parent.sentence, parent.step, parent.fate) == (sentence, one.step - 1, "kept")
                assert one.log_prob <= parent.log_prob
        for step in range(1, options.max_length + 1):
            assert sum(one.fate == "kept" for one in candidates.values() if one.step == step) <= options.size


@given(st.integers(0, 1000))
def test_reasons_are_recorded(seed):
    options = BeamOptions(size=3, n_best=3, banned=(4,), no_repeat=1, max_length=4, length_penalty=0)
    lattice, _ = record(ToyModel(8, seed, spread=1), options, ([3], [3]))
    for one in lattice.candidates:
        outputs = [other.token for other in lattice.path(lattice.candidates.index(one))][1:-1]
        if one.reason.startswith("banned by"):
            wanted = (
                "prefix"
                if one.step == 1 and one.token != 4
                else "no_repeat"
                if one.token in outputs
                else "banned_tokens"
            )
            assert (one.fate, one.reason) == ("dropped", f"banned by {wanted}")
        else:
            assert one.token != 4
            assert one.token not in outputs
    ranks = [
        one.reason for one in lattice.candidates if one.fate == "dropped" and one.reason.startswith("rank")
    ]
    assert {"rank 4 of 3", "rank 5 of 3"} & set(ranks)


def test_a_stop_by_the_bound_is_recorded():
    lattice, results = record(ToyModel(5, 1), BeamOptions(size=3, length_penalty=0, max_length=50))
    for sentence, (best,) in enumerate(results):
        stopped = [one for one in lattice.of(sentence).values() if one.reason == "finished earlier: bound"]
        assert stopped
        assert all(one.fate == "dropped" and one.log_prob <= best.score for one in stopped)

"""A branch is the greedy continuation after another token; a trace states which steps have branches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from looked import FAMILIES, LETTERS, OPTIONS, TEXT, case, looked, predictor

from seqwright.data.batch import BEGIN, END, PAD
from seqwright.lens.trace.build import look
from seqwright.search import BeamOptions

GREEDY = replace(OPTIONS, size=1, n_best=1)


@pytest.mark.parametrize("family", [*FAMILIES][::4])
def test_a_branch_is_a_greedy_search_after_its_prefix(family):
    subject, trace = case(family)
    ids = trace.document["hypotheses"][0]["ids"]
    row = LETTERS.encode(TEXT)
    going = [one for one in trace.document["branches"] if one["id"] != END]
    assert going
    for branch in going[::3]:
        prefix = [*ids[: branch["step"]], branch["id"]]
        (found,) = subject.search_tokens([row], [prefix], GREEDY)[0]
        assert branch["text"] == LETTERS.decode(found.tokens)
        assert branch["text"][branch["start"] : branch["end"]] == LETTERS.decode([branch["id"]])
        assert branch["log_prob"] == pytest.approx(found.log_prob, abs=1e-4)
        assert branch["score"] == pytest.approx(found.score, abs=1e-4)
        assert branch["finish_reason"] == found.finish_reason


@pytest.mark.parametrize("family", ["transformer-sinusoidal", "rnn-bahdanau"])
def test_the_strongest_alternatives_of_each_step_branch(family):
    _, trace = case(family)
    for t, step in enumerate(trace.document["steps"]):
        others = [token for token, _ in step["top"] if token not in (step["id"], PAD, BEGIN)]
        assert [one["id"] for one in trace.document["branches"] if one["step"] == t] == others[:3]
    assert "branches" not in trace.document["absent"]


def test_an_output_may_end_instead():
    subject, trace = case("rnn-bahdanau")
    (branch, *_) = (one for one in trace.document["branches"] if one["id"] == END and one["step"] > 0)
    t = branch["step"]
    assert (branch["text"], branch["start"], branch["finish_reason"]) == (trace.output[:t], t, "end")
    assert branch["log_prob"] == pytest.approx(subject.score([(TEXT, branch["text"])])[0], abs=1e-4)
    assert branch["score"] == pytest.approx(branch["log_prob"] / OPTIONS.penalty(t + 1), abs=1e-5)


def test_all_branches_come_from_one_search(monkeypatch):
    subject, searches = predictor("transformer-sinusoidal"), []
    search = subject.search_tokens
    monkeypatch.setattr(
        subject,
        "search_tokens",
        lambda rows, *given, **more: searches.append(len(rows)) or search(rows, *given, **more),
    )
    trace = look(subject, TEXT, options=OPTIONS, ablate=False)
    going = [one for one in trace.document["branches"] if one["id"] != END]
    assert searches == [1, len(going)]


def test_branches_are_bounded_and_the_trace_states_it(monkeypatch):
    options = BeamOptions(size=1, min_length=20, max_length=20)
    monkeypatch.setattr("seqwright.lens.trace.branches.STEPS", 6)
    trace = looked("transformer-sinusoidal", options=options)
    assert {one["step"] for one in trace.document["branches"]} == set(range(6))
    assert "all 20 steps would take too long; only the first 6 have them" in trace.why("branches")
    monkeypatch.setattr("seqwright.lens.trace.branches.WORK", 0)
    none = looked("transformer-sinusoidal", options=options)
    assert none.document["branches"] == []
    assert "they are left out" in none.why("branches")
    unasked = looked("transformer-sinusoidal", branch=False)
    assert unasked.document["branches"] is None
    assert "not requested" in unasked.why("branches")


def test_a_branch_that_does_not_end_is_cut():
    trace = looked("transformer-sinusoidal", options=BeamOptions(size=1, max_length=3))
    assert all(len(one["text"]) <= 3 for one in trace.document["branches"])
    assert {one["finish_reason"] for one in trace.document["branches"]} <= {"end", "length"}

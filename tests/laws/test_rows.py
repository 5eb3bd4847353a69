"""Law: `select` commutes with `step`: repeated, dropped or reordered, each row is computed as if alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from cases import DECODER_CASES, MODES, TOLERANCE, alone, ids, source, with_decoder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

Sources = list[list[int]]


@dataclass
class Script:
    """Sources; then, again and again, a selection of rows (None: none) and the tokens that they read."""

    sources: Sources
    turns: list[tuple[list[int] | None, list[list[int]]]]


@st.composite
def selections(draw, count: int, width: int):
    """Rows to take of `count`: grouped beams that change places within their group, or anything."""
    kind = draw(st.sampled_from(["none", "widen", "reorder", "any"]))
    if kind == "widen" and count <= 4:
        return [row for row in range(count) for _ in range(2)], 2 * width
    if kind == "reorder":
        groups = range(0, count - count % width, width)
        return [g + draw(st.integers(0, width - 1)) for g in groups for _ in range(width)] or None, width
    if kind == "any":
        return draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=5)), 1
    return None, width


@st.composite
def scripts(draw):
    sources = draw(st.lists(st.lists(ids, min_size=1, max_size=4), min_size=1, max_size=3))
    count, width, turns = len(sources), 1, []
    for _ in range(draw(st.integers(1, 4))):
        rows, width = draw(selections(count, width))
        count = count if rows is None else len(rows)
        length = draw(st.integers(1, 2))
        turns.append((rows, [draw(st.lists(ids, min_size=length, max_size=length)) for _ in range(count)]))
    return Script(sources, turns)


EVERYTHING = Script(  # rows change places, repeat and vanish; groups are made, mixed and left
    [[4, 5], [6], [7, 8, 4]],
    [
        ([2, 0, 1], [[4], [5], [6]]),
        ([1, 1, 0], [[7], [8], [4]]),
        ([0, 0, 1, 1, 2, 2], [[4], [5], [6], [7], [8], [4]]),
        ([1, 0, 3, 3, 5, 5], [[5], [6], [7], [8], [4], [5]]),
        ([5, 0, 2], [[4, 5], [6, 7], [8, 4]]),
    ],
)


@pytest.mark.parametrize("case", DECODER_CASES)
@given(script=scripts(), mode=st.sampled_from(sorted(MODES)))
@example(script=EVERYTHING, mode="grad")
@example(script=EVERYTHING, mode="inference")
def test_rows_are_computed_as_if_alone(case, script, mode):
    model = with_decoder(case)
    owners, prefixes = list(range(len(script.sources))), [[] for _ in script.sources]
    with MODES[mode]():
        state, history = model.start(source(script.sources)), []
        for rows, tokens in script.turns:
            if rows is not None:
                state = state.select(rows)
                owners, prefixes = [owners[r] for r in rows], [prefixes[r] for r in rows]
            prefixes = [old + new for old, new in zip(prefixes, tokens, strict=True)]
            before = state
            scores, state = model.step(torch.tensor(tokens), before)
            history.append((tokens, before, scores.clone()))
        expected = [alone(model, script.sources[o], p) for o, p in zip(owners, prefixes, strict=True)]
        assert_close(scores, torch.stack(expected), **TOLERANCE)
        for tokens, before, _ in history:  # other continuations of the same states
            model.step(torch.full_like(torch.tensor(tokens), 8), before)
        for tokens, before, first in history:  # old states stay valid
            again, _ = model.step(torch.tensor(tokens), before)
            assert_close(again, first, **TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", DECODER_CASES)
def test_two_ways_from_one_state_do_not_meet(case, mode):
    """A search tree: both children of a state write behind the same past."""
    model = with_decoder(case)
    with MODES[mode]():
        _, root = model.step(torch.tensor([[4]]), model.start(source([[6, 7, 8]])))
        _, root = model.step(torch.tensor([[5]]), root)
        branches = {token: model.step(torch.tensor([[token]]), root)[1] for token in (6, 7)}
        leaves = {token: model.step(torch.tensor([[8]]), state)[0] for token, state in branches.items()}
    for token, scores in leaves.items():
        assert_close(scores[0], alone(model, [6, 7, 8], [4, 5, token, 8]), **TOLERANCE)


@pytest.mark.parametrize("case", DECODER_CASES)
def test_a_beam_of_many_steps(case):
    """Two sources of different length, three hypotheses each, mixed within their group at every step."""
    model, sources = with_decoder(case), [[4, 5, 6], [7]]
    generator = torch.Generator().manual_seed(3)
    prefixes: list[list[int]] = [[] for _ in range(6)]
    with torch.inference_mode():
        state = model.start(source(sources)).select([0, 0, 0, 1, 1, 1])
        for _ in range(12):
            tokens = torch.randint(4, 9, (6, 1), generator=generator)
            scores, state = model.step(tokens, state)
            prefixes = [p + t for p, t in zip(prefixes, tokens.tolist(), strict=True)]
            picked = torch.randint(3, (6,), generator=generator).tolist()
            rows = [3 * (i // 3) + pick for i, pick in enumerate(picked)]
            expected = [alone(model, sources[i // 3], p) for i, p in enumerate(prefixes)]
            assert_close(scores, torch.stack(expected), **TOLERANCE)
            state, prefixes = state.select(rows), [prefixes[r] for r in rows]


@pytest.mark.parametrize("case", ["transformer:sinusoidal", "rnn:bahdanau"])
def test_no_rows_are_a_state_too(case):
    """When the last hypothesis of a batch is done, no row is left; that is not an error."""
    model = with_decoder(case)
    with torch.inference_mode():
        _, state = model.step(torch.tensor([[4], [5]]), model.start(source([[6, 7], [8]])))
        assert state.select([]).groups == 0


@pytest.mark.parametrize("case", ["transformer:sinusoidal", "rnn:bahdanau"])
def test_modes_may_change_on_the_way(case):
    """A state made in inference mode can be continued outside of it."""
    model = with_decoder(case)
    with torch.inference_mode():
        _, state = model.step(torch.tensor([[4]]), model.start(source([[6, 7]])))
        _, state = model.step(torch.tensor([[5]]), state)
    with torch.no_grad():
        scores, _ = model.step(torch.tensor([[6]]), state)
    assert_close(scores[0], alone(model, [6, 7], [4, 5, 6]), **TOLERANCE)


@settings(max_examples=30)
@given(rows=st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_rows_of_one_source_share_its_keys(rows):
    """Whatever is selected, no more groups exist than rows, and equal runs share."""
    model = with_decoder("transformer:sinusoidal")
    with torch.inference_mode():
        state = model.start(source([[4, 5], [6, 7], [8, 4]])).select([0, 0, 1, 1, 2, 2])
        state = state.select(rows)
    assert state.groups * state.width == len(rows)
    if len({row // 2 for row in rows}) == 1:
        assert state.groups == 1


@pytest.mark.parametrize("case", DECODER_CASES)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), mode=st.sampled_from(sorted(MODES)))
def test_joined_states_step_as_they_step_apart(case, data, mode):
    """States of any lengths and widths join; then some rows leave, and others join once more."""
    model = with_decoder(case)
    tokens = st.lists(ids, min_size=1, max_size=1)

    def drawn():
        """A state, with the source and the tokens of each of its rows."""
        sources = data.draw(st.lists(st.lists(ids, min_size=1, max_size=4), min_size=1, max_size=2))
        width, owners = data.draw(st.integers(1, 2)), list(range(len(sources)))
        state, prefixes = model.start(source(sources)), [[] for _ in sources]
        for step in range(data.draw(st.integers(0, 3))):
            if step == 1 and width > 1:
                rows = [row for row in range(len(owners)) for _ in range(width)]
                state, owners = state.select(rows), [owners[row] for row in rows]
                prefixes = [prefixes[row] for row in rows]
            new = [data.draw(tokens) for _ in owners]
            _, state = model.step(torch.tensor(new), state)
            prefixes = [old + own for old, own in zip(prefixes, new, strict=True)]
        return state, [(sources[owner], prefix) for owner, prefix in zip(owners, prefixes, strict=True)]

    def step(state, rows):
        new = [data.draw(tokens) for _ in rows]
        rows = [(text, prefix + own) for (text, prefix), own in zip(rows, new, strict=True)]
        scores, state = model.step(torch.tensor(new), state)
        assert_close(scores, torch.stack([alone(model, *row) for row in rows]), **TOLERANCE)
        return state, rows

    with MODES[mode]():
        state, rows = drawn()
        for _ in range(2):
            others = [drawn() for _ in range(data.draw(st.integers(0, 2)))]
            state = state.join([other for other, _ in others])
            rows = [*rows, *(row for _, own in others for row in own)]
            state, rows = step(*step(state, rows))
            kept = data.draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, unique=True))
            state, rows = state.select(kept), [rows[place] for place in kept]
        step(state, rows)

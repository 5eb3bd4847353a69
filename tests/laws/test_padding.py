"""Law: padding changes no real output, and a row that is all padding makes no NaN, forward and backward."""

from __future__ import annotations

import pytest
import torch
from cases import (
    DECODER_CASES,
    ENCODER_CASES,
    HEAD_CASES,
    MODES,
    SIZE,
    TOLERANCE,
    alone,
    example,
    ids,
    source,
    with_decoder,
    with_encoder,
    with_head,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seqwright.nn.attention import Attention
from seqwright.nn.masks import AttentionContext, Mask, Places
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES

texts = st.lists(st.lists(ids, min_size=1, max_size=5), min_size=1, max_size=4)


@pytest.mark.parametrize("case", ENCODER_CASES)
@given(rows=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 99)), min_size=1, max_size=4))
def test_an_encoder_reads_a_batch_as_each_row_alone(case, rows):
    """On the samples of the encoder, whatever it reads. rows: the length and the seed of each."""
    encoder = with_encoder(case).encoder
    with torch.no_grad():
        together = encoder(encoder.sample(*zip(*rows, strict=True)))
        for i, (length, seed) in enumerate(rows):
            single = encoder(encoder.sample([length], [seed]))
            assert_close(together.hidden[i, : single.hidden.shape[1]], single.hidden[0], **TOLERANCE)
            for part, own in zip(together.final or (), single.final or (), strict=True):
                assert_close(part[:, i], own[:, 0], **TOLERANCE)


@pytest.mark.parametrize("case", DECODER_CASES)
@given(prompts=texts, turns=st.integers(1, 3), mode=st.sampled_from(sorted(MODES)))
def test_prompts_of_different_length(case, prompts, turns, mode):
    """Prefill with padding, widen to a beam of two, continue: each row as if alone."""
    model, padded = with_decoder(case), source(prompts)
    sources = [[4 + i, 5, 6][: 1 + i % 3] for i in range(len(prompts))]
    with MODES[mode]():
        hidden, state = model.decoder(padded.ids, model.start(source(sources)), padded.real)
        last = torch.stack([hidden[row, len(prompt) - 1] for row, prompt in enumerate(prompts)])
        expected = [alone(model, s, p) for s, p in zip(sources, prompts, strict=True)]
        assert_close(model.output(last), torch.stack(expected), **TOLERANCE)
        state = state.select([i for i in range(len(prompts)) for _ in range(2)])
        rows = [(s, p) for s, p in zip(sources, prompts, strict=True) for _ in range(2)]
        for turn in range(turns):
            latest = [[4 + (i + turn) % 5] for i in range(len(rows))]
            rows = [(s, p + new) for (s, p), new in zip(rows, latest, strict=True)]
            scores, state = model.step(torch.tensor(latest), state)
        assert_close(scores, torch.stack([alone(model, s, p) for s, p in rows]), **TOLERANCE)


@pytest.mark.parametrize("case", ENCODER_CASES)
def test_an_empty_source_makes_no_nan(case):
    model = with_encoder(case)
    sources = model.encoder.sample([3, 0], [1, 2])
    _all_finite(model, model.decoder(torch.tensor([[4, 5], [6, 7]]), model.start(sources))[0])


@pytest.mark.parametrize("case", HEAD_CASES)
@given(rows=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 99)), min_size=1, max_size=4))
def test_the_loss_of_a_batch_is_the_sum_of_its_rows(case, rows):
    """Whatever an encoder reads, and whatever a head predicts."""
    model = with_head(case)
    lengths, seeds = zip(*rows, strict=True)
    together = model.loss(example(model, lengths, seeds))
    each = [model.loss(example(model, [length], [seed])) for length, seed in rows]
    assert together.count == sum(loss.count for loss in each)
    assert_close(together.total, torch.stack([loss.total for loss in each]).sum(), **TOLERANCE)


@pytest.mark.parametrize("case", HEAD_CASES)
def test_a_head_makes_no_nan_of_an_empty_source(case):
    model = with_head(case)
    loss = model.loss(example(model, [3, 0], [1, 2]))
    _all_finite(model, loss.total[None])


@pytest.mark.parametrize("case", DECODER_CASES)
def test_an_empty_prompt_makes_no_nan(case):
    model = with_decoder(case)
    real = torch.tensor([[True, True], [False, False]])
    hidden, state = model.decoder(torch.tensor([[4, 5], [4, 4]]), model.start(source([[4, 5], [6]])), real)
    after, _ = model.decoder(torch.tensor([[6], [7]]), state)
    _all_finite(model, torch.cat([hidden, after], 1))
    assert_close(model.output(after[1, 0]), alone(model, [6], [7]), **TOLERANCE)


def _all_finite(model, hidden):
    assert hidden.isfinite().all()
    used = list(model.parameters())
    gradients = torch.autograd.grad(hidden.square().sum(), used, allow_unused=True, materialize_grads=True)
    assert all(bool(g.isfinite().all()) for g in gradients)
    assert any(bool(g.any()) for g in gradients)


@pytest.mark.parametrize("count", [1, 3])  # queries: one and several take different ways
@pytest.mark.parametrize("position", [n for n in POSITIONS.names() if POSITIONS.get(n).inside] + ["none"])
@pytest.mark.parametrize("score", SCORES.names())
def test_a_query_that_sees_nothing_gets_nothing(score, position, count):
    attention = Attention(SIZE, heads=2, score=score, position=position, projections="qkv").double()
    memory = torch.randn(2, 3, SIZE, dtype=torch.float64, requires_grad=True)
    seen = torch.tensor([[True, False, True], [False, False, False]])
    keys = attention.keys(memory, Places(torch.arange(3), seen))
    query = torch.randn(2, count, SIZE, dtype=torch.float64, requires_grad=True)
    context = attention(query, AttentionContext(Places.run(0, count)), keys)
    assert bool(context[0].all())
    assert not bool(context[1].any())
    to_query, to_memory = torch.autograd.grad(context.square().sum(), (query, memory))
    assert bool(to_memory[0, 0].any())
    assert not bool(to_query[1].any() or to_memory[1].any() or to_memory[0, 1].any())


def test_a_causal_query_before_all_keys_gets_nothing():
    attention = Attention(SIZE, heads=2, mask=Mask(causal=True), projections="qkv")
    keys = attention.keys(torch.randn(1, 2, SIZE), Places.run(1, 2))
    context = attention(torch.randn(1, 2, SIZE), AttentionContext(Places.run(0, 2)), keys)
    assert not bool(context[0, 0].any())
    assert bool(context[0, 1].all())

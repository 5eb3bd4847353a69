"""The pointer-generator: its mixture by a loop, its states in search, and what only copying can learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import TOLERANCE, source
from torch.testing import assert_close

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens
from seqwright.errors import ConfigError
from seqwright.models.building import build_model
from seqwright.search import BeamOptions, SamplingOptions, Start, beam_search, generate

VOCABULARY = 9
OPTIONS = {"layers": 1, "size": 8, "dropout": 0.0, "tie": False}
TRANSFORMER = {"kind": "pointer_generator", **OPTIONS, "heads": 2}
RECURRENT = {"kind": "pointer_generator", **OPTIONS, "encoder": "rnn", "decoder": {"kind": "rnn"}}
SOURCES = [[4, 5, 4, 6], [7, 7]]


def model(options=None, vocabulary=VOCABULARY):
    torch.manual_seed(3)
    facts = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
    return build_model(options or TRANSFORMER, **facts).double().eval()


@pytest.mark.parametrize("options", [TRANSFORMER, RECURRENT], ids=["transformer", "rnn"])
def test_the_mixture_equals_a_loop_over_the_source(options):
    """p(w) = g · softmax(W h)_w + (1 − g) · Σ_{i: x_i = w} α_i (See et al. 2017, eq. 8 and 9)."""
    own, targets = model(options), torch.tensor([[BEGIN, 4, 6], [BEGIN, 8, 5]])
    with torch.no_grad():
        encoded = own.encoder(source(SOURCES))
        hidden, _ = own.decoder(targets, own.decoder.start(encoded))
        batch = Batch(source(SOURCES), Tokens(targets), targets, np.arange(2))
        found = own(batch).exp()
        for b, row in enumerate(SOURCES):
            memory = encoded.hidden[b, : len(row)]
            keys = memory @ own.pointer.key_value.weight.T + own.pointer.key_value.bias
            for t in range(targets.shape[1]):
                query = own.pointer.query(hidden[b, t])
                weights = (keys @ query / len(query) ** 0.5).softmax(0)
                g = own.gate(torch.cat([hidden[b, t], weights @ memory])).sigmoid()
                expected = g * own.output(hidden[b, t]).softmax(0)
                for token, weight in zip(row, weights, strict=True):
                    expected[token] += ((1 - g) * weight)[0]
                assert_close(found[b, t], expected, **TOLERANCE)
    assert_close(found.sum(-1), torch.ones(2, 3).double())


@pytest.mark.parametrize("options", [TRANSFORMER, RECURRENT], ids=["transformer", "rnn"])
def test_rows_of_a_beam_step_as_if_alone(options):
    own, prefixes = model(options), [[], [], [], []]

    def alone(row, prefix):
        return own.step(torch.tensor([prefix]), own.start(source([row])))[0][0]

    with torch.inference_mode():
        state, owners = own.start(source(SOURCES)).select([0, 0, 1, 1]), [0, 0, 1, 1]
        for tokens, kept in (([4, 5, 6, 7], [1, 0, 3, 3]), ([8, 4, 5, 6], [3, 0]), ([5, 4], [0, 1])):
            scores, state = own.step(torch.tensor(tokens)[:, None], state)
            prefixes = [[*old, new] for old, new in zip(prefixes, tokens, strict=True)]
            expected = [alone(SOURCES[o], p) for o, p in zip(owners, prefixes, strict=True)]
            assert_close(scores, torch.stack(expected), **TOLERANCE)
            state, owners, prefixes = (
                state.select(kept),
                [owners[k] for k in kept],
                [prefixes[k] for k in kept],
            )


def test_joined_states_step_as_they_step_apart():
    """Sources of other lengths, and another width: their ids keep to their keys."""
    own = model()
    with torch.inference_mode():
        first = own.start(source(SOURCES))
        second = own.start(source([[8, 4, 5, 6, 7, 8]])).select([0, 0])
        joined = first.join([second])
        tokens = torch.tensor([[4], [5], [6], [7]])
        scores, after = own.step(tokens, joined)
        parts = [own.step(tokens[:2], first)[0], own.step(tokens[2:], second)[0]]
        assert_close(scores, torch.cat(parts), **TOLERANCE)
        short = after.select([1, 0]).join([own.start(source([[6]]))])
        again, _ = own.step(torch.tensor([[4], [4], [5]]), short)
        expected = own.step(torch.tensor([[5, 4]]), own.start(source([[7, 7]])))[0]
        assert_close(again[:1], expected, **TOLERANCE)
        assert_close(again[2:], own.step(torch.tensor([[5]]), own.start(source([[6]])))[0], **TOLERANCE)


def pairs(count, seed):
    """Two tokens, of which the first one is the target; the halves of the vocabulary are train and test."""
    low, high = (4, 24) if seed == 1 else (24, 44)
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(low, high, (count, 2), generator=draw)
    sources = torch.cat([ids, torch.full((count, 1), END)], 1)
    expected = torch.cat([ids[:, :1], torch.full((count, 1), END)], 1)
    target = torch.cat([torch.full((count, 1), BEGIN), ids[:, :1]], 1)
    return Batch(Tokens(sources), Tokens(target), expected, np.arange(count))


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("pointer_generator", 60, 100), ("encoder_decoder", 0, 5)]
)
def test_it_copies_tokens_that_no_target_of_the_training_had(kind, least, most):
    """What the vocabulary cannot learn; in greedy search and in a beam."""
    torch.manual_seed(0)
    own = build_model({**TRANSFORMER, "kind": kind, "size": 32}, source_vocabulary=44, target_vocabulary=44)
    optimizer, train = torch.optim.AdamW(own.parameters(), lr=1e-2), pairs(200, 1)
    for _ in range(80):
        loss = own.train().loss(train).mean
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    own.eval()
    test = pairs(100, 2)
    start = Start(rows=100, limits=[4] * 100, first=BEGIN, end=END, silent=(PAD, BEGIN), prefill=own.prefill)
    with torch.inference_mode():
        beams = beam_search(own.step, own.start(test.source), start, BeamOptions(size=3))
        greedy = generate(own.step, own.start(test.source), start, SamplingOptions(temperature=0.0))
    wanted = test.expected[:, 0].tolist()
    for found in ([each[0] for each in beams], greedy):
        right = sum(each.tokens[:1] == [token] for each, token in zip(found, wanted, strict=True))
        assert least <= right <= most


def test_two_tokenizers_are_refused():
    with pytest.raises(ConfigError, match=r"vocabularies of 9 and 7; set tokenizer.joint = true"):
        build_model(TRANSFORMER, source_vocabulary=9, target_vocabulary=7)

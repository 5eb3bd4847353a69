"""A decoder without an encoder is a language model; a source is a prompt."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from seqwright.data.batch import BEGIN, END, PAD, Batch, Tokens
from seqwright.errors import ConfigError
from seqwright.models.building import build_model
from seqwright.nn.loss import collected_terms
from seqwright.search import BeamOptions, Start, beam_search

VOCABULARY = 9
DECODERS = {
    "transformer": {"heads": 2, "hidden": 12},
    "window": {"heads": 2, "window": 2},
    "rotary": {"heads": 2, "position": "rotary"},
    "compressed": {"heads": 2, "position": "rotary", "growth": "compressed"},
    "rnn": {"decoder": {"kind": "rnn"}},
    "rnn-maxout": {"decoder": {"kind": "rnn", "feed": "nothing", "readout": "maxout", "cell": "gru"}},
}


@pytest.fixture(params=DECODERS)
def model(request):
    description = {"kind": "decoder_only", "size": 8, "layers": 2, **DECODERS[request.param]}
    return build_model(description, vocabulary=VOCABULARY).double().eval()


def batch(source: Tokens | None = None) -> SimpleNamespace:
    expected = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD]])
    target = Tokens(torch.tensor([[BEGIN, 5, 6, 7], [BEGIN, 8, PAD, PAD]]), torch.tensor([4, 2]))
    return SimpleNamespace(source=source, target=target, expected=expected)


def test_the_loss_is_that_of_the_steps(model):
    given, state, total = batch(), model.start(2), 0.0
    for t in range(4):
        scores, state = model.step(given.target.ids[:, t : t + 1], state)
        wanted = given.expected[:, t]
        total -= float((scores.detach().log_softmax(-1)[[0, 1], wanted] * (wanted != PAD)).sum())
    loss = model.loss(given)
    assert loss.count == 6
    assert float(loss.total.detach()) == pytest.approx(total)
    assert_close(model(given)[:, 3], scores)


def test_a_source_is_a_prompt(model):
    """Read before the target, without its padding."""
    found = model(batch(Tokens(torch.tensor([[4, 5, 6], [7, 4, 4]]), torch.tensor([3, 1]))))
    for row, prompt in enumerate([[4, 5, 6], [7]]):
        whole = torch.tensor([prompt + batch().target.ids[row].tolist()])
        alone, _ = model.decoder(whole, model.start(1))
        assert_close(found[row], model.output(alone)[0, len(prompt) :])


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_source_is_trained_like_the_target_and_not_reported(weight):
    """The gradient is that of one sequence, whose source counts `weight`."""
    description = {"kind": "decoder_only", "size": 8, "heads": 2, "dropout": 0.0, "source_loss": weight}
    model = build_model(description, vocabulary=VOCABULARY).double()
    given = batch(Tokens(torch.tensor([[4, 5, END], [7, END, PAD]]), torch.tensor([3, 2])))
    rows = [([4, 5, END], [BEGIN, 5, 6, 7, END]), ([7, END], [BEGIN, 8, END])]
    wanted, reported = 0.0, 0.0
    for source, target in rows:
        whole = torch.tensor([*source, *target])
        scores = model.output(model.decoder(whole[None, :-1], model.start(1))[0])[0]
        losses = F.cross_entropy(scores, whole[1:], reduction="none")
        of_source = losses[: len(source) - 1]
        of_target = losses[len(source) :]  # the first token of the target is given
        wanted, reported = wanted + weight * of_source.sum() + of_target.sum(), reported + of_target.sum()
    expected = torch.autograd.grad(wanted, model.decoder.embedding.weight)[0]
    with collected_terms() as terms:
        loss = model.loss(given)
    found = torch.autograd.grad(loss.total + sum(terms), model.decoder.embedding.weight)[0]
    assert_close(found, expected)
    assert_close(loss.total, reported)
    with collected_terms() as terms:
        model.eval().loss(given)
    assert not terms


def test_it_is_searched_like_any_other(model):
    with torch.inference_mode():
        start = Start(rows=2, first=BEGIN, end=END, silent=(PAD, BEGIN))
        found = beam_search(model.step, model.start(2), start, BeamOptions(size=3, max_length=6))
    assert [h.tokens for h in found[0]] == [h.tokens for h in found[1]]
    best = found[0][0]
    outputs = [*best.tokens, *([END] if best.finish_reason == "end" else [])]
    tokens = torch.tensor([[BEGIN, *outputs]])
    scores, _ = model.prefill(tokens, model.start(1))
    assert_close(scores[0].detach(), torch.tensor(best.token_scores).double())


def test_there_is_no_cross_attention_and_no_bridge(model):
    assert not [name for name in model.weights() if "cross" in name or "bridge" in name]
    assert model.output.weight is model.decoder.embedding.weight


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        ({"kind": "rnn", "attention": "bahdanau"}, "no source to attend to; set attention = none"),
        ({"kind": "rnn", "feed": "context"}, 'feed = "context" needs a source'),
    ],
)
def test_what_needs_a_source_is_refused(decoder, words):
    with pytest.raises(ConfigError, match=words):
        build_model({"kind": "decoder_only", "decoder": decoder}, vocabulary=9)


@pytest.mark.parametrize("lengths", [None, [3, 1, 4]])
def test_a_target_after_its_source_is_one_sequence(model, lengths):
    """Reading both at once gives the same as reading the source first, as a prediction does."""
    ids = torch.randint(4, 9, (3, 4))
    target = torch.randint(4, 9, (3, 5))
    source = Tokens(ids, None if lengths is None else torch.tensor(lengths))
    together = model.hidden(Batch(source, Tokens(target), target, np.arange(3)))
    apart, _ = model.decoder(target, model.start(source))
    assert_close(together, apart, atol=1e-10, rtol=1e-8)

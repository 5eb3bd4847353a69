"""Parts that do not fit together are refused in one line that names the value, the rule and the way out."""

from __future__ import annotations

from typing import Literal, get_origin, get_type_hints

import numpy as np
import pytest
import torch

from seqwright.config.registry import options_of
from seqwright.data.batch import Batch, Tokens
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.models import DECODERS, ENCODERS
from seqwright.models.building import build_model
from seqwright.nn.feedforward import FEED_FORWARDS
from seqwright.nn.positions import POSITIONS


def build(source: int = 9, target: int = 9, **description):
    sizes = {"size": 8, "layers": 1, "tie": False}
    return build_model(sizes | description, source_vocabulary=source, target_vocabulary=target)


RNN = {"encoder": "rnn", "decoder": "rnn"}


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"heads": 3}, ("heads", "3", "8", "try")),
        ({"heads": 8, "position": "rotary"}, ("rotary", "1", "even")),
        ({"share": True, "source": 10, "heads": 2}, ("share", "10", "9", "share = false")),
        (
            {"share": True, "encoder": {"kind": "rnn", "embedding_size": 6}, "heads": 2},
            ("share", "6", "8", "share = false"),
        ),
        (
            {"tie": True, **RNN, "decoder": {"kind": "rnn", "embedding_size": 6}},
            ("tie", "8", "6", "tie = false"),
        ),
        (
            {"tie": True, "heads": 2, "position": {"kind": "sinusoidal", "combine": "concat"}},
            ("tie", "8", "6", "tie = false"),
        ),
        ({**RNN, "decoder": {"kind": "rnn", "readout": "state"}}, ("readout", "state", "context", "tanh")),
        ({**RNN, "decoder": {"kind": "rnn", "feed": "context"}}, ("feed", "context", "query", "previous")),
        ({**RNN, "size": 9}, ("9", "bidirectional", "even")),
        (
            {**RNN, "decoder": {"kind": "rnn", "size": 6, "attention": "luong-dot"}},
            ("dot", "6", "8", "bilinear"),
        ),
        ({**RNN, "dropout": 1.5}, ("dropout", "1.5", "below 1")),
    ],
)
def test_what_does_not_fit_is_an_error_with_a_way_out(description, words):
    with pytest.raises(ConfigError) as caught:
        build(**description)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    "encoder",
    [{"kind": "transformer", "heads": 2}, {"kind": "rnn", "cell": "gru"}, {"kind": "rnn", "layers": 2}],
)
def test_final_states_that_cannot_be_copied(encoder):
    """A Transformer has none, and other recurrent encoders have other shapes."""
    model = build(encoder=encoder, decoder={"kind": "rnn", "start": "copy"})
    with pytest.raises(ConfigError, match=r'start = "copy" needs .*recurrent encoder.*use start = "tanh"'):
        model.start(Tokens(torch.tensor([[4, 5]])))


def test_a_text_longer_than_the_learned_table():
    model = build(heads=2, position={"kind": "learned", "length": 3})
    model.start(Tokens(torch.tensor([[4, 5, 6]])))
    with pytest.raises(InputError, match=r"position 4 .*3 positions.*position.length = 4"):
        model.start(Tokens(torch.tensor([[4, 5, 6, 7]])))


def words_of() -> list:
    """Every option of every part that is one of a few words."""
    found = []
    for registry in (ENCODERS, DECODERS, POSITIONS, FEED_FORWARDS):
        for name in registry.names():
            owner = registry.get(name)
            hints = get_type_hints(getattr(owner, "passes_to", owner).__init__) | get_type_hints(
                owner.__init__
            )
            found += [
                pytest.param(registry, name, option, id=f"{registry.kind}-{name}-{option}")
                for option in options_of(owner)
                if get_origin(hints.get(option)) is Literal
            ]
    return found


@pytest.mark.parametrize(("registry", "name", "option"), words_of())
def test_a_word_that_is_none_of_the_possible_ones(registry, name, option):
    """It is neither ignored nor a bare KeyError."""
    sizes = {"vocabulary": 9, "memory_size": 8, "size": 8, "hidden": 8, "heads": 2}
    with pytest.raises(ConfigError, match="nosuch"):
        registry.build({"kind": name, option: "nosuch"}, **sizes)


def test_the_words_were_found():
    options = {parameter.values[2] for parameter in words_of()}
    assert {"cell", "feed", "query", "readout", "start", "order", "norm", "combine", "activation"} <= options


def test_forward_and_loss_agree():
    """The loss is the cross-entropy of forward, without padding."""
    model = build(heads=2).double().eval()
    expected = torch.tensor([[5, 6, 3], [7, 3, 0]])
    batch = Batch(
        Tokens(torch.tensor([[4, 5], [6, 4]]), torch.tensor([2, 1])),
        Tokens(torch.tensor([[2, 5, 6], [2, 7, 0]]), torch.tensor([3, 2])),
        expected,
        np.arange(2),
    )
    scores, loss = model(batch), model.loss(batch)
    chosen = scores.log_softmax(-1).gather(-1, expected[..., None])[..., 0]
    assert scores.shape == (2, 3, 9)
    torch.testing.assert_close(loss.total, -(chosen * (expected != 0)).sum())
    assert loss.count == 5


@pytest.mark.parametrize("rows", [1, 3])
def test_weights_of_other_shapes_are_refused_and_none_is_taken(rows):
    """One row would broadcast to all rows; refused weights leave the model unchanged."""
    model, other = build(heads=2), build(heads=2)
    before = {name: weight.clone() for name, weight in model.weights().items()}
    weights = other.weights()
    last = [name for name, weight in weights.items() if weight.dim() == 2][-1]
    weights[last] = weights[last][:rows]
    with pytest.raises(ModelError, match=rf"{last} has the shape \[{rows}, 8\] instead of \[\d+, 8\]"):
        model.take_weights(weights)
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())


def test_a_shared_embedding_is_one():
    model = build(share=True, tie=True, heads=2)
    assert model.encoder.embedding is model.decoder.embedding
    assert model.output.weight is model.decoder.embedding.weight

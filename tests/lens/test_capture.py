"""Looking changes nothing; weights are shares: not negative, in sum 1 over what may be seen, 0 elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seqwright import build_model, capture
from seqwright.data.batch import Tokens
from seqwright.errors import InputError
from seqwright.lens.capture import recording
from seqwright.models.decoders.rnn import RECIPES
from seqwright.nn.attention import Attention
from seqwright.nn.positions import POSITIONS

LENGTHS = torch.tensor([4, 2, 1])
SOURCE = Tokens(torch.tensor([[4, 5, 6, 7], [8, 4, 5, 5], [6, 4, 4, 4]]), LENGTHS)
TARGET = torch.tensor([[4, 5, 6, 7, 8], [5, 5, 6, 4, 4], [8, 7, 6, 5, 4]])
KINDS = {f"rnn-{name}": {"encoder": "rnn", "decoder": {"kind": "rnn", "attention": name}} for name in RECIPES}
KINDS |= {f"transformer-{name}": {"heads": 2, "position": name} for name in POSITIONS.names()}
KINDS["transformer-window"] = {"heads": 2, "window": 1}


def small(kind: str):
    options = {"size": 8, "layers": 2, "attention_dropout": 0.2, "tie": False, **KINDS[kind]}
    if not kind.startswith("transformer"):
        del options["attention_dropout"]
    return build_model(options, source_vocabulary=9, target_vocabulary=9)


def decode(model) -> torch.Tensor:
    return model.output(model.decoder(TARGET, model.start(SOURCE))[0])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_capturing_changes_nothing(kind, training):
    """Bit for bit: the output, the gradients and, in training, the random numbers after it."""
    model, found = small(kind).train(training), []
    for look in (False, True):
        torch.manual_seed(5)
        if look:
            with capture(model):
                scores = decode(model)
        else:
            scores = decode(model)
        gradients = torch.autograd.grad(
            scores.square().sum(), list(model.parameters()), allow_unused=True, materialize_grads=True
        )
        found.append((scores, torch.rand(3), *gradients))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_shares_of_visible_keys(kind):
    model = small(kind).eval()
    with capture(model) as seen:
        decode(model)
    assert seen
    for name, calls in seen.items():
        for weights in calls:
            _check_shares(weights, _allowed(name, weights, model.get_submodule(name).mask.window))


def _allowed(name: str, weights: torch.Tensor, window: int | None) -> torch.Tensor:
    """The keys that the queries of this attention may see, computed independently (B, 1, Q, K)."""
    queries, keys = torch.arange(weights.shape[2])[:, None], torch.arange(weights.shape[3])
    if name.startswith("decoder.stack") and name.endswith(".attention"):
        allowed = (keys <= queries)[None, None]
    else:
        allowed = (keys < LENGTHS[:, None])[:, None, None, :]
    if window is not None:
        allowed = allowed & ((queries - keys).abs() <= window)
    return allowed.expand(len(LENGTHS), 1, *weights.shape[2:])


def _check_shares(weights: torch.Tensor, allowed: torch.Tensor) -> None:
    assert not weights.requires_grad
    assert (weights >= 0).all()
    assert not weights.masked_select(~allowed).any()
    assert_close(weights.sum(-1), allowed.any(-1).to(weights.dtype).expand(weights.shape[:3]))


def test_names_and_shapes_of_a_transformer():
    model = small("transformer-sinusoidal").eval()
    with capture(model) as seen:
        decode(model)
    shapes = {name: [tuple(weights.shape) for weights in calls] for name, calls in seen.items()}
    own, across = [(3, 2, 5, 5)], [(3, 2, 5, 4)]
    assert shapes == {
        "encoder.stack.blocks.0.attention": [(3, 2, 4, 4)],
        "encoder.stack.blocks.1.attention": [(3, 2, 4, 4)],
        "decoder.stack.blocks.0.attention": own,
        "decoder.stack.blocks.0.cross": across,
        "decoder.stack.blocks.1.attention": own,
        "decoder.stack.blocks.1.cross": across,
    }


def test_an_rnn_with_input_feeding_attends_once_per_token():
    with capture(small("rnn-bahdanau").eval()) as seen:
        decode(model := small("rnn-bahdanau").eval())
    assert not seen  # another model was watched
    with capture(model) as seen:
        decode(model)
    assert list(seen) == ["decoder.attention"]
    assert [tuple(weights.shape) for weights in seen["decoder.attention"]] == [(3, 1, 1, 4)] * 5


@pytest.mark.parametrize("kind", ["transformer-sinusoidal", "transformer-window", "rnn-luong-general"])
def test_grouped_beams_are_seen_as_if_alone(kind):
    """The weights of a group hold those of its rows one after the other; a row looks at its own past only."""
    model = small(kind).double().eval()
    prefixes = torch.tensor([[4, 5, 6], [4, 7, 8]])
    with torch.inference_mode():
        state = model.start(Tokens(torch.tensor([[4, 5, 6, 7]])))
        _, state = model.step(prefixes[:1, :1], state)
        state = state.select([0, 0])
        _, state = model.step(prefixes[:, 1:2], state)
        with capture(model) as together:
            model.step(prefixes[:, 2:], state)
        for row, prefix in enumerate(prefixes):
            _, state = model.step(prefix[None, :2], model.start(Tokens(torch.tensor([[4, 5, 6, 7]]))))
            with capture(model) as single:
                model.step(prefix[None, 2:], state)
            for name, (weights,) in single.items():
                mine = together[name][0][:, :, row : row + 1]  # (1, H, 1, K): the keys of both rows
                assert_close(mine[mine != 0], weights[weights != 0])


def recorders(model) -> set[bool]:
    return {part.recorder is not None for part in model.modules() if isinstance(part, Attention)}


def test_the_recorder_is_removed_even_after_an_error():
    model = small("transformer-learned").eval()
    with capture(model):
        assert recorders(model) == {True}
    assert recorders(model) == {False}
    beyond = Tokens(torch.full((1, 600), 4))  # of the learned table
    with pytest.raises(InputError), capture(model):
        model.start(beyond)
    assert recorders(model) == {False}


def test_nested_captures_restore_the_outer_recorder():
    model = small("transformer-sinusoidal").eval()
    with capture(model) as outer:
        with capture(model) as inner:
            decode(model)
        assert not outer
        decode(model)
    assert set(outer) == set(inner)
    assert all(torch.equal(outer[name][0], inner[name][0]) for name in outer)


def test_a_recorder_gets_the_scores_that_made_the_weights():
    model, looks = small("transformer-alibi").eval(), []
    with recording(model, lambda name: looks.append):
        decode(model)
    assert len(looks) == 6
    for look in looks:
        assert_close(look.scores.softmax(-1), look.weights)
        assert look.keys.k.shape[2] == look.weights.shape[3]
        assert look.width == 1


def test_an_attention_that_was_not_called_is_named_with_those_that_were():
    model = small("rnn-bahdanau").eval()
    with capture(model) as seen:
        decode(model)
    with pytest.raises(KeyError, match=r"'decoder.cross'.*those called are: decoder.attention"):
        seen["decoder.cross"]

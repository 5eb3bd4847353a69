"""An encoder with a head: facts reach the parts that ask for them, options go down to them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from seqwright.data.batch import Tokens
from seqwright.errors import ConfigError
from seqwright.models.building import build_model, resolve

FACTS = {"vocabulary": 9, "classes": 3, "values": 2}
SIZES = {"kind": "encoder_only", "size": 8, "layers": 1, "heads": 2}
EXPECTED = {
    "tokens": torch.tensor([[0, 5, 0], [6, 0, 0]]),
    "classes": torch.tensor([2, 0]),
    "tags": torch.tensor([[1, 2, 0], [1, -100, -100]]),
    "values": torch.tensor([[0.5, 1.0], [float("nan"), 2.0]]),
}


@pytest.mark.parametrize("head", EXPECTED)
def test_every_head_has_a_loss_that_does_not_depend_on_the_batch(head):
    model = build_model({**SIZES, "head": head}, **FACTS).eval()
    source, expected = Tokens(torch.tensor([[4, 5, 6], [7, 4, 4]]), torch.tensor([3, 1])), EXPECTED[head]
    together = model.loss(SimpleNamespace(source=source, expected=expected))
    losses = []
    for row, length in enumerate([3, 1]):
        own = expected[row : row + 1, :length] if head in ("tokens", "tags") else expected[row : row + 1]
        alone = SimpleNamespace(source=Tokens(source.ids[row : row + 1, :length]), expected=own)
        losses.append(model.loss(alone))
    assert together.count == sum(loss.count for loss in losses)
    assert_close(together.total, sum(loss.total for loss in losses))


def test_options_reach_the_head():
    found = resolve({"kind": "encoder_only", "head": {"kind": "classes", "pooling": "first"}, "dropout": 0.3})
    assert found["head"] == {"kind": "classes", "dropout": 0.3, "pooling": "first"}
    assert found["encoder"] == {"kind": "transformer", "dropout": 0.3}
    assert "decoder" not in found


def test_tokens_may_be_tied_to_the_embedding():
    model = build_model({**SIZES, "head": "tokens", "tie": True}, **FACTS)
    assert model.head.weight is model.encoder.embedding.weight
    assert len([name for name in model.weights() if "weight" in name and "embedding" in name]) == 1
    with pytest.raises(ConfigError, match="tie is for the head tokens"):
        build_model({**SIZES, "tie": True}, **FACTS)

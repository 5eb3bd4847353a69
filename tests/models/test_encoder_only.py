"""An encoder with a head: facts reach the parts that ask for them, options go down to them."""

from __future__ import annotations

import pytest

from seqwright.errors import ConfigError
from seqwright.models.building import build_model, resolve

FACTS = {"vocabulary": 9, "classes": 3, "values": 2}
SIZES = {"kind": "encoder_only", "size": 8, "layers": 1, "heads": 2}


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

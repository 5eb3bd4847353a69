"""Small models of every kind. The names come from the registries, so a new part meets the laws by itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from seqwright.data.batch import Tokens
from seqwright.models import DECODERS, ENCODERS
from seqwright.models.building import build_model
from seqwright.models.decoders.rnn import RECIPES
from seqwright.nn.feedforward import FEED_FORWARDS
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES

VOCABULARY = 9
SIZE, HEADS, LAYERS = 8, 2, 2
MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}
TOLERANCE = {"atol": 1e-10, "rtol": 1e-8}  # of float64: only the order of additions may differ

ids = st.integers(4, VOCABULARY - 1)
Spec = dict[str, Any]


def positions() -> dict[str, Any]:
    """Every position as it comes, and its other ways."""
    found: dict[str, Any] = {name: name for name in POSITIONS.names()}
    for name in POSITIONS.names():
        if "combine" in POSITIONS.options(name):
            found[f"{name}-concat"] = {"kind": name, "combine": "concat", "dimensions": 3}
    found["shaw-near"] = {"kind": "shaw", "distance": 1, "per_head": True}
    found["shaw-keys"] = {"kind": "shaw", "distance": 2, "values": False}
    return found


def transformers() -> dict[str, Spec]:
    """The options of a stack: positions with and without a window, scores, feed-forwards, norms, heads."""
    found: dict[str, Spec] = {}
    for name, position in positions().items():
        found[name] = {"position": position}
        found[f"{name}-window"] = {"position": position, "window": 2}
    found |= {f"score-{name}": {"score": name} for name in SCORES.names()}
    found |= {f"feed-{name}": {"feed_forward": name} for name in FEED_FORWARDS.names()}
    found["window-0"] = {"window": 0}
    found["post-rms"] = {"order": "post", "norm": "rms", "bias": False}
    found["heads-per-layer"] = {"heads": [1, 3], "cross_heads": [2, 1], "head_size": 6}
    return {name: {"heads": HEADS, "hidden": 12, **options} for name, options in found.items()}


def rnns() -> dict[str, Spec]:
    """The options of a recurrent decoder: every recipe of attention with what is fed, and no attention."""
    found: dict[str, Spec] = {
        "feeds-context-reads-state": {"query": "previous", "feed": "context", "readout": "state"}
    }
    for recipe in RECIPES:
        found[recipe] = {"attention": recipe}
        found[f"{recipe}-previous"] = {
            "attention": recipe,
            "query": "previous",
            "feed": "context",
            "readout": "maxout",
            "cell": "gru",
        }
        found[f"{recipe}-at-once"] = {"attention": recipe, "feed": "nothing"}
    found["rotary"] = {"attention": {"heads": HEADS, "position": "rotary"}}
    for feed in ("nothing", "context", "output"):
        found[f"none-{feed}"] = {"attention": "none", "feed": feed, "readout": "state"}
    found["none-maxout"] = {
        "attention": "none",
        "feed": "context",
        "readout": "maxout",
        "readout_size": 6,
        "embedding_size": 5,
    }
    return found


VARIANTS = {"transformer": transformers, "rnn": rnns}


def decoders() -> dict[str, Spec]:
    """Every kind of decoder; kinds that are not known here with their defaults."""
    return {
        f"{kind}:{name}": {"kind": kind, **options}
        for kind in DECODERS.names()
        for name, options in VARIANTS.get(kind, lambda: {"default": {}})().items()
    }


def encoders() -> dict[str, Spec]:
    found: dict[str, Spec] = {f"{kind}:default": {"kind": kind} for kind in ENCODERS.names()}
    found |= {
        f"transformer:{name}": {"kind": "transformer", **options} for name, options in transformers().items()
    }
    found["transformer:neighbours"] = {"kind": "transformer", "neighbours": 2}
    for cell in ("lstm", "gru"):
        found[f"rnn:{cell}-one-way"] = {"kind": "rnn", "cell": cell, "bidirectional": False}
        found[f"rnn:{cell}-backwards"] = {
            "kind": "rnn",
            "cell": cell,
            "bidirectional": False,
            "reverse": True,
        }
        found[f"rnn:{cell}-both-backwards"] = {"kind": "rnn", "cell": cell, "reverse": True}
    for options in found.values():
        if options["kind"] == "transformer":  # the encoder looks at nothing else
            options.pop("cross_heads", None)
            options.setdefault("heads", HEADS)
    return found


DECODER_CASES, ENCODER_CASES = decoders(), encoders()


@cache
def with_decoder(case: str, layers: int = LAYERS) -> Any:
    """A model with this decoder and an encoder of its kind, in float64, without dropout."""
    decoder = DECODER_CASES[case]
    kind = decoder["kind"] if decoder["kind"] in ENCODERS.names() else "transformer"
    return _small({"kind": kind, **({"heads": HEADS} if kind == "transformer" else {})}, decoder, layers)


@cache
def with_encoder(case: str, layers: int = LAYERS) -> Any:
    return _small(ENCODER_CASES[case], {"kind": "transformer", "heads": HEADS}, layers)


def _small(encoder: Spec, decoder: Spec, layers: int) -> Any:
    torch.manual_seed(1)
    description = {"encoder": encoder, "decoder": decoder, "size": SIZE, "layers": layers, "tie": False}
    model = build_model(description, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # zeros at first, which would hide a bias in the wrong place
            torch.nn.init.normal_(parameter)
    return model.double().eval()


def source(rows: list[list[int]]) -> Tokens:
    """Rows of ids, padded at the right; the padding is a word, so that looking at it would show."""
    width = max(map(len, rows))
    padded = torch.tensor([row + [4] * (width - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return Tokens(padded, None if bool((lengths == width).all()) else lengths)


def alone(model: Any, row: list[int], prefix: list[int]) -> Tensor:
    """The scores after a prefix (V,), from one source and in one piece: the naive way."""
    with torch.no_grad():
        scores, _ = model.step(torch.tensor([prefix]), model.start(source([row])))
    return scores[0]

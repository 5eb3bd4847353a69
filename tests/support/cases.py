"""Small models of every kind. The names come from the registries, so that the laws cover new parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from seqwright.config.presets import KIND
from seqwright.data.batch import Tokens
from seqwright.models import DECODERS, ENCODERS, HEADS, MODELS, Generative
from seqwright.models.building import build_model
from seqwright.models.decoders.rnn import RECIPES
from seqwright.nn.feedforward import ACTIVATIONS, FEED_FORWARDS
from seqwright.nn.kv_cache import GROWTHS
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES

VOCABULARY = 9
FACTS = {  # facts about data, for the parts that ask for them
    "source_vocabulary": VOCABULARY,
    "target_vocabulary": VOCABULARY,
    "vocabulary": VOCABULARY,
    "classes": 3,
    "values": 2,
    "lookback": 12,
    "horizon": 3,
    "channels": 3,
    "image_size": 8,
}
SIZE, HEAD_COUNT, LAYERS = 8, 2, 2
MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}
TOLERANCE = {"atol": 1e-10, "rtol": 1e-8}  # of float64: only the order of additions may differ

ids = st.integers(4, VOCABULARY - 1)
Spec = dict[str, Any]


def positions() -> dict[str, Any]:
    """Every position with its defaults, and with other options."""
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
    found |= {f"growth-{name}": {"growth": name, "window": 3} for name in GROWTHS.names()}
    found |= {
        f"activation-{name}": {"feed_forward": {"kind": "plain", "activation": name}} for name in ACTIVATIONS
    }
    found["zero-start"] = {"zero_start": True}
    found["cross-score"] = {"score": "cosine", "cross_score": "dot"}
    found["value-residual"] = {"value_residual": True, "position": "rotary"}
    found["window-0"] = {"window": 0}
    found["global"] = {"window": 1, "global_tokens": 2}
    found["embedding-norm"] = {"order": "post", "embedding_norm": True}
    found["post-rms"] = {"order": "post", "norm": "rms", "bias": False}
    found["heads-per-layer"] = {"heads": [1, 3], "cross_heads": [2, 1], "head_size": 6}
    return {name: {"heads": HEAD_COUNT, "hidden": 12, **options} for name, options in found.items()}


def rnns() -> dict[str, Spec]:
    """The options of a recurrent decoder: every recipe of attention with every feed, and no attention."""
    found: dict[str, Spec] = {
        "feeds-context-reads-state": {"query": "previous", "feed": "context", "readout": "state"}
    }
    previous = {"query": "previous", "feed": "context", "readout": "maxout", "cell": "gru"}
    for recipe in RECIPES:
        found[recipe] = {"attention": recipe}
        found[f"{recipe}-previous"] = {"attention": recipe, **previous}
        found[f"{recipe}-at-once"] = {"attention": recipe, "feed": "nothing"}
    found["rotary"] = {"attention": {"heads": HEAD_COUNT, "position": "rotary"}}
    for feed in ("nothing", "context", "output"):
        found[f"none-{feed}"] = {"attention": "none", "feed": feed, "readout": "state"}
    sizes = {"readout_size": 6, "embedding_size": 5}
    found["none-maxout"] = {"attention": "none", "feed": "context", "readout": "maxout", **sizes}
    return found


def without_memory() -> dict[str, dict[str, Spec]]:
    """The options of decoders that are language models: those that concern the past."""
    stacks = {name: {"position": position, "heads": HEAD_COUNT} for name, position in positions().items()}
    stacks["value-residual"] = {"value_residual": True, "heads": HEAD_COUNT}
    stacks["global"] = {"window": 1, "global_tokens": 2, "heads": HEAD_COUNT}
    stacks |= {
        f"growth-{name}": {"growth": name, "window": 2, "heads": HEAD_COUNT} for name in GROWTHS.names()
    }
    return {
        "transformer": stacks,
        "rnn": {
            "feeds-output": {},
            "at-once": {"feed": "nothing", "cell": "gru"},
            "maxout": {"feed": "nothing", "readout": "maxout"},
        },
    }


VARIANTS = {"transformer": transformers(), "rnn": rnns()}
DEFAULT: dict[str, Spec] = {"default": {}}


def decoders() -> dict[str, Spec]:
    """Models with every kind of decoder, with an encoder and, as `alone-…`, without one; kinds that are not
    known here with their defaults.
    """
    found: dict[str, Spec] = {}
    for kind in DECODERS.names():
        encoder = default_encoder(kind if kind in ENCODERS.names() else "transformer")
        for name, options in VARIANTS.get(kind, DEFAULT).items():
            found[f"{kind}:{name}"] = {"encoder": encoder, "decoder": {"kind": kind, **options}}
        for name, options in without_memory().get(kind, DEFAULT).items():
            found[f"alone-{kind}:{name}"] = {"kind": "decoder_only", "decoder": {"kind": kind, **options}}
    words = {"kind": "hierarchical", "upper": "none"}
    for name in ("hierarchical", "hierarchical-previous", "hierarchical-at-once"):  # each token is a turn
        found[f"rnn:{name}-turns"] = {"encoder": words, "decoder": {"kind": "rnn", **rnns()[name]}}
    return found


def default_encoder(kind: str) -> Spec:
    return {"kind": kind, **({"heads": HEAD_COUNT} if "heads" in ENCODERS.options(kind) else {})}


def encoders() -> dict[str, Spec]:
    found: dict[str, Spec] = {f"{kind}:default": default_encoder(kind) for kind in ENCODERS.names()}
    for name, options in transformers().items():
        options.pop("cross_heads", None)  # the encoder has no memory
        found[f"transformer:{name}"] = {"kind": "transformer", **options}
    found["transformer:neighbours"] = {"kind": "transformer", "heads": HEAD_COUNT, "neighbours": 2}
    for cell in ("lstm", "gru"):
        one_way = {"kind": "rnn", "cell": cell, "bidirectional": False}
        found[f"rnn:{cell}-one-way"] = one_way
        found[f"rnn:{cell}-backwards"] = {**one_way, "reverse": True}
        found[f"rnn:{cell}-both-backwards"] = {"kind": "rnn", "cell": cell, "reverse": True}
    attends = {"kind": "transformer", "heads": HEAD_COUNT}
    wider = {**attends, "size": 12}  # than the upper level
    for name, lower, upper in (
        ("rnn-transformer", "rnn", attends),
        ("transformers", wider, attends),
        ("transformer-rnn", attends, "rnn"),
    ):
        found[f"hierarchical:{name}"] = {"kind": "hierarchical", "lower": lower, "upper": upper}
    found["hierarchical:mean"] = {"kind": "hierarchical", "pooling": "mean"}
    found["hierarchical:one-level"] = {"kind": "hierarchical", "upper": "none"}
    return found


DECODER_CASES, ENCODER_CASES = decoders(), encoders()
GENERATIVE = [name for name in MODELS.names() if issubclass(MODELS.get(name), Generative)]
CAPPED = {f"{kind}:capped": kind for kind in GENERATIVE if "logit_cap" in MODELS.options(kind)}
HEAD_CASES = {f"{encoder}:{head}": (encoder, head) for encoder in ENCODERS.names() for head in HEADS.names()}


@cache
def with_decoder(case: str, layers: int = LAYERS) -> Any:
    """The model of a case, in float64, without dropout."""
    return _small(DECODER_CASES[case], layers)


@cache
def with_encoder(case: str, layers: int = LAYERS) -> Any:
    decoder = {"kind": "transformer", "heads": HEAD_COUNT}
    return _small({"encoder": ENCODER_CASES[case], "decoder": decoder}, layers)


@cache
def with_head(case: str) -> Any:
    encoder, head = HEAD_CASES[case]
    layers = 1 if "layers" in ENCODERS.options(encoder) else None
    return _small({"kind": "encoder_only", "encoder": default_encoder(encoder), "head": head}, layers)


@cache
def of_kind(kind: str) -> Any:
    """A model of any kind with its default parts; `kind:capped` limits its scores."""
    cap = {"logit_cap": 0.3} if kind in CAPPED else {}
    return _small({"kind": CAPPED.get(kind, kind), "heads": HEAD_COUNT, **cap}, LAYERS)


def _small(description: Spec, layers: int | None) -> Any:
    torch.manual_seed(1)
    depth = {} if layers is None else {"layers": layers}
    options = {"size": SIZE, **depth, "tie": False, **description}
    if "tie" not in MODELS.options(str(options.get("kind", KIND))):
        del options["tie"]
    model = build_model(options, **FACTS)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # zeros at first, which would hide a bias in the wrong place
            torch.nn.init.normal_(parameter)
    return model.double().eval()


def source(rows: list[list[int]]) -> Tokens:
    """Rows of ids, padded at the right; the padding is a word, so that reading it would show."""
    width = max(map(len, rows))
    padded = torch.tensor([row + [4] * (width - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return Tokens(padded, None if bool((lengths == width).all()) else lengths)


def example(model: Any, lengths: Sequence[int], seeds: Sequence[int]) -> SimpleNamespace:
    """A batch for an encoder with a head, or a forecaster. Row i is decided by its length and its seed."""
    if hasattr(model, "sample"):
        return model.sample(lengths, seeds)
    expected = model.head.sample(model.encoder.sampled_lengths(lengths), seeds)
    return SimpleNamespace(source=model.encoder.sample(lengths, seeds), expected=expected)


def alone(model: Any, row: list[int], prefix: list[int]) -> Tensor:
    """The scores after a prefix (V,), from one source and in one piece: the naive way."""
    with torch.no_grad():
        scores, _ = model.step(torch.tensor([prefix]), model.start(source([row])))
    return scores[0]

"""Small models of every family to look into, and how to look."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from seqwright import build_model
from seqwright.data.tokenizer import train_tokenizer
from seqwright.lens.trace.build import look
from seqwright.lens.trace.document import Trace
from seqwright.models.decoders.rnn import RECIPES
from seqwright.nn.positions import POSITIONS
from seqwright.prediction.predictor import Predictor
from seqwright.search import BeamOptions
from seqwright.tasks.text_to_text import TextToText

LETTERS = train_tokenizer("characters", ["through the looking glass"])
TEXT, REFERENCE = "look at", "glass"
OPTIONS = BeamOptions(size=3, n_best=3, min_length=4, max_length=6)

FAMILIES: dict[str, dict[str, Any]] = {
    f"transformer-{name}": {"heads": 2, "position": name} for name in POSITIONS.names()
}
FAMILIES |= {
    "transformer-window": {"heads": 2, "window": 1},
    "transformer-depths": {"heads": 2, "encoder": {"layers": 3}, "decoder": {"layers": 1}},
    "transformer-pruned": {"heads": [1, 3], "cross_heads": [2, 0], "head_size": 4},
    "transformer-additive": {"heads": 2, "score": "additive"},
    "transformer-bilinear": {"heads": 2, "score": "bilinear"},
}
FAMILIES |= {
    f"rnn-{name}": {"encoder": "rnn", "decoder": {"kind": "rnn", "attention": name}} for name in RECIPES
}
FAMILIES |= {
    "rnn-fixed": {
        "encoder": {"kind": "rnn", "reverse": True},
        "decoder": {"kind": "rnn", "attention": "none"},
    },
    "gru-at-once": {
        "encoder": {"kind": "rnn", "cell": "gru"},
        "decoder": {"kind": "rnn", "cell": "gru", "feed": "nothing"},
    },
    "mixed": {"heads": 2, "decoder": {"kind": "rnn", "cell": "gru"}},
}

PROMPTED: dict[str, dict[str, Any]] = {  # one sequence of source and output
    "transformer": {"kind": "decoder_only", "decoder": {"kind": "transformer", "heads": 2}},
    "gru": {"kind": "decoder_only", "decoder": {"kind": "rnn", "cell": "gru"}},
    "compressed": {
        "kind": "decoder_only",
        "decoder": {"kind": "transformer", "heads": 2, "growth": ["append", "compressed"]},
    },
}
POINTER = {"kind": "pointer_generator", "heads": 2}


def predictor(family: str, **options: Any) -> Predictor:
    """An untrained model; large weights make its output depend on its input."""
    torch.manual_seed(0)
    spec = {"size": 16, "layers": 2, **{**FAMILIES, **PROMPTED, "pointer": POINTER}[family], **options}
    task = TextToText(LETTERS, LETTERS)
    model = build_model(spec, **task.facts())
    for name, weight in model.weights().items():
        if "embedding" not in name and weight.dim() > 1:
            weight.mul_(2.0)
    return Predictor(model, task)


def looked(family: str, text: str = TEXT, options: BeamOptions = OPTIONS, **more: Any) -> Trace:
    """A trace without ablations, which take longest, by default."""
    return look(predictor(family), text, options=options, **{"ablate": False, **more})


@cache
def case(family: str) -> tuple[Predictor, Trace]:
    """A model and a whole trace of it, made once."""
    subject = predictor(family)
    return subject, look(subject, TEXT, options=OPTIONS, reference=REFERENCE)

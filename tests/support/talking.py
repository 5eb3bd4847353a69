"""Untrained models of conversations, whose outputs depend on their inputs."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from seqwright.config import SearchConfig, parse
from seqwright.data.read_report import Place
from seqwright.data.readers.conversations import Exchange
from seqwright.models.building import build_model
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.conversation import Conversation

TURNS = ("how are you", "fine and you", "bye bye")
TALK = [("hi", "hello there"), ("how are you", "fine"), ("bye", "so long"), ("who are you", "a machine")]
EXCHANGES = [Exchange(("well", q), a, q, Place("f", i)) for i, (q, a) in enumerate(TALK, start=1)] * 5
_SMALL = {"layers": 2, "size": 16, "hidden": 32, "heads": 2, "dropout": 0.0, "zero_start": False}
MODELS: dict[str, dict[str, Any]] = {
    "flat": {"preset": "tiny", **_SMALL},
    "decoder_only": {"kind": "decoder_only", "preset": "tiny", **_SMALL},
    "xing2018": {"preset": "xing2018", "size": 16},
    "hierarchical, current query": {
        "preset": "xing2018",
        "size": 16,
        "decoder": {"query": "current", "feed": "nothing", "readout": "tanh"},
    },
    "tiny-turns": {"preset": "tiny-turns", "size": 16},
    "dual_encoder": {"kind": "dual_encoder", "preset": "tiny", **_SMALL},
    "dual_encoder of n-grams": {"preset": "tiny-retriever", "size": 16, "embedding_size": 16, "dropout": 0.0},
    "dual_encoder of turns": {
        "kind": "dual_encoder",
        "encoder": {"kind": "hierarchical", "size": 16, "dropout": 0.0},
        "pooling": "attention",
    },
}


@cache
def talker(name: str, longest: int = 24, tokenizer: str = "characters") -> Predictor:
    """A model by its name, with an index of replies if it retrieves."""
    table: dict[str, Any] = {"task": "conversation", "data": {"max_length": longest}}
    table |= {"training": {"steps": 1}, "tokenizer": {"source": tokenizer}}
    task = Conversation.fit(parse({**table, "model": MODELS[name]}), lambda: EXCHANGES)
    torch.manual_seed(2)
    model = build_model(MODELS[name], **task.facts()).eval()
    for key, weight in model.weights().items():
        if "embedding" not in key and weight.dim() > 1:
            weight.mul_(2.0)
    return Predictor(model, task.indexed(model, EXCHANGES), SearchConfig(max_length=8))

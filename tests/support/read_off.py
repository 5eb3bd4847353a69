"""Untrained models of one side, and what they read: classifiers and language models."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from seqwright import build_model
from seqwright.data.labels import Labels
from seqwright.data.sentences import SentenceLimits
from seqwright.data.tokenizer import train_tokenizer
from seqwright.lens.trace.document import Trace
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.language_modeling import LanguageModeling
from seqwright.tasks.text_classification import TextClassification

TEXT = "look at the\nglass"
SENTENCES = "look at the glass\nthrough the glass\nlook"
HEAD = {"kind": "classes", "pooling": "attention"}
CHARACTERS = train_tokenizer("characters", ["through the looking glass\n"])
WORDS = train_tokenizer("bpe", ["through the looking glass, look at the\nglass"] * 3, max_size=40)
TRANSFORMER = {"kind": "transformer", "size": 16, "hidden": 32, "heads": 2, "layers": 2, "zero_start": False}
RNN = {"kind": "rnn", "size": 16, "layers": 2}


def classifier(encoder: dict[str, Any], pooling: str, longest: int = 64) -> Predictor:
    labels = Labels.of(Counter({"warm": 3, "cold": 2, "<b>mild</b>": 2}))
    task = TextClassification(WORDS, labels, longest)
    return _predictor(
        {"kind": "encoder_only", "encoder": encoder, "head": {**HEAD, "pooling": pooling}}, task
    )


def hierarchical() -> Predictor:
    """A classifier that reads sentences."""
    flat = classifier(RNN, "mean").task
    task = replace(flat, sentences=SentenceLimits(8, 10, 64))
    encoder = {"kind": "hierarchical", "size": 16}
    return _predictor({"kind": "encoder_only", "encoder": encoder, "head": HEAD}, task)


def language_model(decoder: dict[str, Any], window: int = 64) -> Predictor:
    task = LanguageModeling(CHARACTERS, window, (2,) * CHARACTERS.size)
    return _predictor({"kind": "decoder_only", "decoder": decoder}, task)


def _predictor(description: dict[str, Any], task: Any) -> Predictor:
    torch.manual_seed(0)
    model = build_model(description, **task.facts()).eval()
    for name, weight in model.weights().items():
        if "embedding" not in name and weight.dim() > 1:
            weight.mul_(2.0)
    return Predictor(model, task)


CASES = {
    "attention": lambda: classifier(TRANSFORMER, "attention"),
    "mean": lambda: classifier(TRANSFORMER, "mean"),
    "first": lambda: classifier(TRANSFORMER, "first"),
    "rnn": lambda: classifier(RNN, "attention"),
    "rotary": lambda: classifier({**TRANSFORMER, "position": "rotary"}, "attention"),
    "language": lambda: language_model(TRANSFORMER),
    "lstm": lambda: language_model(RNN),
}


@cache
def case(name: str) -> tuple[Predictor, Trace]:
    """A model and its trace of `TEXT`, made once."""
    subject = CASES[name]()
    return subject, subject.look(TEXT)

"""Untrained models of one side, and what they read: classifiers and language models."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from seqwright import build_model
from seqwright.config import Config, parse
from seqwright.data.labels import Labels
from seqwright.data.read_report import Place
from seqwright.data.readers.tagged import Tagged
from seqwright.data.sentences import SentenceLimits
from seqwright.data.task import task_class
from seqwright.data.tokenizer import Tokenizer, train_tokenizer
from seqwright.lens.trace.document import Trace
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.language_modeling import LanguageModeling
from seqwright.tasks.masked_language_modeling import MaskedLanguageModeling
from seqwright.tasks.text_classification import TextClassification
from seqwright.tasks.token_classification import TokenClassification

TEXT = "look at the\nglass"
BLANKS = "look at [MASK] glass [MASK]"
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


def hierarchical(**levels: Any) -> Predictor:
    """A classifier that reads sentences."""
    flat = classifier(RNN, "mean").task
    task = replace(flat, sentences=SentenceLimits(8, 10, 64))
    encoder = {"kind": "hierarchical", "size": 16, **levels}
    return _predictor({"kind": "encoder_only", "encoder": encoder, "head": HEAD}, task)


def language_model(decoder: dict[str, Any], window: int = 64) -> Predictor:
    task = LanguageModeling(CHARACTERS, window, (2,) * CHARACTERS.size)
    return _predictor({"kind": "decoder_only", "decoder": decoder}, task)


def tagger(*, spelled: bool) -> Predictor:
    """A tagger of words with their spelling, or of the pieces of words."""
    examples = [Tagged(("look", "at", "glass"), ("B-X", "I-X", "O"), Place("", 0))]
    table = {"task": "token_classification", "data": {"train": ["x"]}, "training": {"steps": 1}}
    config = parse({**table, "tokenizer": {"source": "characters"}})
    task = TokenClassification.fit(config, lambda: examples * 2)
    if not spelled:
        task = replace(task, words=None)
    return _predictor({"kind": "encoder_only", "encoder": TRANSFORMER, "head": "tags"}, task)


def masked_model(tokenizer: Tokenizer = WORDS) -> Predictor:
    """A model that fills blanks."""
    marked = tokenizer.grown(MaskedLanguageModeling.markers)
    task = MaskedLanguageModeling(marked, 64, (2,) * marked.size)
    return _predictor({"kind": "encoder_only", "encoder": TRANSFORMER, "head": "tokens"}, task)


def _predictor(description: dict[str, Any], task: Any) -> Predictor:
    torch.manual_seed(0)
    model = build_model(description, **task.facts()).eval()
    for name, weight in model.weights().items():
        if "embedding" not in name and weight.dim() > 1:
            weight.mul_(2.0)
    return Predictor(model, task)


def toy_configuration(task: str, folder: Path, **training: Any) -> Config:
    """A training of a few steps on the toy of a task."""
    name = "toy.tsv" if task == "text_classification" else "toy.txt"
    lines = ("\t".join(record.values()) for record in task_class(task).toy(0))
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = {"steps": 12, "tokens": 256, "decode": 4, "validations": 2, "smoothing": 0.0, **training}
    return parse(
        {
            "task": task,
            "data": {"train": [str(folder / name)], "held_out": 0.1, "max_length": 128},
            "model": {**TASKS[task], "layers": 2, "size": 16, "hidden": 16, "heads": 2},
            "training": options,
            "threads": 1,
        }
    )


TASKS = {
    "text_classification": {"kind": "encoder_only"},
    "language_modeling": {"kind": "decoder_only"},
}
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

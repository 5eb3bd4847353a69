"""A model that answers from a table: what an evaluation must say of it can be counted by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from seqwright.config import SearchConfig
from seqwright.data.results import Reading, Text
from seqwright.data.tokenizer import UNK, train_tokenizer
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_to_text import TextToText


class Answers(Predictor):
    """Says what the table has for a source, or nothing, each with a log-probability of -1."""

    def __init__(self, table: Mapping[str, str], *, source: str = "characters", target: str = "characters"):
        self.table, self.search, self.config, self.folder = dict(table), SearchConfig(beam=3), None, None
        self.task = TextToText(
            train_tokenizer(source, [*table, "a b"]), train_tokenizer(target, [*table.values(), "a b"])
        )
        self.changes: dict[str, Any] = {}
        self.threads_used, self.model = 1, None

    def stream(self, texts: Any, *, beam: Any = None, check: Any = lambda: None, **asked: Any) -> Any:
        check()
        for example in texts:
            text = example.source
            row = self.task.source.encode(text)
            output = Text(
                text=self.table.get(text, ""),
                score=-1.0,
                log_prob=-1.0,
                tokens=("x",),
                token_scores=(-0.5, -0.5),
                finish_reason="end",
                source=self.task.to_line(example),
                reading=Reading(len(row), row.count(UNK)),
            )
            yield replace(output, **self.changes)

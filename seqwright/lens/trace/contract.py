"""The parts of a predictor and of its task that the views of texts need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from seqwright.data.task import Task
from seqwright.data.tokenizer import Tokenizer
from seqwright.errors import ConfigError
from seqwright.models import Model


@runtime_checkable
class TextTask(Protocol):
    """The tokenizers of both sides, and the text of an output."""

    @property
    def source(self) -> Tokenizer: ...
    @property
    def target(self) -> Tokenizer: ...
    def text(self, tokens: Sequence[int]) -> str: ...


class Searcher(Protocol):
    """A model with its task and a search. `longest`: the most source tokens that it reads."""

    @property
    def model(self) -> Model: ...
    @property
    def task(self) -> object: ...
    @property
    def longest(self) -> int: ...
    def search_tokens(self, *rows: Any, **options: Any) -> Any:
        """Hypotheses for each row: search_tokens(rows, prefixes, options, recorder=None)."""


def searches_text(task: Any) -> bool:
    """Whether a task is traced by its search from text to text, not by a readout of its own."""
    own = getattr(type(task), "readout", None)
    return task.usage.generates and isinstance(task, TextTask) and own in (None, Task.readout)


def traced_in_training(task: Any, kind: str) -> bool:
    """Whether a training of a model of this kind records traces of its validations."""
    if kind not in task.usage.traced or task.usage.file != "lines":
        return False
    return not task.usage.generates or searches_text(task)


def text_task(task: object) -> TextTask:
    """Return a task from text to text; refuse any other."""
    if not isinstance(task, TextTask):
        raise ConfigError(f"{type(task).__name__} is not a task from text to text, which this view needs")
    return task

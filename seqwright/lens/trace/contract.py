"""The parts of a predictor and of its task that a trace needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from seqwright.data.tokenizer import Tokenizer
from seqwright.models import Model
from seqwright.search import BeamOptions, Hypothesis, Lattice


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
    def task(self) -> TextTask: ...

    @property
    def longest(self) -> int: ...

    def search_tokens(
        self,
        rows: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        options: BeamOptions,
        places: Sequence[int] = (),
        recorder: Lattice | None = None,
    ) -> list[list[Hypothesis]]: ...

"""Examples of a run: what its model said when it was new, kept to see whether it still says so.

examples.json: {"format": 1, "weights": SHA-256, "examples": [{"source", "output", "log_prob"}, …]}
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seqwright.data.inputs import Source
from seqwright.errors import ModelError
from seqwright.files import read_json, sha256, write_json
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import WEIGHTS

FORMAT = 1
EXAMPLES = "examples.json"
TOLERANCE = 1e-3  # of a log-probability: another machine, or other batches, round otherwise


@dataclass(frozen=True)
class Example:
    """A source, the output for it, and the log-probability of that."""

    source: str
    output: str
    log_prob: float

    def agrees(self, other: Example) -> bool:
        same = (self.source, self.output) == (other.source, other.output)
        return same and math.isclose(self.log_prob, other.log_prob, rel_tol=0, abs_tol=TOLERANCE)


@dataclass(frozen=True)
class Difference:
    """An example that a model says otherwise by now; `number` counts from 1."""

    number: int
    kept: Example
    found: Example

    def __str__(self) -> str:
        kept, found = self.kept, self.found
        if kept.output != found.output:
            return f"example {self.number}, {kept.source!r}: {found.output!r} instead of {kept.output!r}"
        return (
            f"example {self.number}, {kept.source!r}: the same output with log-probability "
            f"{found.log_prob:.4f} instead of {kept.log_prob:.4f}"
        )


@dataclass(frozen=True)
class Examples:
    """What examples.json holds: the examples, and the SHA-256 of the weights that they were made with."""

    weights: str
    examples: tuple[Example, ...]


def write_examples(folder: str | os.PathLike[str], predictor: Predictor, sources: Iterable[Source]) -> None:
    """Keeps what the model of a run folder says for these sources, searched for as it does by itself."""
    kept = {"format": FORMAT, "weights": sha256(Path(folder, WEIGHTS))}
    write_json(
        Path(folder, EXAMPLES), {**kept, "examples": [asdict(each) for each in said(predictor, sources)]}
    )


def read_examples(folder: str | os.PathLike[str]) -> Examples:
    path = Path(folder, EXAMPLES)
    if not path.exists():
        raise ModelError(f"{path} does not exist: the run was not finished, or copied without it")
    table = read_json(path)
    if isinstance(table.get("format"), int) and table["format"] > FORMAT:
        raise ModelError(f"{path} has format {table['format']}, newer than {FORMAT}; update Seqwright")
    try:
        return Examples(str(table.get("weights", "")), tuple(_example(each) for each in table["examples"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} does not hold examples ({error}); restore it from a copy") from error


def replay(predictor: Predictor, folder: str | os.PathLike[str]) -> list[Difference]:
    """The examples that the model does not say any more: another output, or another probability for it."""
    kept = read_examples(folder).examples
    found = said(predictor, [example.source for example in kept])
    pairs = enumerate(zip(kept, found, strict=True), start=1)
    return [Difference(number, before, now) for number, (before, now) in pairs if not before.agrees(now)]


def said(predictor: Predictor, sources: Iterable[Source]) -> list[Example]:
    return [Example(each.source, each.text, each.log_prob) for each in predictor.predict(sources)]


def _example(table: dict[str, Any]) -> Example:
    return Example(str(table["source"]), str(table["output"]), float(table["log_prob"]))

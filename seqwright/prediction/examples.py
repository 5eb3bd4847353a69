"""Examples of a run: recorded outputs of its model, which show later whether the model has changed.

examples.json: {"format": 1, "weights": SHA-256, "examples": [{"source", "output", "log_prob"}, …]}
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from seqwright.errors import InputError, ModelError
from seqwright.files import read_json, sha256, write_json
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import WEIGHTS

FORMAT = 1
EXAMPLES = "examples.json"
TOLERANCE, SHARE = 1e-3, 1e-5  # of numbers: other machines and other batches round differently


@dataclass(frozen=True)
class RecordedOutput:
    """Input, its output as in `Prediction.to_json`, and the log-probability of the output, if it has one."""

    source: str
    output: Any
    log_prob: float | None = None

    @classmethod
    def from_json(cls, table: dict[str, Any]) -> RecordedOutput:
        log_prob = table.get("log_prob")
        return cls(str(table["source"]), table["output"], None if log_prob is None else float(log_prob))

    def agrees(self, other: RecordedOutput) -> bool:
        return _close(asdict(self), asdict(other))


def _close(one: Any, other: Any) -> bool:
    """Compare JSON values; numbers may differ by TOLERANCE, and by a SHARE of themselves."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SHARE, abs_tol=TOLERANCE)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_close, one, other))
    return bool(one == other)


@dataclass(frozen=True)
class Difference:
    """Example whose output has changed; `number` counts from 1."""

    number: int
    recorded: RecordedOutput
    current: RecordedOutput

    def __str__(self) -> str:
        recorded, current = self.recorded, self.current
        if recorded.log_prob is None or current.log_prob is None or recorded.output != current.output:
            change = f"{current.output!r} instead of {recorded.output!r}"
        else:
            change = f"log-probability {current.log_prob:.4f} instead of {recorded.log_prob:.4f}, same output"
        return f"example {self.number}, {recorded.source!r}: {change}"


class Examples(NamedTuple):
    """Contents of examples.json: recorded outputs, and the SHA-256 of the weights that produced them."""

    weights: str
    examples: tuple[RecordedOutput, ...]


def write_examples(folder: str | os.PathLike[str], predictor: Predictor, inputs: Iterable[Any]) -> None:
    """Record the outputs of the model of a run folder for these inputs, with its default search."""
    task = predictor.task
    lines = [
        task.portable_line(example) for example in task.inputs(list(inputs))
    ]  # a replay has nothing else
    examples = [asdict(output) for output in _outputs(predictor, lines)]
    table = {"format": FORMAT, "weights": sha256(Path(folder, WEIGHTS)), "examples": examples}
    write_json(Path(folder, EXAMPLES), table)


def read_examples(folder: str | os.PathLike[str]) -> Examples:
    path = Path(folder, EXAMPLES)
    if not path.exists():
        raise ModelError(f"{path} does not exist: the run is unfinished, or was copied without it")
    table = read_json(path)
    if isinstance(table.get("format"), int) and table["format"] > FORMAT:
        raise ModelError(f"{path} has format {table['format']}, newer than {FORMAT}; update Seqwright")
    try:
        examples = tuple(RecordedOutput.from_json(each) for each in table["examples"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        reason = str(error)[:200]
        raise ModelError(f"{path} does not contain examples ({reason}); restore it from a copy") from error
    weights = table.get("weights")
    for value, name in ((examples, "examples"), (weights, "SHA-256 of the weights")):
        if not value:
            raise ModelError(f"{path} has no {name}, so nothing can be verified; restore it from a copy")
    return Examples(str(weights), examples)


def recorded_inputs(predictor: Predictor) -> list[str]:
    """Return the inputs of the examples of its run folder; none without examples."""
    folder = predictor.folder
    if folder is None or not (folder / EXAMPLES).exists():
        return []
    return [example.source for example in read_examples(folder).examples]


def warm_up(predictor: Predictor) -> None:
    """Compute a recorded example, so that the first prediction does not wait for lazy parts."""
    with suppress(InputError):  # the example may be the name of an image that is gone
        for line in recorded_inputs(predictor)[:1]:
            predictor.predict([predictor.task.from_line(line)], **predictor.task.judging.options)


def replay(predictor: Predictor, folder: str | os.PathLike[str]) -> list[Difference]:
    """Return the examples for which the model now has another output or another probability."""
    examples = read_examples(folder).examples
    outputs = _outputs(predictor, [example.source for example in examples])
    found = (Difference(number, *pair) for number, pair in enumerate(zip(examples, outputs, strict=True), 1))
    return [each for each in found if not each.recorded.agrees(each.current)]


def _outputs(predictor: Predictor, inputs: Iterable[Any]) -> list[RecordedOutput]:
    found = predictor.predict(inputs, **predictor.task.judging.options)
    return [RecordedOutput.from_json(each.to_json()) for each in found]

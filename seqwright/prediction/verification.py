"""Checks that a run folder is complete and that its model still produces the recorded outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seqwright.config import parse
from seqwright.data.task import task_class
from seqwright.errors import ModelError, SeqwrightError
from seqwright.files import sha256
from seqwright.prediction.examples import read_examples, replay
from seqwright.prediction.predictor import load
from seqwright.runs.folder import FORMAT, WEIGHTS, Run


@dataclass(frozen=True)
class Check:
    """Name and result of one check."""

    name: str
    passed: bool
    finding: str

    def __str__(self) -> str:
        return f"{'ok' if self.passed else 'FAILED':6s}  {self.name}: {self.finding}"


def verify(folder: str | os.PathLike[str]) -> Iterator[Check]:
    """Yield each result as soon as it is known. The first failure is the last: later checks depend on it."""
    for check in (_configuration, _tokenizers, _weights, _examples):
        name = check.__name__[1:]
        try:
            yield Check(name, True, check(Path(folder)))
        except SeqwrightError as error:
            yield Check(name, False, str(error))
            return


def _configuration(folder: Path) -> str:
    run = Run.open(folder)
    parse(run.config)
    return f"format {FORMAT}, run {run.id}"


def _tokenizers(folder: Path) -> str:
    config = parse(Run.open(folder).config)
    return task_class(config.task).load(folder, config).summary


def _weights(folder: Path) -> str:
    weights = load(folder).model.weights()
    numbers = sum(weight.numel() for weight in weights.values())
    digest = sha256(folder / WEIGHTS)[:12]
    return f"{len(weights)} tensors, {numbers:,} numbers, all finite; SHA-256 of {WEIGHTS} is {digest}…"


def _examples(folder: Path) -> str:
    recorded, current = read_examples(folder), sha256(folder / WEIGHTS)
    if recorded.weights != current:
        raise ModelError(
            f"the examples were recorded with weights of SHA-256 {recorded.weights[:12]}…, but "
            f"{folder / WEIGHTS} has {current[:12]}…; restore the weights from a copy, or train again"
        )
    count = len(recorded.examples)
    if differences := replay(load(folder), folder):
        raise ModelError(f"{len(differences)} of {count} outputs have changed; {differences[0]}")
    return f"{count} of {count} outputs unchanged"

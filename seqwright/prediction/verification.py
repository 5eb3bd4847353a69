"""Whether a run folder is whole and its model still says what it said when it was new."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seqwright.config import parse
from seqwright.errors import ModelError, SeqwrightError
from seqwright.files import sha256
from seqwright.prediction.examples import read_examples, replay
from seqwright.prediction.predictor import load
from seqwright.runs.folder import FORMAT, WEIGHTS, Run
from seqwright.runs.tensors import not_finite
from seqwright.tasks.text_to_text import Translation


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what was found."""

    name: str
    passed: bool
    finding: str

    def __str__(self) -> str:
        return f"{'ok' if self.passed else 'FAILED':6s}  {self.name}: {self.finding}"


def verify(folder: str | os.PathLike[str]) -> Iterator[Check]:
    """Check after check, each as it is done; the first that fails is the last, because the others need it."""
    checks: dict[str, Callable[[Path], str]] = {
        "configuration": _configuration,
        "tokenizers": _tokenizers,
        "weights": _weights,
        "examples": _examples,
    }
    for name, check in checks.items():
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
    task = Translation.load(folder)
    sides = (f"{side.kind} with {side.size:,} ids" for side in (task.source, task.target))
    return " → ".join(sides)


def _weights(folder: Path) -> str:
    """Of the model's shapes, and finite."""
    weights = load(folder).model.weights()
    if wrong := not_finite(weights):
        raise ModelError(f"{folder / WEIGHTS}: {wrong} is not finite; restore it from a copy")
    numbers = sum(weight.numel() for weight in weights.values())
    return (
        f"{len(weights)} tensors of {numbers:,} numbers, all finite; the file {WEIGHTS} has SHA-256 "
        f"{sha256(folder / WEIGHTS)[:12]}…"
    )


def _examples(folder: Path) -> str:
    """Made with these very weights, and still what they say."""
    kept, found = read_examples(folder), sha256(folder / WEIGHTS)
    if kept.weights not in ("", found):
        raise ModelError(
            f"they were made with weights of SHA-256 {kept.weights[:12]}…, and those in {folder / WEIGHTS} "
            f"have {found[:12]}…; restore them from a copy, or train again"
        )
    count, differences = len(kept.examples), replay(load(folder), folder)
    if differences:
        raise ModelError(f"{len(differences)} of {count} are not what they were; {differences[0]}")
    return f"{count} of {count} as they were"

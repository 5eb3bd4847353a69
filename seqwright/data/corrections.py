"""Corrections as training data: outputs that users corrected, mixed with the data of the run.

A file of corrections is `corrections.jsonl` as the server writes it: a JSON object per line with the columns
of the task. The rules, all of them functions of the files alone:

- Of several corrections of one input, the last one counts.
- Distinct inputs are numbered in order of appearance. The second of every five is held out for the final
  score, the fourth of every ten is for validation, and the others are for training. More corrections at the
  end of a file move none of the others.
- A line that is not a correction of the task, or has a label that the data does not have, is left out and
  counted.
- A correction whose input is in the validation or test split of the data is left out.
- A training example of the data whose input is corrected is left out: the correction replaces it.
- In training and in validation, corrections are repeated until they are a fifth of the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.jsonl import parse_object
from seqwright.data.readers.lines import cleaned
from seqwright.data.split import NAMES, Part
from seqwright.data.task import TASKS, task_class
from seqwright.data.text_display import excerpt, pluralize
from seqwright.errors import InputError

if TYPE_CHECKING:
    from seqwright.config import DataConfig
    from seqwright.data.task import Task

CORRECTIONS = "corrections.jsonl"  # in a run folder
SHARE = 0.2  # of the examples of a training that are corrections
CHOSEN: dict[Part, tuple[int, int]] = {  # one of so many distinct inputs, and its number from 0
    "test": (5, 1),
    "valid": (10, 3),
}
HELD_OUT: tuple[Part, ...] = ("valid", "test")
NAMED = 3  # places in a message


class Leak(NamedTuple):
    """A correction that is left out, because its input is in a held-out part of the data."""

    place: Place
    group: str
    part: Part


@dataclass(frozen=True)
class Corrections:
    """Corrections by part of the split.

    groups: the inputs that are corrected. superseded: how many corrections a later one of the same input
    replaces. bad_lines: for each line that is not a correction, an error that names it.
    """

    parts: Mapping[Part, tuple[Any, ...]]
    groups: frozenset[str]
    superseded: int
    bad_lines: tuple[str, ...]
    leaks: tuple[Leak, ...]

    def mixed(self, part: Part, own: Iterable[Any], group: Callable[[Any], str]) -> Iterator[Any]:
        """Yield the own examples of a part, then its corrections, as often as the rules say."""
        count = 0
        for example in own:
            if part != "train" or group(example) not in self.groups:
                count += 1
                yield example
        if part != "test":
            for _ in range(self.repeats(part, count)):
                yield from self.parts[part]

    def repeats(self, part: Part, own: int) -> int:
        """Return how often each correction comes next to so many other examples."""
        corrections = max(len(self.parts[part]), 1)
        return max(round(SHARE / (1 - SHARE) * own / corrections), 1)

    def lines(self) -> list[str]:
        """Return what was found, for a terminal."""
        counts = {part: f"{len(examples):,}" for part, examples in self.parts.items()}
        shares = (
            f"{counts['train']} for training, {counts['valid']} for validation, {counts['test']} held out"
        )
        return [
            f"{pluralize(len(self.groups), 'corrected input')}: {shares} for the score",
            *self._superseded(),
            *self._bad_lines(),
            *self._leaks(),
        ]

    def _superseded(self) -> Iterator[str]:
        if self.superseded:
            earlier = pluralize(self.superseded, "earlier correction")
            yield f"{earlier} of the same inputs left out: the last one counts"

    def _bad_lines(self) -> Iterator[str]:
        if self.bad_lines:
            yield f"{pluralize(len(self.bad_lines), 'bad line')} left out:"
            yield from (f"  {error}" for error in self.bad_lines[:NAMED])
            if (more := len(self.bad_lines) - NAMED) > 0:
                yield f"  and {more:,} more"

    def _leaks(self) -> Iterator[str]:
        for part in HELD_OUT:
            found = [leak for leak in self.leaks if leak.part == part]
            named = [f"{excerpt(leak.group)} at {leak.place}" for leak in found[:NAMED]]
            if found:
                places = ", ".join([*named, *(["…"] if len(found) > NAMED else [])])
                left_out = f"{pluralize(len(found), 'correction')} left out"
                yield f"{left_out}: the input is in the {NAMES[part]} split ({places})"


def read_corrections(
    task: type[Task[Any, Any]], data: DataConfig, originals: Callable[[Part], Iterable[Any]]
) -> Corrections:
    """Read the corrections of a configuration; `originals` yields the examples of a part of the data."""
    read, bad_lines = _read(task, data)
    read, unknown = _with_known_labels(task, read, originals)
    bad_lines += unknown
    files = ", ".join(data.corrections)
    if not read:
        found = f"only bad lines ({bad_lines[0]})" if bad_lines else "no corrections"
        raise InputError(f"{files} has {found}; correct outputs of the model first")
    latest = {task.group(example): example for example in read}  # an input keeps its number
    leaks = [
        Leak(latest[group].place, group, part)
        for part in HELD_OUT
        for group in dict.fromkeys(map(task.group, originals(part)))
        if group in latest
    ]
    parts: dict[Part, list[Any]] = {"train": [], "valid": [], "test": []}
    leaked = {leak.group for leak in leaks}
    for number, (group, example) in enumerate(latest.items()):
        if group not in leaked:
            parts[_part(number)].append(example)
    if not parts["train"]:
        raise InputError(
            f"{files} has no correction to train on: all {len(latest):,} inputs are in the validation and "
            "test splits, or held out; correct more outputs"
        )
    return Corrections(
        parts={part: tuple(examples) for part, examples in parts.items()},
        groups=frozenset(latest),
        superseded=len(read) - len(latest),
        bad_lines=tuple(bad_lines),
        leaks=tuple(leaks),
    )


def _read(task: type[Task[Any, Any]], data: DataConfig) -> tuple[list[Any], list[str]]:
    """Return all corrections, and the errors of bad lines."""
    read, bad_lines = [], []
    for path in data.corrections:
        for place, line in _lines(path):
            try:
                record = parse_object(line, place)
            except InputError as error:
                bad_lines.append(str(error))
                continue
            try:
                read.append(task.corrected(record, place, data))
            except InputError as error:
                bad_lines.append(f"{place}: {error}")
    return read, bad_lines


def _with_known_labels(
    task: type[Task[Any, Any]], read: list[Any], originals: Callable[[Part], Iterable[Any]]
) -> tuple[list[Any], list[str]]:
    """Return the corrections whose labels occur in the training data, and errors for the others."""
    labels = {label for example in read for label in task.all_labels(example)}
    for example in originals("train") if labels else ():
        labels.difference_update(task.all_labels(example))
        if not labels:
            break
    kept, errors = [], []
    for example in read:
        if unknown := [label for label in task.all_labels(example) if label in labels]:
            errors.append(f"{example.place}: the label {excerpt(unknown[0])} is not in the training data")
        else:
            kept.append(example)
    return kept, errors


def _part(number: int) -> Part:
    """Return the part of the distinct input with this number."""
    for part, (every, which) in CHOSEN.items():
        if number % every == which:
            return part
    return "train"


def _lines(path: str) -> Iterator[tuple[Place, str]]:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield Place(path, number), line.rstrip("\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error


def correctable_tasks() -> list[str]:
    """Return the names of the tasks whose outputs can be corrected."""
    return [name for name in TASKS.names() if task_class(name).learning.correctable]


def cell(record: Mapping[str, Any], name: str) -> str | list[str]:
    """Return the text in a column of a correction, or its list of texts."""
    value = record.get(name)
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts) or not "".join(texts).strip():
        raise InputError(f"a correction needs text under {name!r}")
    return texts if isinstance(value, list) else str(value)


def text_cell(record: Mapping[str, Any], name: str) -> str:
    """Return the text in a column of a correction."""
    value = cell(record, name)
    if not isinstance(value, str):
        raise InputError(f"a correction needs one text under {name!r}, not {len(value)}")
    return clean(value)


def clean(text: str) -> str:
    """Return a text without characters that a line of a file cannot hold."""
    return cleaned(text, Place("", 0), "replace", ReadReport())

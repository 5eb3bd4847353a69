"""All that a run folder tells about its training, read once, each part on its own: one that is missing or
damaged takes no other with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Gt, Lt

from seqwright.errors import ModelError
from seqwright.files import read_json
from seqwright.runs.folder import WEIGHTS, Run
from seqwright.evaluation.text_outputs import ItemKind

FORMAT = 1  # of data.json, evaluation.json and examples.json
LARGEST = 1e100  # of a number that can be drawn; NaN is not less than it either
Real = Annotated[float, Gt(-LARGEST), Lt(LARGEST)]
Count = Annotated[int, Ge(0), Lt(10**15)]
Metrics = dict[str, Real | None]


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths: how many texts have each."""

    mean: Real = 0.0
    longest: Count = 0
    counts: dict[Count, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """What one side of the pairs is made of."""

    characters: Lengths = field(default_factory=Lengths)
    words: Lengths = field(default_factory=Lengths)
    alphabet: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A trouble in the data; the fields are those of `seqwright.data.checks.findings.Finding`."""

    name: str = ""
    severity: str = "note"
    sentence: str = ""
    way_out: str = ""
    places: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    """What was decided for the user, and why."""

    what: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Data:
    """data.json."""

    name: str = ""
    form: list[str] = field(default_factory=list)
    pairs: Count = 0
    sources: Count = 0
    source: Side = field(default_factory=Side)
    target: Side = field(default_factory=Side)
    findings: list[Finding] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    split: dict[str, Count] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    leaks: Count | None = None
    leaks_by_part: dict[str, Count] | None = None
    machine: str | None = None


@dataclass(frozen=True)
class Bucket:
    """The scores of the items that have something in common."""

    name: str = ""
    items: Count = 0
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class Confusion:
    """A symbol that was said for another; the empty one stands for nothing."""

    expected: str = ""
    said: str = ""
    count: Count = 0


@dataclass(frozen=True)
class Example:
    """A source, what the model says for it, and, in a test, what it should say."""

    source: str = ""
    output: str = ""
    log_prob: Real | None = None
    references: list[str] = field(default_factory=list)
    kind: str = "sample"


@dataclass(frozen=True)
class Speed:
    """How fast the test was decoded."""

    sentences_per_second: Real | None = None
    latency_ms: Metrics = field(default_factory=dict)
    peak_memory_mb: Real | None = None
    threads: Count | None = None


@dataclass(frozen=True)
class Evaluation:
    """evaluation.json."""

    file: str | None = None
    items: Count = 0
    pairs: Count = 0
    beam: Count | None = None
    part: str = "test"
    writing: str | None = None
    item: ItemKind = "word"
    metrics: Metrics = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    intervals: dict[str, tuple[Real | None, Real | None]] = field(default_factory=dict)
    level: Real = 0.95
    better: dict[str, str] = field(default_factory=dict)
    buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    confusions: list[Confusion] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    speed: Speed = field(default_factory=Speed)
    version: str | None = None


@dataclass(frozen=True)
class Examples:
    """examples.json."""

    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """A run as it lies in its folder. `absent` says why a file of it is not used."""

    name: str
    run: str
    config: dict[str, Any]
    log: tuple[dict[str, Any], ...]
    data: Data | None
    evaluation: Evaluation | None
    examples: Examples | None
    parameters: int | None
    pruned: str | None  # how the weights came of those of another run
    absent: dict[str, str]

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """The records of training, each with its loss, in order."""
        return [entry for entry in self.log if finite(entry.get("loss")) is not None]

    @cached_property
    def validations(self) -> list[dict[str, Any]]:
        return [entry for entry in self.log if "valid_loss" in entry]

    @cached_property
    def kept(self) -> dict[str, Any] | None:
        """The validation whose weights were kept."""
        said = ((entry, entry.get("kept", entry.get("best"))) for entry in reversed(self.validations))
        return next((entry for entry, kept in said if kept is True), None)  # `best`: in logs from before

    @property
    def last_step(self) -> int:
        return max((entry["step"] for entry in self.log), default=0)

    @property
    def seconds(self) -> float | None:
        """From the start to the last record, validations included."""
        found = [finite(entry.get("seconds")) for entry in self.log]
        return max((each for each in found if each is not None), default=None)

    @property
    def judge(self) -> str:
        """The metric that chose the weights; where that was the loss, the first one that was tested."""
        chosen = self.setting("training", "metric")
        tested = self.evaluation.metrics if self.evaluation else {}
        return str(chosen) if chosen in tested or not tested else next(iter(tested))

    @property
    def writing(self) -> str:
        """How targets are written, as the test says it, or as the tokenizer lets one expect: text, symbols
        (between spaces) or characters.
        """
        if self.evaluation is not None and self.evaluation.writing:
            return self.evaluation.writing
        spec = self.setting("tokenizer", "target")
        kind = spec.get("kind") if isinstance(spec, Mapping) else spec
        kinds = {"symbols": "symbols", "words": "text", "bpe": "text", "unigram": "text"}
        return kinds.get(str(kind), "characters")

    @property
    def item(self) -> ItemKind:
        """What an item of the test is."""
        return self.evaluation.item if self.evaluation is not None else "word"

    def setting(self, *path: str) -> Any:
        """A value of the configuration, or None."""
        value: Any = self.config
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def read(folder: str | Path) -> Record:
    """The record of a run; a folder that is none is a ModelError."""
    run = Run.open(folder)
    absent: dict[str, str] = {}
    parameters, pruned = _weights(run.folder / WEIGHTS, absent)
    log = tuple(sorted(_entries(run), key=lambda entry: entry["step"]))
    if not log:
        absent["metrics.jsonl"] = "the run folder has no records in metrics.jsonl"
    return Record(
        name=run.folder.resolve().name,
        run=run.id,
        config=run.config,
        log=log,
        data=_stored(run.folder / "data.json", Data, absent),
        evaluation=_stored(run.folder / "evaluation.json", Evaluation, absent),
        examples=_stored(run.folder / "examples.json", Examples, absent),
        parameters=parameters,
        pruned=pruned,
        absent=absent,
    )


def finite(value: Any) -> float | None:
    """The value if it is a number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None


def _entries(run: Run) -> Iterator[dict[str, Any]]:
    for entry in run.records():
        if (step := finite(entry.get("step"))) is not None:
            yield {**entry, "step": int(step)}


Part = TypeVar("Part")


def _stored(path: Path, kind: type[Part], absent: dict[str, str]) -> Part | None:
    """A file of the folder as `kind`; keys that are not known are passed over."""
    from pydantic import TypeAdapter, ValidationError

    if not path.exists():
        absent[path.name] = f"the run folder has no {path.name}"
        return None
    try:
        fields = read_json(path)
        if fields.get("format") != FORMAT:
            raise ModelError(f"{path} has format {fields.get('format')!r}, and {FORMAT} is what is read here")
        return TypeAdapter(kind).validate_python(fields)
    except ModelError as error:
        absent[path.name] = f"{path.name} is not used: {str(error).replace(str(path), 'it', 1)}"
    except ValidationError as error:
        issue = error.errors()[0]
        place = ".".join(map(str, issue["loc"]))
        wrong = issue["type"].replace("_", " ")
        absent[path.name] = f"{path.name} is not used: {place} is not what it should be ({wrong})"
    return None


def _weights(path: Path, absent: dict[str, str]) -> tuple[int | None, str | None]:
    """How many numbers the weights are, and the note on their pruning, from the header of their file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            count = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
            return count, (file.metadata() or {}).get("pruned")
    except (OSError, SafetensorError):
        absent[path.name] = f"the run folder has no whole {path.name}"
        return None, None

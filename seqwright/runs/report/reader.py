"""Reading of a run folder for the report and the card. A missing or damaged file never affects another one.

The writers of data.json, evaluation.json and examples.json define their contents. They are read here by key
and type; a value of another type counts as missing, and unknown keys are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open

from seqwright.errors import ModelError
from seqwright.evaluation.text_outputs import ItemKind
from seqwright.files import check_format, read_json
from seqwright.runs.folder import WEIGHTS, Run

FORMAT = 1  # of data.json, evaluation.json and examples.json
LARGEST = 1e100  # the largest number that can be drawn


def finite(value: Any) -> float | None:
    """Return the value as a float if it is a number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None


def shown(value: Any) -> str:
    """Return a value of a document for people: a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


class Document:
    """A JSON object, read by key and type."""

    def __init__(self, fields: Any = None):
        self.fields: dict[str, Any] = fields if isinstance(fields, dict) else {}

    def text(self, key: str, default: str = "") -> str:
        value = self.fields.get(key)
        return value if isinstance(value, str) else default

    def number(self, key: str) -> float | None:
        return finite(self.fields.get(key))

    def count(self, key: str) -> int:
        return max(int(self.number(key) or 0), 0)

    def entries(self, key: str) -> list[Any]:
        value = self.fields.get(key)
        return value if isinstance(value, list) else []

    def texts(self, key: str) -> list[str]:
        return [item for item in self.entries(key) if isinstance(item, str)]

    def document(self, key: str) -> Document:
        return Document(self.fields.get(key))

    def documents(self, key: str) -> list[Document]:
        return [Document(item) for item in self.entries(key) if isinstance(item, dict)]

    def numbers(self, key: str) -> dict[str, float | None]:
        return {name: finite(value) for name, value in self.document(key).fields.items()}

    def counts(self, key: str) -> dict[str, int]:
        table = self.document(key)
        return {name: table.count(name) for name in table.fields}


class Data(Document):
    """data.json."""

    @property
    def unit(self) -> str:
        """The noun for one example."""
        return self.text("unit", "pair")

    @property
    def examples(self) -> int:
        return self.count(f"{self.unit}s") or self.count("pairs")

    @property
    def columns(self) -> dict[str, Document]:
        """The text columns by name: the objects that hold lengths in characters, or an alphabet."""
        found = {name: self.document(name) for name in self.fields}
        return {name: each for name, each in found.items() if {"characters", "alphabet"} & each.fields.keys()}


class Evaluation(Document):
    """evaluation.json."""

    @property
    def metrics(self) -> dict[str, float | None]:
        return self.numbers("metrics")

    @property
    def item(self) -> ItemKind:
        return "text" if self.text("item") == "text" else "word"

    @property
    def level(self) -> float:
        return self.number("level") or 0.95

    @property
    def buckets(self) -> dict[str, list[Document]]:
        table = self.document("buckets")
        return {title: table.documents(title) for title in table.fields}

    def interval(self, metric: str) -> tuple[float, float] | None:
        ends = [finite(end) for end in self.document("intervals").entries(metric)]
        low, high = ends if len(ends) == 2 else (None, None)
        return None if low is None or high is None else (low, high)

    def better(self, metric: str) -> str:
        return self.document("better").text(metric)

    def __init__(self, fields: Any = None):
        """Raise ModelError for scores that are not numbers and a negative number of items."""
        super().__init__(fields)
        for name, value in self.document("metrics").fields.items():
            if value is not None and finite(value) is None:
                raise ModelError(f"it has the score {name} = {value!r}, which is not a number")
        if (self.number("items") or 0) < 0:
            raise ModelError(f"it has {self.fields['items']} items")


@dataclass(frozen=True)
class Record:
    """The contents of a run folder. `absent` has the reason for each file that cannot be used."""

    name: str
    run: str
    config: dict[str, Any]
    log: tuple[dict[str, Any], ...]
    data: Data | None
    evaluation: Evaluation | None
    examples: list[Document]
    parameters: int | None
    pruned: str | None  # how the weights were made from those of another run
    absent: dict[str, str]

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """The log entries of training steps, in order."""
        return [entry for entry in self.log if finite(entry.get("loss")) is not None]

    @cached_property
    def validations(self) -> list[dict[str, Any]]:
        return [entry for entry in self.log if "valid_loss" in entry]

    @cached_property
    def kept(self) -> dict[str, Any] | None:
        """The validation whose weights were kept; older logs mark it with `best`."""
        marked = [entry for entry in self.validations if entry.get("kept", entry.get("best")) is True]
        return marked[-1] if marked else None

    @property
    def last_step(self) -> int:
        return max((entry["step"] for entry in self.log), default=0)

    @property
    def seconds(self) -> float | None:
        """The time from the start to the last log entry, validations included."""
        times = [finite(entry.get("seconds")) for entry in self.log]
        return max((each for each in times if each is not None), default=None)

    @property
    def judge(self) -> str:
        """The metric that selected the weights; if that was the loss, the first metric of the evaluation."""
        chosen = self.setting("training", "metric")
        metrics = self.evaluation.metrics if self.evaluation else {}
        return str(chosen) if chosen in metrics or not metrics else next(iter(metrics))

    @property
    def writing(self) -> str:
        """How targets are written (text, symbols or characters): as evaluated, or by the tokenizer."""
        if self.evaluation is not None and (writing := self.evaluation.text("writing")):
            return writing
        spec = self.setting("tokenizer", "target")
        kind = spec.get("kind") if isinstance(spec, Mapping) else spec
        kinds = {"symbols": "symbols", "words": "text", "bpe": "text", "unigram": "text"}
        return kinds.get(str(kind), "characters")

    @property
    def item(self) -> ItemKind:
        return self.evaluation.item if self.evaluation is not None else "word"

    def setting(self, *path: str) -> Any:
        """Return a value of the configuration, or None."""
        value: Any = self.config
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def read_record(folder: str | Path) -> Record:
    """Read a run folder. A folder that is not a run is a ModelError."""
    run = Run.open(folder)
    absent: dict[str, str] = {}
    parameters, pruned = _read_weights(run.folder / WEIGHTS, absent)
    known = [(entry, finite(entry.get("step"))) for entry in run.records()]
    entries = [{**entry, "step": int(step)} for entry, step in known if step is not None]
    log = tuple(sorted(entries, key=lambda entry: entry["step"]))
    if not log:
        absent["metrics.jsonl"] = "the run folder has no entries in metrics.jsonl"
    examples = _read_document(run.folder / "examples.json", Document, absent)
    return Record(
        name=run.folder.resolve().name,
        run=run.id,
        config=run.config,
        log=log,
        data=_read_document(run.folder / "data.json", Data, absent),
        evaluation=_read_document(run.folder / "evaluation.json", Evaluation, absent),
        examples=examples.documents("examples") if examples else [],
        parameters=parameters,
        pruned=pruned,
        absent=absent,
    )


D = TypeVar("D", bound=Document)


def _read_document(path: Path, kind: type[D], absent: dict[str, str]) -> D | None:
    if not path.exists():
        absent[path.name] = f"the run folder has no {path.name}"
        return None
    try:
        fields = read_json(path)
        check_format(path, fields.get("format"), FORMAT)
        return kind(fields)
    except ModelError as error:
        absent[path.name] = f"{path.name} is not used: {str(error).replace(str(path), 'it', 1)}"
        return None


def _read_weights(path: Path, absent: dict[str, str]) -> tuple[int | None, str | None]:
    """Return the number of parameters and the note on pruning, both from the header of the file."""
    try:
        with safe_open(path, framework="numpy") as file:
            count = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
            return count, (file.metadata() or {}).get("pruned")
    except (OSError, SafetensorError):
        absent[path.name] = f"the run folder has no complete {path.name}"
        return None, None

"""Reading of a run folder for the report and the card. A missing or damaged file never affects another one.

The writers of data.json, evaluation.json and examples.json define their contents. They are read here by key
and type; a value of another type counts as missing, and unknown keys are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from seqwright.errors import ModelError
from seqwright.evaluation.text_outputs import ItemKind
from seqwright.files import check_format, read_json
from seqwright.runs.folder import WEIGHTS, Run
from seqwright.runs.tensors import open_tensors

FORMAT = 1  # of data.json, evaluation.json and examples.json
LARGEST = 1e100  # the largest number that can be drawn


def finite(value: Any) -> float | None:
    """Return the value as a float if it is a number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None


def shown(value: Any) -> str:
    """Return a value of a document for people: a text as it is, texts with spaces, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return " ".join(value)
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
    def counted(self) -> str:
        """The noun for what training speed is counted in."""
        return self.text("counted", "token")

    @property
    def examples(self) -> int:
        return self.count(f"{self.unit}s") or self.count("pairs")

    @property
    def columns(self) -> dict[str, Document]:
        """The text columns by name: the objects that hold lengths in characters, or an alphabet."""
        found = {name: self.document(name) for name in self.fields}
        return {name: each for name, each in found.items() if {"characters", "alphabet"} & each.fields.keys()}


class Evaluation(Document):
    """evaluation.json. Scores that are not numbers and a negative number of items are a ModelError."""

    def __init__(self, fields: Any = None):
        super().__init__(fields)
        for name, value in self.document("metrics").fields.items():
            if value is not None and finite(value) is None:
                raise ModelError(f"it has the score {name} = {value!r}, which is not a number")
        if (self.number("items") or 0) < 0:
            raise ModelError(f"it has {self.fields['items']} items")

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


D = TypeVar("D", bound=Document)


class Record:
    """The contents of a run folder. `absent` has the reason for each file that cannot be used."""

    def __init__(self, folder: str | Path):
        """Read a run folder. A folder that is not a run is a ModelError."""
        run = Run.open(folder)
        self.folder, self.run, self.config = run.folder, run.id, run.config
        self.name = run.folder.resolve().name
        self.absent: dict[str, str] = {}
        self.parameters: int | None = None
        self.pruned: str | None = None  # how the weights were made from those of another run
        try:
            with open_tensors(run.folder / WEIGHTS) as file:
                shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
                self.parameters = sum(map(math.prod, shapes))
                self.pruned = (file.metadata() or {}).get("pruned")
        except ModelError:
            self.absent[WEIGHTS] = f"the run folder has no complete {WEIGHTS}"
        steps = [(entry, finite(entry.get("step"))) for entry in run.records()]
        entries = [{**entry, "step": int(step)} for entry, step in steps if step is not None]
        self.log: list[dict[str, Any]] = sorted(entries, key=lambda entry: entry["step"])
        if not self.log:
            self.absent["metrics.jsonl"] = "the run folder has no entries in metrics.jsonl"
        self.data = self._read("data.json", Data)
        self.evaluation = self._read("evaluation.json", Evaluation)
        self.examples = (self._read("examples.json", Document) or Document()).documents("examples")

    def _read(self, name: str, kind: type[D]) -> D | None:
        path = self.folder / name
        if not path.exists():
            self.absent[name] = f"the run folder has no {name}"
            return None
        try:
            fields = read_json(path)
            check_format(path, fields.get("format"), FORMAT)
            return kind(fields)
        except ModelError as error:
            self.absent[name] = f"{name} is not used: {str(error).replace(str(path), 'it', 1)}"
            return None

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
        chosen = str(self.setting("training", "metric"))
        metrics = self.evaluation.metrics if self.evaluation else {}
        return chosen if chosen in metrics or not metrics else next(iter(metrics))

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

    @property
    def training_files(self) -> list[str]:
        return Document(self.setting("data")).texts("train")

    def setting(self, *path: str) -> Any:
        """Return a value of the configuration, or None."""
        value: Any = self.config
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

"""The labels of a classifier: names, training counts, and the calibration of their probabilities."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError, model_validator

from seqwright.errors import ModelError
from seqwright.files import check_format, read_json, write_json

FORMAT = 1
LABELS = "labels.json"  # in a run folder


class LabelFile(BaseModel):
    """The contents of labels.json."""

    format: int
    names: Annotated[list[str], Field(min_length=1)]
    counts: list[NonNegativeInt]
    temperature: Annotated[float, Field(gt=0, lt=math.inf)] = 1.0
    unsure: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _one_count_each(self) -> LabelFile:
        if len(set(self.names)) < len(self.names) or len(self.counts) != len(self.names):
            raise ValueError("each label needs a name of its own and a count")
        return self


@dataclass(frozen=True)
class Labels:
    """Labels in the order of their numbers, and how often each occurs in the training data.

    temperature: scores are divided by it. unsure: answers with a lower probability are marked.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    temperature: float = 1.0
    unsure: float = 0.0

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Labels:
        """Number labels in natural order: 2 comes before 10."""
        names = sorted(counts, key=natural)
        return cls(tuple(names), tuple(counts[name] for name in names))

    def grown(self, counts: Mapping[str, int]) -> Labels:
        """Return these labels, with their numbers and new counts, and behind them those that are new."""
        new = sorted(counts.keys() - set(self.names), key=natural)
        names = (*self.names, *new)
        return Labels(names, tuple(counts.get(name, 0) for name in names))

    @cached_property
    def numbers(self) -> dict[str | None, int]:
        return {name: number for number, name in enumerate(self.names)}

    @property
    def calibration(self) -> str:
        """Describe the calibration of the probabilities, if there is one."""
        if (self.temperature, self.unsure) == (1.0, 0.0):
            return ""
        unsure = f"unsure below p = {self.unsure:.2f}" if self.unsure else "no answer is marked as unsure"
        return f"temperature {self.temperature:.2f}, {unsure}"

    @property
    def fingerprint(self) -> str:
        """Identify names and order; a calibration changes no training."""
        return hashlib.sha256(json.dumps(self.names).encode()).hexdigest()[:16]

    def save(self, path: Path) -> None:
        write_json(path, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, path: Path) -> Labels:
        table = read_json(path)
        check_format(path, table.get("format"), FORMAT)
        try:
            found = LabelFile.model_validate(table)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))[:80]
            message = f"{path} is damaged ({where}: {first['msg'][:80]}); restore it from a copy"
            raise ModelError(message) from error
        return cls(tuple(found.names), tuple(found.counts), found.temperature, found.unsure)


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts digits inside a text as numbers."""
    parts = re.split(r"(\d{1,18})", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]

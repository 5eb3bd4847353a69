"""The examples of a configuration by part, read from their files as often as needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from seqwright.config import Config, DataConfig
from seqwright.data.corrections import Corrections, read_corrections
from seqwright.data.read_report import ReadReport
from seqwright.data.split import (
    Fractions,
    Part,
    SplitRule,
    Strata,
    StratifiedPlaces,
    fractions_of,
    place_in_order,
    place_of,
)
from seqwright.data.task import Reader, Task, TimedReader, task_class


@dataclass(frozen=True)
class Corpus:
    """The files of a configuration, split into training, validation and test examples of one task; `fitted`
    is that of a trained model, which knows more about their form.
    """

    task: type[Task[Any, Any]]
    data: DataConfig
    fitted: Task[Any, Any] | None = None

    @classmethod
    def of(cls, config: Config) -> Corpus:
        return cls(task_class(config.task), config.data)

    def examples(self, part: Part, report: ReadReport | None = None) -> Iterator[Any]:
        """Yield the examples of a part, for training and validation mixed with corrections
        (`data.corrections`).
        """
        own = self.originals(part, report)
        if part == "test" or self.corrections is None:
            return own
        return self.corrections.mixed(part, own, self.task.group)

    @cached_property
    def corrections(self) -> Corrections | None:
        return read_corrections(self.task, self.data, self.originals) if self.data.corrections else None

    def originals(self, part: Part, report: ReadReport | None = None) -> Iterator[Any]:
        """Yield the examples of a part without corrections. Without files of its own it is a share of the
        training files.
        """
        report = ReadReport() if report is None else report
        if part != "train" and getattr(self.data, part):
            yield from self.reader(getattr(self.data, part)).read(report)
            return
        fractions, reader = self.fractions, self.reader(self.data.train)
        if self.task.learning.split is SplitRule.BY_TIME:
            yield from cast(TimedReader[Any], reader).read_part(part, report)
            return
        for place, example in self.placed(reader, report):
            if fractions.part(place) == part:
                yield example

    def placed(self, reader: Reader[Any], report: ReadReport) -> Iterator[tuple[float, Any]]:
        """Yield examples, each with the place from 0 to 1 that decides its part."""
        if self.task.learning.split is SplitRule.IN_ORDER:
            count = sum(1 for _ in reader.read(ReadReport()))
            for number, example in enumerate(reader.read(report)):
                yield place_in_order(number, count), example
            return
        if self.task.learning.split is SplitRule.BY_TIME:
            for example in reader.read(report):
                yield cast(TimedReader[Any], reader).share(example), example
            return
        place = self._by_label if self.task.learning.split is SplitRule.BY_LABEL else self._by_hash
        for example in reader.read(report):
            yield place(self.task.group(example)), example

    def _by_hash(self, group: str) -> float:
        return place_of(group, self.data.split)

    @cached_property
    def _by_label(self) -> StratifiedPlaces:
        """The places of all groups of the training files, which are read once more for it."""
        strata = Strata(self.data.split)
        for example in self.reader(self.data.train).read(ReadReport()):
            strata.add(self.task.group(example), self.task.label(example) or "")
        return strata.places()

    @property
    def fractions(self) -> Fractions:
        return fractions_of(self.data)

    def name(self, part: Part) -> str:
        """Return the files of a part, or those that it is taken from."""
        own = getattr(self.data, part)
        return self.reader(own).name if own else f"{part} part of {self.reader(self.data.train).name}"

    def reader(self, paths: tuple[str, ...]) -> Reader[Any]:
        opened = self.task.reader if self.fitted is None else self.fitted.own_reader
        return opened(paths, self.data)

    @property
    def paths(self) -> list[str]:
        files = self.task.files([*self.data.train, *self.data.valid, *self.data.test], self.data)
        return [*files, *self.data.corrections]

"""A task outside of the package: words that have more vowels than consonants, or not.

It is the smallest complete task: an encoder with a head, one text column and a label. Whatever a task needs
besides this class would show up here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqwright.config import Config, DataConfig
from seqwright.data.plan import RowLengths
from seqwright.data.read_report import Place
from seqwright.data.results import Cell, Prediction, Reading
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import Claim, Judge, Kind, Nouns, Role, Row, Task
from seqwright.data.tokenizer import UNK, Tokenizer, load_tokenizer, train_tokenizer
from seqwright.errors import InputError

LABELS = ("few", "many")
NOWHERE = Place("", 0)


class Word(NamedTuple):
    text: str
    label: str | None
    place: Place = NOWHERE


@dataclass(frozen=True, repr=False)
class Label(Prediction):
    label: str
    probability: float
    headings = ("source", "label", "probability")

    @property
    def value(self) -> str:
        return self.label

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "output": self.label, "probability": self.probability}

    def __str__(self) -> str:
        return self.label

    def rows(self) -> Iterator[list[Cell]]:
        texts = (self.source, self.label, f"{self.probability:.3f}")
        yield [Cell(text, text) for text in texts]


@dataclass(frozen=True)
class WordReader:
    """Lines of `word<TAB>label`."""

    paths: Sequence[str]
    form = ("one word and its label per line",)
    columns = None
    named_twice = None

    @property
    def name(self) -> str:
        return ", ".join(Path(path).name for path in self.paths)

    def read(self, report: Any) -> Iterator[Word]:
        for path in self.paths:
            for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
                text, _, label = line.partition("\t")
                yield Word(text, label, Place(str(path), number))


class WordBatch(NamedTuple):
    source: Any
    expected: Any
    index: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.index)

    count = rows

    @property
    def tokens(self) -> int:
        return self.source.count

    def with_shuffled_inputs(self) -> WordBatch:
        return self._replace(source=self.source.rolled())


@dataclass(frozen=True)
class Vowels(Task[Word, Label]):
    letters: Tokenizer

    roles = (Role("text", Kind.TEXT), Role("label", Kind.LABEL, needed="train"))
    models = ("encoder_only",)
    nouns = Nouns("word", group="word")
    sample_facts = {"vocabulary": 8, "classes": 2}  # noqa: RUF012

    @classmethod
    def claim(cls, glance: Any) -> Claim | None:
        return None

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> WordReader:
        return WordReader(tuple(paths))

    @classmethod
    def group(cls, example: Word) -> str:
        return example.text

    @classmethod
    def texts(cls, example: Word) -> tuple[str, ...]:
        return (example.text,)

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        draw = random.Random(seed)
        words = {"".join(draw.choices("aeibcdf", k=draw.randint(3, 7))) for _ in range(400)}
        return [
            {"text": word, "label": LABELS[2 * sum(letter in "aei" for letter in word) > len(word)]}
            for word in sorted(words)
        ]

    @classmethod
    def fit(
        cls, config: Config, examples: Callable[[], Iterable[Word]], start: Vowels | None = None
    ) -> Vowels:
        texts = (example.text for example in examples())
        return cls(train_tokenizer("characters", texts) if start is None else start.letters.grown(texts))

    @classmethod
    def load(cls, folder: Path, config: Config) -> Vowels:
        return cls(load_tokenizer(folder / "tokenizer.json"))

    def save(self, folder: Path) -> None:
        self.letters.save(folder / "tokenizer.json")

    @property
    def fingerprint(self) -> str:
        return self.letters.fingerprint

    @property
    def summary(self) -> str:
        return f"characters with {self.letters.size} ids → {len(LABELS)} labels"

    def facts(self) -> Mapping[str, Any]:
        return {"vocabulary": self.letters.size, "classes": len(LABELS)}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        ids, label = ColumnSpec.ids("text", self.letters.size), ColumnSpec("label", "u1")
        return (ids, label, ColumnSpec.text("word")) if readable else (ids, label)

    def encode(self, examples: Sequence[Word]) -> list[Row[Word]]:
        rows = []
        for example in examples:
            ids = self.letters.encode(example.text)
            columns: dict[str, Any] = {"text": ids, "word": example.text}
            if example.label is not None:
                columns["label"] = [LABELS.index(example.label)]
            rows.append(Row(example, columns, len(ids)))
        return rows

    def stored(self, store: Store, number: int) -> Word:
        label = int(store.column("label").row(number)[0])
        return Word(store.column("word").text(number), LABELS[label])

    def lengths(self, store: Store) -> RowLengths:
        counted = store.column("text").lengths()
        return RowLengths(np.zeros_like(counted), counted)

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> WordBatch:
        import torch

        from seqwright.data.batch import source_tokens

        labels = store.column("label").gather(numbers).flat.astype(np.int64)
        return WordBatch(
            source_tokens(store.column("text").gather(numbers)), torch.from_numpy(labels), numbers
        )

    @property
    def chance_loss(self) -> float:
        return math.log(len(LABELS))

    def inputs(self, given: Any) -> Iterator[Word]:
        for each in [given] if isinstance(given, str | Word) else given:
            if not isinstance(each, str | Word):
                raise InputError(f"{each!r} is not a word")
            yield Word(each, None) if isinstance(each, str) else each._replace(label=None)

    def labelled(self, given: Any) -> Iterator[Word]:
        yield from (Word(*each) for each in given)

    def from_line(self, line: str) -> Word:
        return Word(line, None)

    def to_line(self, example: Word) -> str:
        return example.text

    def answer(self, model: Any, rows: Sequence[Row[Word]], request: Any, numbers: Any = ()) -> list[Label]:
        from seqwright.data.batch import source_tokens
        from seqwright.models import evaluating

        tokens = source_tokens(Ragged.of([row.columns["text"] for row in rows]))
        with evaluating(model):
            chances = model(WordBatch(tokens, None, np.arange(len(rows)))).softmax(-1).tolist()
        return [
            Label(
                label=LABELS[chance.index(max(chance))],
                probability=max(chance),
                source=row.example.text,
                reading=Reading(row.length, list(row.columns["text"]).count(UNK)),
            )
            for row, chance in zip(rows, chances, strict=True)
        ]

    def truth(self, example: Word) -> str:
        assert example.label is not None
        return example.label

    def judge(self, examples: Any, references: Any, **options: Any) -> Judge:
        from seqwright.evaluation.metrics import METRICS

        return Judge((METRICS.build("exact_match"),), {}, {"exact_match": "accuracy"})

    def baseline(self, example: Word) -> str:
        return "few"

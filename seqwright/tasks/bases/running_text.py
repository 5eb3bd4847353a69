"""Running text: what the tasks on plain texts share, from passages to windows of ids.

Documents follow each other in one stream, with `END` after each. Training draws windows of at most
`data.max_length` tokens from it.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from seqwright.config import Config, DataConfig
from seqwright.config.registry import parse as parse_spec
from seqwright.data.plan import RowLengths, item_seed
from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.texts import Passage, TextFiles, open_texts, prompts
from seqwright.data.split import SplitRule
from seqwright.data.store import ColumnSpec, Store
from seqwright.data.task import (
    Check,
    Judge,
    Judging,
    Kind,
    Learning,
    Nouns,
    P,
    Role,
    Row,
    Task,
    fit_tokenizer,
)
from seqwright.data.tokenizer import END, Tokenizer, load_tokenizer
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.metrics import METRICS
from seqwright.evaluation.text_outputs import metric_label
from seqwright.files import read_json, write_json

TOKENIZER, COUNTS = "tokenizer.json", "tokenizer.counts.json"
NOWHERE = Place("", 0)
LOSSY = ("symbols",)  # tokenizers that lose line ends


@dataclass(frozen=True)
class Scoring:
    """The request to score texts instead of answering them."""


@dataclass(frozen=True)
class RunningText(Task[Passage, P]):
    """Texts as ids of one tokenizer. window: the tokens that the model sees; counts: how often each id occurs
    in the training split, from which a baseline is computed.

    part: the part of the model that reads. markers: entries of the tokenizer that no text has. usual,
    validated: the metrics of an evaluation and of a validation, which has a loss of its own. across: those
    that compare models with different tokenizers.
    """

    tokenizer: Tokenizer
    window: int
    counts: tuple[int, ...]

    roles = (Role("text", Kind.TEXT, needed="train"),)
    nouns = Nouns("passage", group="passage", epochs="windows per passage")
    learning = Learning(SplitRule.IN_ORDER, transfers=True)
    judging = Judging(options={"scored": True})
    sample_facts: ClassVar[Mapping[str, Any]] = {"vocabulary": 8}
    part: ClassVar[str]
    usual: ClassVar[tuple[str, ...]]
    validated: ClassVar[tuple[str, ...]]
    across: ClassVar[tuple[str, ...]] = ()
    markers: ClassVar[tuple[str, ...]] = ()

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> TextFiles:
        return open_texts(paths, data)

    @classmethod
    def group(cls, example: Passage) -> str:
        return f"{example.before}\0{example.text}"

    @classmethod
    def texts(cls, example: Passage) -> Sequence[str]:
        return (example.text.strip(" "),)  # a passage may end at a space

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Texts of a few words in any order."""
        draw = random.Random(seed)
        words = ("alpha", "gimel", "sixty", "brown", "djinn")
        return [{"text": " ".join(draw.choices(words, k=12))} for _ in range(150)]

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls, config: Config, examples: Callable[[], Iterable[Passage]], start: Task[Any, Any] | None = None
    ) -> Self:
        texts = chain((example.text for example in examples()), cls.markers)
        tokenizer = fit_tokenizer(config.tokenizer.source, texts, start)
        found, counts = cls(tokenizer, config.data.max_length, ()), np.zeros(tokenizer.size, np.int64)
        for example in examples():
            np.add.at(counts, found.ids(example), 1)
        return replace(found, counts=tuple(counts.tolist()))

    @classmethod
    def load(cls, folder: Path, config: Config) -> Self:
        tokenizer = load_tokenizer(folder / TOKENIZER)
        counts: Any = read_json(folder / COUNTS).get("counts")
        numbers = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
        if not numbers or len(counts) != tokenizer.size or sum(counts) >= 1 << 60:
            raise ModelError(
                f"{folder / COUNTS} does not have the counts of {tokenizer.size:,} ids; restore it"
            )
        return cls(tokenizer, config.data.max_length, tuple(counts))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        write_json(folder / COUNTS, {"counts": list(self.counts)})

    @property
    def reads(self) -> Tokenizer:
        return self.tokenizer

    @property
    def fingerprint(self) -> str:
        return self.tokenizer.fingerprint

    @property
    def summary(self) -> str:
        kind, size = self.tokenizer.kind, self.tokenizer.size
        return f"{kind} with {size:,} ids; a window of {self.window:,} tokens"

    @classmethod
    def check(cls, config: Config) -> None:
        from seqwright.models.building import resolve

        kind, _ = parse_spec("tokenizer", config.tokenizer.source)
        if kind in LOSSY:
            raise ConfigError(
                f"tokenizer.source is {kind}, which loses line ends; take characters, bytes, words or bpe"
            )
        position = resolve(config.model).get(cls.part, {}).get("position")
        known = position.get("length") if isinstance(position, Mapping) else None
        if isinstance(known, int) and config.data.max_length > known:
            raise ConfigError(
                f"data.max_length is {config.data.max_length}, but the model has {known} positions; lower it"
            )

    # Texts as numbers ------------------------------------------------------------------------------

    def ids(self, example: Passage) -> list[int]:
        """Return the ids of a passage, with `END` after the last one of a document."""
        (found,) = self.exact_ids([example.text])
        return [*found, END] if example.ends else found

    def exact_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts so that the ids of parts, one after the other, are those of the whole.

        Some tokenizers add a space before a text. A line end before it keeps that space apart.
        """
        before = len(self.tokenizer.encode("\n"))
        return [ids[before:] for ids in self.tokenizer.encode_batch([f"\n{text}" for text in texts])]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ids, the first space included, which `decode` takes for an added one."""
        return self.tokenizer.decode([self.line_end, *ids])[1:]

    @property
    def line_end(self) -> int:
        return self.tokenizer.encode("\n")[-1]

    def facts(self) -> dict[str, int]:
        return {"vocabulary": self.tokenizer.size}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        ids = ColumnSpec.ids("text", self.tokenizer.size)
        return (ids, ColumnSpec.text("passage_text"), ColumnSpec.text("before_text")) if readable else (ids,)

    def encode(self, examples: Sequence[Passage]) -> list[Row[Passage]]:
        rows = []
        encoded = self.exact_ids([example.text for example in examples])
        for example, ids in zip(examples, encoded, strict=True):
            columns = {
                "text": [*ids, END] if example.ends else ids,
                "passage_text": example.text,
                "before_text": example.before,
            }
            rows.append(Row(example, columns, min(len(ids), self.window)))
        return rows

    def stored(self, store: Store, number: int) -> Passage:
        text, before = (store.column(f"{name}_text").text(number) for name in ("passage", "before"))
        ends = store.column("text").row(number)[-1:].tolist() == [END]
        return Passage(text, before, ends, NOWHERE)

    def lengths(self, store: Store) -> RowLengths:
        """Each passage gives one window in an epoch."""
        width = self.width_in(store)
        return RowLengths(np.zeros(len(store), np.int32), np.full(len(store), width - 1, np.int32))

    def width_in(self, store: Store) -> int:
        """Return the tokens of a window; a text may be shorter."""
        return max(min(self.window, len(store.column("text").flat) - 1), 1)

    def drawn(self, store: Store, numbers: np.ndarray, width: int, *, seed: int, epoch: int) -> np.ndarray:
        """Return one window of ids per passage, at a random place of the passage, (B, width) int64."""
        column = store.column("text")
        begins, ends = column.offsets[numbers], column.offsets[numbers + 1]
        draws = [item_seed(seed, epoch, number) for number in numbers.tolist()]
        places = begins + np.array(draws) % np.maximum(ends - begins, 1)
        places = np.clip(places, 0, max(len(column.flat) - width, 0))
        rows = places[:, None] + np.arange(width)
        return column.flat[np.minimum(rows, len(column.flat) - 1)].astype(np.int64)

    @property
    def chance_loss(self) -> float:
        return math.log(self.tokenizer.size)

    # Inputs ----------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Passage]:
        for each in [given] if isinstance(given, str | Passage | Mapping) else given:
            text = each.get("text") if isinstance(each, Mapping) else each
            if not isinstance(text, str | Passage):
                raise InputError(f"{each!r:.60} is not a text; give a text, or a list of texts")
            yield self.from_line(text) if isinstance(text, str) else text

    def labelled(self, given: Any) -> Iterator[Passage]:
        return self.inputs(given)

    def file_inputs(self, path: str, data: DataConfig) -> Callable[[ReadReport], Iterator[Passage]] | None:
        rows = prompts(path, data)
        return rows and (lambda report: (Passage(text, "", False, place) for place, text in rows(report)))

    def from_line(self, line: str) -> Passage:
        return Passage(line, "", False, NOWHERE)

    def to_line(self, example: Passage) -> str:
        return example.text.replace("\n", " ")

    def unknown_symbols(self, line: str) -> list[str]:
        return [symbol for symbol, _ in self.tokenizer.count_unknown([line]).most_common]

    @property
    def one_text(self) -> bool:
        return True

    def input_limit(self, model: Any) -> int:
        return self.window

    # Scores ----------------------------------------------------------------------------------------

    @abstractmethod
    def scored(self, model: Any, rows: Sequence[Row[Passage]]) -> list[P]:
        """Score encoded texts, in order."""

    # Judging ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def evaluated(self) -> str:
        """What an evaluation looks at."""

    def judge(
        self,
        examples: Sequence[Passage],
        references: Sequence[Sequence[Any]],
        *,
        metrics: Sequence[Any] = (),
        validation: bool = False,
        **options: Any,
    ) -> Judge:
        specs = dict.fromkeys((*self.validated, *metrics)) if validation else metrics or self.usual
        built = tuple(METRICS.build(spec) for spec in specs)
        labels = {metric.name: metric_label(metric.name) for metric in built}
        across = tuple(name for name in self.across if name in labels)
        settings = {"context": self.evaluated}
        return Judge(built, settings, labels, tokens=self.tokenizer.fingerprint, across=across)

    def draft(self, model: Any, items: Sequence[tuple[Passage, Sequence[Any]]], check: Check) -> list[P]:
        check()
        return self.scored(model, self.encode([example for example, _ in items]))

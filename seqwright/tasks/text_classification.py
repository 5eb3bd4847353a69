"""Texts with one label each: sentiment, topics, intents, languages."""

from __future__ import annotations

import random
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqwright.config import Config, DataConfig
from seqwright.config.registry import parse as parse_spec
from seqwright.data.glance import Glance
from seqwright.data.labels import Labels
from seqwright.data.plan import RowLengths, cut_by_tokens, item_seed
from seqwright.data.read_report import Place
from seqwright.data.readers.labelled import (
    Labelled,
    LabelledFiles,
    is_marked,
    label_columns,
    open_labelled,
)
from seqwright.data.results import Label, Reading
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import Bucket, Claim, Item, Kind, Role, Row
from seqwright.data.text_display import pluralize
from seqwright.data.tokenizer import UNK, Tokenizer, load_tokenizer, train_tokenizer
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.buckets import LENGTHS, by_length, by_tenth
from seqwright.tasks.bases.labels import LABELS, LabelTask

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch
    from seqwright.models import Model

TOKENIZER = "tokenizer.json"
NOWHERE = Place("", 0)
TOKENS = 8192  # of inputs that are computed together, padding included


@dataclass(frozen=True)
class TextClassification(LabelTask[Labelled]):
    """Texts as ids of one tokenizer, of which the first `longest` are read, and the numbers of labels.

    sampled: the training texts are segmented differently in each epoch. temperature: the scores are divided
    by it (Guo et al. 2017). unsure: answers with a lower probability are marked.
    """

    tokenizer: Tokenizer
    labels: Labels
    longest: int
    sampled: bool = False

    roles = (Role("text", Kind.TEXT), Role("label", Kind.LABEL, needed="train"))
    noun, group_noun = "text", "text"
    sample_facts: ClassVar[Mapping[str, Any]] = {"vocabulary": 8, "classes": 2}

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        if glance.folder is not None:
            labels = glance.folder.labels
            if not glance.folder.labelled_texts:
                return None
            texts = f"{pluralize(labels.total(), 'text')} in {pluralize(len(labels), 'sub-folder')}"
            return Claim(3, f"{glance.name}: {texts}, one per label")
        if is_marked(glance):
            return Claim(6, f"{glance.name}: the lines begin with __label__")
        if glance.parallel or (found := label_columns(glance)) is None:
            return None
        tier = 3 if glance.shape == "jsonl" else 8 if found.named else 10
        return Claim(tier, f"{glance.name}: {found.reason}")

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> LabelledFiles:
        return open_labelled(paths, data)

    @classmethod
    def group(cls, example: Labelled) -> str:
        return example.text

    @classmethod
    def texts(cls, example: Labelled) -> tuple[str]:
        return (example.text,)

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Words, and which of two vowels they have more of."""
        draw = random.Random(seed)
        words = {"".join(draw.choices("aebcd", k=draw.randint(3, 7))) for _ in range(400)}
        kept = sorted(word for word in words if word.count("a") != word.count("e"))
        return [{"text": word, "label": "a" if word.count("a") > word.count("e") else "e"} for word in kept]

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls,
        config: Config,
        examples: Callable[[], Iterable[Labelled]],
        start: TextClassification | None = None,
    ) -> TextClassification:
        counts = cls.counted(examples)
        texts = (example.text for example in examples())
        rest = config.data.max_length, config.tokenizer.sampled
        if start is not None:
            return cls(start.tokenizer.grown(texts), start.labels.grown(counts), *rest)
        kind, options = parse_spec("tokenizer", config.tokenizer.source)
        return cls(train_tokenizer(kind, texts, **options), Labels.of(counts), *rest)

    @classmethod
    def load(cls, folder: Path, config: Config) -> TextClassification:
        tokenizer, labels = load_tokenizer(folder / TOKENIZER), Labels.load(folder / LABELS)
        return cls(tokenizer, labels, config.data.max_length, config.tokenizer.sampled)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.labels.save(folder / LABELS)

    @property
    def fingerprint(self) -> str:
        return f"{self.tokenizer.fingerprint}:{self.labels.fingerprint}"

    @property
    def summary(self) -> str:
        return f"{self.tokenizer.kind} with {self.tokenizer.size:,} ids → {len(self.labels.names):,} labels"

    # Examples as numbers ---------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        return {"vocabulary": self.tokenizer.size, **super().facts()}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = ColumnSpec.ids("text", self.tokenizer.size), ColumnSpec("label", "<u4")
        return (*columns, ColumnSpec.text("words")) if readable or self.sampled else columns

    def encode(self, examples: Sequence[Labelled]) -> list[Row[Labelled]]:
        rows, texts = [], [example.text for example in examples]
        for example, ids in zip(examples, self.tokenizer.encode_batch(texts), strict=True):
            columns: dict[str, Any] = {"text": ids[: self.longest], "words": example.text, "all": len(ids)}
            rows.append(Row(example, columns | self.label_column(example), len(columns["text"])))
        return rows

    def stored(self, store: Store, number: int) -> Labelled:
        label = self.labels.names[int(store.column("label").row(number)[0])]
        return Labelled(store.column("words").text(number), label, NOWHERE)

    def lengths(self, store: Store) -> RowLengths:
        counted = store.column("text").lengths()
        return RowLengths(np.zeros_like(counted), counted)

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> HeadBatch:
        import torch

        from seqwright.data.batch import HeadBatch, source_tokens

        texts = store.column("text").gather(numbers)
        if epoch is not None and self.sampled:
            drawn = ((store.column("words").text(i), item_seed(seed, epoch, i)) for i in numbers.tolist())
            texts = Ragged.of([self.tokenizer.encode_sampled(*each)[: self.longest] for each in drawn])
        labels = store.column("label").gather(numbers).flat.astype(np.int64)
        return HeadBatch(source_tokens(texts), torch.from_numpy(labels), numbers, len(numbers))

    # Answers ---------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Labelled]:
        one = isinstance(given, str | Labelled | Mapping | bytes) or not isinstance(given, Iterable)
        for each in [given] if one else given:
            text = each.get("text") if isinstance(each, Mapping) else each
            if isinstance(each, Labelled):
                yield each._replace(label=None)
            elif isinstance(text, str):
                yield Labelled(text, None, NOWHERE)
            else:
                raise InputError(f"{reprlib.repr(each)} is not a text; give a text, or a list of texts")

    def labelled(self, given: Any) -> Iterator[Labelled]:
        for number, each in enumerate(given, start=1):
            if not isinstance(each, tuple | list) or not all(isinstance(part, str) for part in each[:2]):
                raise InputError(f"example {number} is {reprlib.repr(each)}; give a list of (text, label)")
            yield each if isinstance(each, Labelled) else Labelled(each[0], each[1], NOWHERE)

    def from_line(self, line: str) -> Labelled:
        return Labelled(line, None, NOWHERE)

    def to_line(self, example: Labelled) -> str:
        return re.sub(r"\s+", " ", example.text)

    @property
    def one_text(self) -> bool:
        return True

    def unknown_symbols(self, line: str) -> list[str]:
        return [symbol for symbol, _ in self.tokenizer.count_unknown([line]).most_common]

    def input_limit(self, model: Model) -> int:
        from seqwright.models import table_length

        return min(self.longest, table_length(model, "encoder", self.longest + 1) - 1)

    def reading(self, row: Row[Labelled], limit: int) -> Reading:
        unknown, every = list(row.columns["text"]).count(UNK), row.columns["all"]
        return Reading(every, unknown, max(0, every - limit))

    def scores(self, model: Any, rows: Sequence[Row[Labelled]]) -> np.ndarray:
        from seqwright.data.batch import source_tokens
        from seqwright.models import evaluating

        limit = self.input_limit(model)
        found = np.zeros((len(rows), len(self.labels.names)))
        lengths = [min(row.length, limit) + 1 for row in rows]
        for numbers in cut_by_tokens(sorted(range(len(rows)), key=lengths.__getitem__), lengths, TOKENS):
            texts = source_tokens(Ragged.of([rows[i].columns["text"][:limit] for i in numbers]))
            with evaluating(model):
                found[numbers] = model.predictions(texts).double().numpy()
        return found

    # Judging ---------------------------------------------------------------------------------------

    def buckets(
        self, items: Sequence[Item[Labelled, Label]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by length and by the probability of the answer."""
        found = {
            LENGTHS["text"]: by_length([item.example.text for item in items], "text"),
            "probability of the label": by_tenth([item.output.probability for item in items]),
        }
        return {respect: buckets for respect, buckets in found.items() if buckets}

    @classmethod
    def check(cls, config: Config) -> None:
        if config.tokenizer.joint:
            raise ConfigError("tokenizer.joint is for two texts; a classifier reads one: remove it")

"""Texts with one label each: sentiment, topics, intents, languages. A table may have two texts per label:
paraphrases, entailment, duplicate questions. They are read as one sequence with a separator between them.
"""

from __future__ import annotations

import random
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqwright.config import Config, DataConfig
from seqwright.data.corrections import text_cell
from seqwright.data.fields import FIELD, has_fields, join_texts, places_read, plain, split_parts
from seqwright.data.glance import Glance
from seqwright.data.labels import Labels
from seqwright.data.plan import RowLengths, cut_by_tokens, item_seed
from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.labelled import (
    PAIRS,
    Labelled,
    LabelledFiles,
    bare_pair,
    bare_text,
    is_marked,
    label_columns,
    one_line,
    open_labelled,
    pair_of,
    texts_under,
    unlabelled,
)
from seqwright.data.readers.unlabelled import name_of
from seqwright.data.results import Label, Reading
from seqwright.data.sentences import SentenceLimits, split_sentences
from seqwright.data.split import SplitRule
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import (
    Bucket,
    Claim,
    Item,
    Kind,
    Learning,
    Nouns,
    Role,
    Row,
    Task,
    Usage,
    fit_tokenizer,
)
from seqwright.data.text_display import pluralize
from seqwright.data.tokenizer import END, UNK, Piece, Tokenizer, load_tokenizer
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.buckets import by_length, by_tenth
from seqwright.tasks.bases.labels import LABELS, LabelTask

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch, Segments, Tokens
    from seqwright.lens.trace.readout import Readout
    from seqwright.models import Model

TOKENIZER = "tokenizer.json"
NOWHERE = Place("", 0)
TOKENS = 8192  # of inputs that are computed together, padding included


@dataclass(frozen=True)
class TextClassification(LabelTask[Labelled]):
    """Texts as ids of one tokenizer, of which the first `longest` are read, and the numbers of labels.

    sampled: the training texts are segmented differently in each epoch. sentences: the limits of a text that
    is read by sentences, as some encoders do; None: it is one sequence. key: the name of the column of the
    texts. pair: the names of two texts that are read together; None: an input is one text.
    """

    tokenizer: Tokenizer
    labels: Labels
    longest: int
    sampled: bool = False
    sentences: SentenceLimits | None = None
    key: str | None = None
    pair: tuple[str, str] | None = None

    roles = (Role("text", Kind.TEXT), Role("label", Kind.LABEL, needed="train"))
    nouns = Nouns("text", group="text")
    learning = Learning(SplitRule.BY_LABEL, transfers=True, correctable=True)
    usage = Usage(traced=LabelTask.models)
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
    def corrected(cls, record: Mapping[str, Any], place: Place, data: DataConfig) -> Labelled:
        pair = pair_of(data) or next((pair for pair in PAIRS if record.keys() >= set(pair)), None)
        texts = [text_cell(record, name) for name in pair or ("text",)]
        return Labelled(join_texts(texts), text_cell(record, "label").strip(), place)

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

    @property
    def own_roles(self) -> tuple[Role, ...]:
        if self.pair is None:
            return self.roles
        return (*(Role(name, Kind.TEXT) for name in self.pair), self.roles[-1])

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls,
        config: Config,
        examples: Callable[[], Iterable[Labelled]],
        start: Task[Any, Any] | None = None,
    ) -> TextClassification:
        counts = cls.counted(examples)
        tokenizer = fit_tokenizer(config.tokenizer.source, (example.text for example in examples()), start)
        labels = start.labels.grown(counts) if isinstance(start, cls) else Labels.of(counts)
        return cls(tokenizer, labels, *_options(config))

    @classmethod
    def load(cls, folder: Path, config: Config) -> TextClassification:
        tokenizer, labels = load_tokenizer(folder / TOKENIZER), Labels.load(folder / LABELS)
        return cls(tokenizer, labels, *_options(config))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.labels.save(folder / LABELS)

    @property
    def reads(self) -> Tokenizer:
        return self.tokenizer

    @property
    def fingerprint(self) -> str:
        by_sentences = "" if self.sentences is None else ":sentences"
        return f"{self.tokenizer.fingerprint}:{self.labels.fingerprint}{by_sentences}"

    @property
    def summary(self) -> str:
        read = ""
        if self.sentences is not None:
            read = f" in up to {self.sentences.sentences} sentences of up to {self.sentences.tokens}"
        if self.pair is not None:
            read = f" for {self.pair[0]} and {self.pair[1]} together"
        ids = f"{self.tokenizer.kind} with {self.tokenizer.size:,} ids{read}"
        return f"{ids} → {len(self.labels.names):,} labels"

    # Examples as numbers ---------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        return {"vocabulary": self.tokenizer.size, **super().facts()}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = [ColumnSpec.ids("text", self.tokenizer.size), ColumnSpec("label", "<u4")]
        if self.sentences is not None:
            columns.append(ColumnSpec("sentences", "<u4"))
        return (*columns, ColumnSpec.text("words")) if readable or self.sampled else tuple(columns)

    def encode(self, examples: Sequence[Labelled]) -> list[Row[Labelled]]:
        rows, texts = [], [self.parts(example.text) for example in examples]
        encoded = iter(self.tokenizer.encode_batch([part for parts in texts for part in parts]))
        for example, parts in zip(examples, texts, strict=True):
            every = list(islice(encoded, len(parts)))
            ids, sentences = self._read(every)
            columns = {
                "text": ids,
                "sentences": sentences,
                "words": example.text,
                "all": sum(map(len, every)),
            }
            rows.append(Row(example, columns | self.label_column(example), len(ids)))
        return rows

    def parts(self, text: str) -> list[str]:
        """Return the parts of a text that are encoded by themselves: its sentences, or the text."""
        return [text] if self.sentences is None else [sentence.text for sentence in split_sentences(text)]

    def _read(self, parts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return the ids that are read, and the lengths of their sentences; there is at least one."""
        if self.sentences is None:
            return self._cut(parts[0], self.longest), []
        read = self.sentences.cut(parts) or [[END]]
        return list(chain.from_iterable(read)), list(map(len, read))

    @cached_property
    def separator(self) -> int | None:
        """The id between two texts; None where an input is one."""
        return None if self.pair is None else self.tokenizer.encode(FIELD)[0]

    def _cut(self, ids: Sequence[int], limit: int) -> list[int]:
        """Return the ids that are read, at most `limit`."""
        return [ids[place] for place in places_read(ids, limit, self.separator)]

    def _source(self, texts: Ragged, sentences: Ragged | None = None) -> Tokens | Segments:
        from seqwright.data.batch import segments, source_tokens

        if self.sentences is None or sentences is None:
            return source_tokens(texts)
        return segments(texts, sentences)

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

        from seqwright.data.batch import HeadBatch

        names = ("text",) if self.sentences is None else ("text", "sentences")
        if epoch is not None and self.sampled:
            seeds = [item_seed(seed, epoch, number) for number in numbers.tolist()]
            texts = map(store.column("words").text, numbers.tolist())
            drawn = [self._read(self._sampled(*each)) for each in zip(texts, seeds, strict=True)]
            columns = [Ragged.of(column) for column in zip(*drawn, strict=True)]
        else:
            columns = [store.column(name).gather(numbers) for name in names]
        labels = store.column("label").gather(numbers).flat.astype(np.int64)
        return HeadBatch(self._source(*columns), torch.from_numpy(labels), numbers, len(numbers))

    def _sampled(self, text: str, seed: int) -> list[list[int]]:
        return [self.tokenizer.encode_sampled(part, seed + k) for k, part in enumerate(self.parts(text))]

    # Answers ---------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Labelled]:
        one = isinstance(given, str | Labelled | Mapping | bytes) or not isinstance(given, Iterable)
        for each in [given] if one or (self.pair and isinstance(given, tuple)) else given:
            yield each._replace(label=None) if isinstance(each, Labelled) else self._input(each)

    def _input(self, given: Any) -> Labelled:
        if self.pair is not None:
            return self._two_texts(given, self.pair)
        text = given.get("text") if isinstance(given, Mapping) else given
        if not isinstance(text, str):
            raise InputError(f"{reprlib.repr(given)} is not a text; give a text, or a list of texts")
        return Labelled(text, None, NOWHERE)

    def _two_texts(self, given: Any, names: tuple[str, str]) -> Labelled:
        """Return the input in a tuple, an object or a line."""
        if isinstance(given, Mapping):
            given = texts_under(given, names, Place("the input", 0))
        if isinstance(given, str):
            return Labelled(given, None, NOWHERE) if has_fields(given) else self.from_line(given)
        two = isinstance(given, tuple | list) and len(given) == 2
        if not two or not all(isinstance(text, str) for text in given):
            raise InputError(
                f"{reprlib.repr(given)} is not a pair of texts; give a tuple ({names[0]}, {names[1]}), an "
                "object with these keys, or a list of several"
            )
        return Labelled(join_texts(list(map(plain, given))), None, NOWHERE)

    def labelled(self, given: Any) -> Iterator[Labelled]:
        text = "text" if self.pair is None else f"({', '.join(self.pair)})"
        for number, each in enumerate(given, start=1):
            if not isinstance(each, tuple | list) or len(each) < 2 or not isinstance(each[1], str):
                raise InputError(f"example {number} is {reprlib.repr(each)}; give a list of ({text}, label)")
            yield each if isinstance(each, Labelled) else self._input(each[0])._replace(label=each[1])

    def file_inputs(self, path: str, data: DataConfig) -> Callable[[ReadReport], Iterator[Labelled]] | None:
        rows = unlabelled(path, data, self.labels.numbers)
        return rows and (lambda report: (Labelled(text, None, place) for place, text in rows(report)))

    def from_line(self, line: str) -> Labelled:
        """The text of a line, or both; a label next to it is left out."""
        if self.pair is not None:
            return Labelled(bare_pair(line, self.labels.numbers, self.pair), None, NOWHERE)
        return Labelled(bare_text(line, self.labels.numbers, self.key), None, NOWHERE)

    def to_line(self, example: Labelled) -> str:
        texts = one_line(example.text).split(FIELD)
        return texts[0] if len(texts) == 1 else "\t".join(text.replace("\t", " ") for text in texts)

    def check_compatible(self, example: Labelled, files: Sequence[str]) -> None:
        if has_fields(example.text) == (self.pair is not None):
            return
        names = ", ".join(files)
        if self.pair is None:
            raise InputError(f"{names} was read as two texts per label; the model reads one: name one column")
        raise InputError(
            f"{names} was read as one text per label; the model reads two: name their columns, as in "
            f"--columns {','.join(self.pair)}:label"
        )

    @property
    def one_text(self) -> bool:
        return self.pair is None

    def unknown_symbols(self, line: str) -> list[str]:
        texts = split_parts(self.from_line(line).text)[::2]
        return [symbol for symbol, _ in self.tokenizer.count_unknown(texts).most_common]

    def input_limit(self, model: Model) -> int:
        from seqwright.models import table_length

        if self.sentences is not None:  # positions count the words of a sentence, and sentences
            return self.longest
        return min(self.longest, table_length(model, "encoder", self.longest + 1) - 1)

    def reading(self, row: Row[Labelled], limit: int) -> Reading:
        unknown, every = list(row.columns["text"]).count(UNK), row.columns["all"]
        return Reading(every, unknown, max(0, every - min(row.length, limit)))

    def source(self, rows: Sequence[Row[Labelled]], limit: int) -> Tokens | Segments:
        """Return encoded texts as the model reads them."""
        texts = Ragged.of([self._cut(row.columns["text"], limit) for row in rows])
        return self._source(texts, Ragged.of([row.columns["sentences"] for row in rows]))

    def scores(self, model: Any, rows: Sequence[Row[Labelled]]) -> np.ndarray:
        from seqwright.models import evaluating

        limit = self.input_limit(model)
        found = np.zeros((len(rows), len(self.labels.names)))
        lengths = [min(row.length, limit) + 1 for row in rows]
        for numbers in cut_by_tokens(sorted(range(len(rows)), key=lengths.__getitem__), lengths, TOKENS):
            with evaluating(model):
                source = self.source([rows[i] for i in numbers], limit)
                found[numbers] = model.predictions(source).double().numpy()
        return found

    def readout(self, model: Model, example: Labelled) -> Readout:
        import torch

        from seqwright.data.batch import HeadBatch
        from seqwright.lens.trace.pieces import joined_entries, text_pieces
        from seqwright.lens.trace.readout import Readout, check_text

        check_text(example.text)
        (row,), limit = self.encode([example]), self.input_limit(model)
        number = int(self.scores(model, [row])[0].argmax())
        found = Readout(
            HeadBatch(self.source([row], limit), torch.tensor([number]), np.zeros(1, np.int64), 1),
            example.text,
            text_pieces(self.tokenizer, example.text, limit, self.separator),
            joined_entries([number], [self.labels.names[number]]),
            self.labels.names.__getitem__,
            {"source": "text", "output": "label", "step": "label", "symbol": "label"},
            temperature=self.labels.temperature,
        )
        return found if self.sentences is None else self._by_sentences(found, row)

    def _by_sentences(self, readout: Readout, row: Row[Labelled]) -> Readout:
        """Return the readout of a text that is read by sentences, with an axis of its sentences."""
        from seqwright.lens.trace.pieces import piece_entries
        from seqwright.lens.trace.readout import by_parts

        text, ids, pieces, end = readout.text, list(row.columns["text"]), list[Piece](), 0
        for part in self.parts(text):
            start = text.index(part, end)
            end = start + len(part)
            pieces += [Piece(p.text, start + p.start, start + p.end) for p in self.tokenizer.pieces(part)]
        unread = max(0, len(pieces) - len(ids))
        pieces = [*pieces[: len(ids)], *[Piece("", end, end)] * (len(ids) - len(pieces))]
        source = {**piece_entries(text, ids, pieces, ended=False), "unread": unread}
        return by_parts(replace(readout, source=source), row.columns["sentences"], "sentences")

    # Judging ---------------------------------------------------------------------------------------

    def buckets(
        self, items: Sequence[Item[Labelled, Label]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by length and by the probability of the answer."""
        texts = "the text" if self.pair is None else "both texts"
        found = {
            f"length of {texts} in words": by_length([item.example.text for item in items], "text"),
            "probability of the label": by_tenth([item.output.probability for item in items]),
        }
        return {respect: buckets for respect, buckets in found.items() if buckets}

    @classmethod
    def check(cls, config: Config) -> None:
        if config.tokenizer.joint:
            raise ConfigError("tokenizer.joint is for sources and targets; a classifier has none: remove it")
        pair = pair_of(config.data)
        if pair is not None and _sentence_limits(config) is not None:
            raise ConfigError(
                f"the encoder reads the sentences of one text, but data.columns = {config.data.columns} "
                "names two texts; choose another model, as in model.preset=lstm-classifier"
            )


def _options(config: Config) -> tuple[Any, ...]:
    """Return the fields of a task after its tokenizer and its labels."""
    data, sampled = config.data, config.tokenizer.sampled
    return data.max_length, sampled, _sentence_limits(config), name_of(data), pair_of(data)


def _sentence_limits(config: Config) -> SentenceLimits | None:
    """Return the limits of sentences for a model whose encoder reads them."""
    from seqwright.models.building import reads_sentences

    if not reads_sentences(config.model):
        return None
    return SentenceLimits(config.data.max_sentence_length, config.data.max_sentences, config.data.max_length)

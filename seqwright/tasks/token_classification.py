"""A tag for each word of a sentence: parts of speech, entities, chunks."""

from __future__ import annotations

import math
import random
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from seqwright.config import Config, DataConfig
from seqwright.data.calibration import log_softmax
from seqwright.data.corrections import cell
from seqwright.data.glance import Glance
from seqwright.data.labels import Labels
from seqwright.data.lexicon import Lexicon
from seqwright.data.plan import RowLengths, cut_by_tokens
from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.conll import DOCUMENT, cells_of, is_columns, is_conllu
from seqwright.data.readers.lines import cleaned
from seqwright.data.readers.parses import HEAD_COLUMN, tree_of, warn_without_trees
from seqwright.data.readers.tagged import WORDS as NAMES
from seqwright.data.readers.tagged import (
    Tagged,
    TaggedFiles,
    evidence_of_tags,
    open_tagged,
    untagged,
    words_in_object,
)
from seqwright.data.readers.unlabelled import LINE, object_in
from seqwright.data.results import Reading, Tags, TagSequence
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.tag_scheme import Scheme, Transitions, entities, scheme_of
from seqwright.data.task import (
    Bucket,
    Claim,
    Item,
    Judge,
    Judging,
    Kind,
    Learning,
    Mistake,
    Nouns,
    Role,
    Row,
    Table,
    Task,
    Usage,
    fit_tokenizer,
)
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.data.tokenizer import UNK, Piece, Tokenizer, load_tokenizer, train_tokenizer
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.buckets import LENGTHS, by_length, by_tenth
from seqwright.evaluation.class_table import class_table, counted_table
from seqwright.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch, Tokens
    from seqwright.lens.trace.readout import Readout
    from seqwright.models import Model

P = TypeVar("P")
TOKENIZER, WORDS, LABELS, LEXICON = "tokenizer.json", "words.json", "labels.json", "lexicon.json"
NOWHERE = Place("", 0)
TOKENS = 8192  # of inputs that are computed together, padding included
SPELLING = ("characters", "letters", "bytes")  # tokenizers that spell words
KNOWN = 2  # occurrences of a word from which on it has a vector of its own
HEAD, TAIL = 24, 8  # pieces of a longer word that are read
SHOWN = 6  # tags in an error
NOTHING = np.empty(0, dtype=np.int64)
ENTITIES = ("entity_f1", "entity_precision", "entity_recall")


class Cut(NamedTuple):
    """A part of a sentence in numbers: its words (empty without a table of words), the pieces of all its
    words, the number of pieces of each, and the head of each word (empty without a tree).
    """

    words: np.ndarray
    pieces: np.ndarray
    counts: np.ndarray
    heads: np.ndarray

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Cut:
        """Return a whole encoded sentence."""
        return cls(*(np.array(columns.get(name, ()), dtype=np.int64) for name in cls._fields))

    def part(self, start: int, stop: int) -> Cut:
        """Return the words from `start` to `stop` − 1. One whose head is elsewhere hangs from the root."""
        counts, before = self.counts[start:stop], int(self.counts[:start].sum())
        pieces = self.pieces[before : before + int(counts.sum())]
        heads = self.heads[start:stop].astype(np.int64) - start
        inside = (heads > 0) & (heads <= len(counts))
        return Cut(self.words[start:stop], pieces, counts, np.where(inside, heads, 0))


@dataclass(frozen=True)
class TokenClassification(Task[Tagged, Tags]):
    """Sentences as words with tags.

    words: the table of frequent words, in lower case. With it an input is words: each has the vector of its
    entry plus that of its spelling by `tokenizer`. Without it an input is the pieces of all words, and a word
    is tagged at its first piece. longest: longer sentences are read in parts of so many words. parsed: the
    model reads dependency trees.
    """

    tokenizer: Tokenizer
    words: Tokenizer | None
    labels: Labels
    lexicon: Lexicon
    longest: int
    parsed: bool = False

    roles = (Role("sentence", Kind.TEXT), Role("tags", Kind.LABEL, needed="train"))
    models = ("encoder_only",)
    nouns = Nouns("sentence", group="sentence")
    learning = Learning(transfers=True, correctable=True, takes_field=True, takes_trees=True)
    usage = Usage(traced=models)
    judging = Judging(merges=False)  # published scores count every sentence of a test file
    sample_facts: ClassVar[Mapping[str, Any]] = {"vocabulary": 8, "pieces": 8, "classes": 2}

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        found = evidence_of_tags(glance)
        return None if found is None else Claim(found[0], f"{glance.name}: {found[1]}")

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> TaggedFiles:
        return open_tagged(paths, data)

    @classmethod
    def group(cls, example: Tagged) -> str:
        return joined(example.words)

    @classmethod
    def corrected(cls, record: Mapping[str, Any], place: Place, data: DataConfig) -> Tagged:
        words, tags = (words_of(cell(record, name)) for name in ("sentence", "tags"))
        if len(words) != len(tags):
            counts = f"{pluralize(len(words), 'word')} and {pluralize(len(tags), 'tag')}"
            raise InputError(f"{counts}; each word needs one tag")
        return Tagged(words, tags, place)

    @classmethod
    def texts(cls, example: Tagged) -> tuple[str]:
        return (joined(example.words),)

    @classmethod
    def all_labels(cls, example: Tagged) -> tuple[str, ...]:
        return example.tags or ()

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Names behind a title are persons, and so is the second name; elsewhere the same words are not."""
        draw, rows = random.Random(seed), {}
        for _ in range(400):
            words, tags = list[str](), list[str]()
            for _ in range(draw.randint(1, 3)):
                title = draw.choice(["mr", "dr", "the", "a"])
                names = draw.choices(["rose", "may", "hall", "king", "hill"], k=draw.randint(1, 2))
                marks = ["B-PER", "I-PER"] if title in ("mr", "dr") else ["O", "O"]
                words += [title, *names]
                tags += ["O", *marks[: len(names)]]
            rows[" ".join(words)] = " ".join(tags)
        return [{"sentence": words, "tags": tags} for words, tags in rows.items()]

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls,
        config: Config,
        examples: Callable[[], Iterable[Tagged]],
        start: Task[Any, Any] | None = None,
    ) -> TokenClassification:
        from seqwright.models.building import reads_trees

        counts = Counter(tag for example in examples() for tag in example.tags or ())
        refuse_one_tag(counts, "the training data")
        parsed = reads_trees(config.model)
        if parsed:
            warn_without_trees((example.heads is not None for example in examples()), "sentence")
        own = start if isinstance(start, cls) else None
        labels = Labels.of(counts) if own is None else own.labels.grown(counts)
        pairs = (zip(example.words, example.tags or (), strict=True) for example in examples())
        lexicon = Lexicon.of((word, labels.numbers[tag]) for each in pairs for word, tag in each)
        words = (word for example in examples() for word in example.words)
        if own is not None:
            rest = config.data.max_length, parsed
            return cls(own.tokenizer.grown(words), own.words, labels, lexicon, *rest)
        tokenizer, known = fit_tokenizer(config.tokenizer.source, words, start), None
        if start is None and tokenizer.kind in SPELLING:
            texts = (joined(example.words).lower() for example in examples())
            known = train_tokenizer("symbols", texts, min_count=KNOWN)
        return cls(tokenizer, known, labels, lexicon, config.data.max_length, parsed)

    @classmethod
    def load(cls, folder: Path, config: Config) -> TokenClassification:
        from seqwright.models.building import reads_trees

        labels = Labels.load(folder / LABELS)
        words = load_tokenizer(folder / WORDS) if (folder / WORDS).exists() else None
        lexicon = Lexicon.load(folder / LEXICON, len(labels.names))
        rest = config.data.max_length, reads_trees(config.model)
        return cls(load_tokenizer(folder / TOKENIZER), words, labels, lexicon, *rest)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.labels.save(folder / LABELS)
        self.lexicon.save(folder / LEXICON)
        if self.words is not None:
            self.words.save(folder / WORDS)

    @property
    def reads(self) -> Tokenizer | None:
        return self.tokenizer if self.words is None else None

    @property
    def fingerprint(self) -> str:
        parts = (self.tokenizer, self.words, self.labels)
        return ":".join(part.fingerprint for part in parts if part is not None)

    @property
    def summary(self) -> str:
        known = "" if self.words is None else f", {self.words.size:,} frequent words"
        tags = f"{len(self.labels.names):,} tags"
        return f"{self.tokenizer.kind} with {self.tokenizer.size:,} ids{known} → {tags}"

    @cached_property
    def scheme(self) -> Scheme | None:
        """How the tags mark entities, if they do."""
        return scheme_of(self.labels.names)

    @cached_property
    def transitions(self) -> Transitions:
        return Transitions(self.labels.names, self.scheme)

    # Examples as numbers ---------------------------------------------------------------------------

    @classmethod
    def check(cls, config: Config) -> None:
        from seqwright.models.building import resolve

        if config.tokenizer.joint or config.tokenizer.sampled:
            raise ConfigError("a tagger reads words in one way; remove tokenizer.joint and tokenizer.sampled")
        head = resolve(config.model).get("head", {}).get("kind")
        if head != "tags" and ":" not in str(head):
            raise ConfigError(
                f"model.head is {head!r}; a tagger needs a tag for each word: set model.head=tags"
            )

    def facts(self) -> Mapping[str, Any]:
        tags = {"classes": len(self.labels.names)}
        if self.words is None:
            return {"vocabulary": self.tokenizer.size, **tags}
        return {"vocabulary": self.words.size, "pieces": self.tokenizer.size, **tags}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        pieces = ColumnSpec.ids("pieces", self.tokenizer.size), ColumnSpec("counts", "u1")
        known = () if self.words is None else (ColumnSpec.ids("words", self.words.size),)
        texts = (ColumnSpec.text("text"), ColumnSpec.text("names")) if readable else ()
        trees = (ColumnSpec("heads", "<u4"),) if self.parsed else ()
        return (*pieces, *known, ColumnSpec("tags", "<u4"), *trees, *texts)

    def encode(self, examples: Sequence[Tagged]) -> list[Row[Tagged]]:
        forms = list({word: None for example in examples for word in example.words})
        encoded = self.tokenizer.encode_batch(forms)
        spelled = {form: _shortened(ids) or [UNK] for form, ids in zip(forms, encoded, strict=True)}
        texts = [joined(example.words).lower() for example in examples]
        known = [[]] * len(examples) if self.words is None else self.words.encode_batch(texts)
        rows = []
        for example, words in zip(examples, known, strict=True):
            pieces = [spelled[word] for word in example.words]
            columns: dict[str, Any] = {
                "pieces": [piece for each in pieces for piece in each],
                "counts": [len(each) for each in pieces],
                "words": words,
                "text": "\n".join(example.words),
                "heads": example.heads or (),
            }
            if example.tags is not None:
                unknown = len(self.labels.names)  # a tag that training has not seen is not learned
                columns["tags"] = [self.labels.numbers.get(tag, unknown) for tag in example.tags]
                columns["names"] = "\n".join(example.tags)
            rows.append(Row(example, columns, self._length(columns)))
        return rows

    def _length(self, columns: Mapping[str, Any]) -> int:
        return len(columns["pieces" if self.words is None else "words"])

    def stored(self, store: Store, number: int) -> Tagged:
        words, tags = (store.column(name).text(number).split("\n") for name in ("text", "names"))
        heads = tuple(store.column("heads").row(number).tolist()) if self.parsed else ()
        return Tagged(tuple(words), tuple(tags), NOWHERE, heads=heads or None)

    def lengths(self, store: Store) -> RowLengths:
        counted = store.column("pieces" if self.words is None else "words").lengths()
        return RowLengths(np.zeros_like(counted), counted)

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> HeadBatch:
        import torch

        from seqwright.data.batch import HeadBatch
        from seqwright.models.heads.tags import IGNORE

        kept = [spec.name for spec in self.columns(readable=False) if spec.name in Cut._fields]
        columns = {name: store.column(name) for name in kept}
        cuts = []
        for number in numbers.tolist():
            rows = {name: column.row(number) for name, column in columns.items()}
            cuts.append(Cut(*(rows.get(name, NOTHING) for name in Cut._fields)).part(0, self.longest))
        source = self._source(cuts)
        expected = torch.full(source.ids.shape, IGNORE)
        count = 0
        for row, cut, number in zip(expected, cuts, numbers.tolist(), strict=True):
            tags = torch.from_numpy(store.column("tags").row(number)[: self.longest].astype(np.int64))
            learned = tags < len(self.labels.names)
            row[self._places(cut)] = tags.where(learned, IGNORE)
            count += int(learned.sum())
        return HeadBatch(source, expected, numbers, count)

    def _source(self, cuts: Sequence[Cut]) -> Tokens:
        """Return what the encoder reads: words with their spelling, or pieces."""
        import torch

        from seqwright.data.batch import SpelledTokens, Trees, source_tokens

        pieces = Ragged.of([cut.pieces for cut in cuts])
        words = source_tokens(pieces if self.words is None else Ragged.of([cut.words for cut in cuts]))
        trees = None
        if self.parsed:
            numbered = [np.arange(1, len(cut.counts) + 1) for cut in cuts]
            if self.words is None:
                numbered = [np.repeat(each, cut.counts) for each, cut in zip(numbered, cuts, strict=True)]
            trees = Trees.of(numbered, [cut.heads for cut in cuts], words.ids.shape[1])
        if self.words is None:
            return replace(words, trees=trees)
        counts = np.concatenate([np.append(cut.counts, 0).astype(np.int64) for cut in cuts])  # 0: the end
        spelling = {"pieces": torch.from_numpy(pieces.flat), "counts": torch.from_numpy(counts)}
        return SpelledTokens(words.ids, words.lengths, trees=trees, **spelling)

    def _places(self, cut: Cut) -> np.ndarray:
        """Return where the words of a sentence are tagged: each at its place, or at its first piece."""
        if self.words is not None:
            return np.arange(len(cut.counts))
        return np.cumsum(cut.counts, dtype=np.int64) - cut.counts

    @property
    def chance_loss(self) -> float:
        return math.log(len(self.labels.names))

    # Answers ---------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Tagged]:
        one = isinstance(given, str | tuple | Mapping | bytes) or not isinstance(given, Iterable)
        for each in [given] if one else given:
            if isinstance(each, Tagged):
                yield each._replace(tags=None)
            else:
                named = (
                    [each[name] for name in NAMES if name in each] if isinstance(each, Mapping) else [each]
                )
                yield Tagged(words_of(named[0] if named else each), None, NOWHERE)

    def labelled(self, given: Any) -> Iterator[Tagged]:
        for number, each in enumerate(given, start=1):
            if isinstance(each, Tagged):
                yield each
                continue
            if not isinstance(each, tuple | list) or len(each) != 2:
                raise InputError(f"example {number} is {reprlib.repr(each)}; give a list of (words, tags)")
            words, tags = map(words_of, each)
            if len(words) != len(tags):
                counts = f"{len(words)} words and {len(tags)} tags"
                raise InputError(f"example {number} has {counts}; each word needs one tag")
            yield Tagged(words, tags, NOWHERE)

    def file_inputs(self, path: str, data: DataConfig) -> Callable[[ReadReport], Iterator[Tagged]] | None:
        rows = untagged(path, data, self.labels.numbers)
        return rows and (lambda report: (Tagged(words, None, place) for place, words in rows(report)))

    def in_blocks(self, head: Sequence[str]) -> bool:
        return is_columns(head) or is_conllu(head)

    def from_line(self, line: str) -> Tagged:
        """Return the words of a line or a JSON object, or of a block with a word on each line; tags are left
        out.
        """
        if line.endswith("\n"):
            rows = line.splitlines()
            heads = heads_in_column(rows) if self.parsed else None
            return Tagged(words_in_column(rows), None, NOWHERE, in_column=True, heads=heads)
        value = object_in(line)
        if value is not None and not value.keys().isdisjoint(NAMES):
            return Tagged(words_in_object(value, LINE, "replace", ReadReport()), None, NOWHERE)
        words, _, tags = line.partition("\t")
        same = len(words.split()) == len(tags.split())
        return Tagged(tuple((words if same else line).split()), None, NOWHERE)

    def to_line(self, example: Tagged) -> str:
        return joined(example.words)

    @property
    def one_text(self) -> bool:
        return True

    def unknown_symbols(self, line: str) -> list[str]:
        return [symbol for symbol, _ in self.tokenizer.count_unknown(line.split()).most_common]

    def answer(
        self, model: Model, rows: Sequence[Row[Tagged]], request: Any, numbers: Sequence[int] = ()
    ) -> list[Tags]:
        return [
            self._answer(row, scores) for row, scores in zip(rows, self._scores(model, rows), strict=True)
        ]

    def _answer(self, row: Row[Tagged], scores: np.ndarray) -> Tags:
        path, example = self.transitions.best(scores), row.example
        chances = np.exp(_log_softmax(scores))[np.arange(len(path)), path]
        ends = np.cumsum(row.columns["counts"])
        unknown = sum(UNK in word for word in np.split(np.array(row.columns["pieces"]), ends[:-1]))
        return Tags(
            example.words,
            TagSequence(self.labels.names[tag] for tag in path.tolist()),
            tuple(chances.tolist()),
            example.in_column,
            source=self.to_line(example),
            reading=Reading(len(example.words), unknown, unparsed=self.parsed and example.heads is None),
        )

    def _scores(self, model: Any, rows: Sequence[Row[Tagged]]) -> list[np.ndarray]:
        """Return the scores of the tags of each word, (words, tags) float64 for each row."""
        from seqwright.models import evaluating

        whole = [Cut.of(row.columns) for row in rows]
        parts = [
            (number, cut.part(start, start + self.longest))
            for number, cut in enumerate(whole)
            for start in range(0, len(cut.counts), self.longest)
        ]
        lengths = [len(self._read(cut)) + 1 for _, cut in parts]
        found: dict[int, np.ndarray] = {}
        for numbers in cut_by_tokens(sorted(range(len(parts)), key=lengths.__getitem__), lengths, TOKENS):
            cuts = [parts[i][1] for i in numbers]
            with evaluating(model):
                scores = model.predictions(self._source(cuts)).double().numpy()
            found |= {i: row[self._places(cut)] for i, row, cut in zip(numbers, scores, cuts, strict=True)}
        of_row: list[list[np.ndarray]] = [[] for _ in rows]
        for i, (number, _) in enumerate(parts):
            of_row[number].append(found[i])
        nothing = np.empty((0, len(self.labels.names)))
        return [np.concatenate(own) if own else nothing for own in of_row]

    def readout(self, model: Model, example: Tagged) -> Readout:
        import torch

        from seqwright.data.batch import HeadBatch
        from seqwright.lens.trace.pieces import joined_entries, piece_entries
        from seqwright.lens.trace.readout import Readout, check_text
        from seqwright.models.heads.tags import IGNORE

        (row,), text = self.encode([example]), joined(example.words)
        check_text(text, len(example.words), self.longest)
        cut = Cut.of(row.columns)
        (scores,) = self._scores(model, [row])
        path, source, places = self.transitions.best(scores).tolist(), self._source([cut]), self._places(cut)
        expected = torch.full(source.ids.shape, IGNORE)
        expected[0, places] = torch.tensor(path)
        return Readout(
            HeadBatch(source, expected, np.zeros(1, np.int64), len(path)),
            text,
            piece_entries(text, self._read(cut).tolist(), self._spans(example.words), ended=True),
            joined_entries(path, [self.labels.names[tag] for tag in path]),
            self.labels.names.__getitem__,
            {"source": "sentence", "output": "tags", "step": "word", "symbol": "tag"},
            scored=places.tolist(),
        )

    def _spans(self, words: Sequence[str]) -> list[Piece]:
        """Return the span of what the encoder reads in the joined words: of each word, or of each piece."""
        found, at = list[Piece](), 0
        for word in words:
            whole = Piece(word, at, at + len(word))
            pieces = [Piece(p.text, at + p.start, at + p.end) for p in self.tokenizer.pieces(word)]
            found += [whole] if self.words is not None else _shortened(pieces) or [whole]
            at = whole.end + 1
        return found

    def _read(self, cut: Cut) -> np.ndarray:
        """Return the numbers that the encoder reads."""
        return cut.pieces if self.words is None else cut.words

    def score(self, model: Model, examples: Sequence[Tagged]) -> list[float]:
        """Return log p(tags | words) of each example; no training tag has the probability 0."""
        rows, found = self.encode(examples), []
        for row, scores in zip(rows, self._scores(model, rows), strict=True):
            logs = np.column_stack([_log_softmax(scores), np.full(len(scores), -np.inf)])
            found.append(float(logs[np.arange(len(scores)), row.columns["tags"]].sum()))
        return found

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: Tagged) -> TagSequence:
        return TagSequence(example.tags or ())

    def judge(
        self,
        examples: Sequence[Tagged],
        references: Sequence[Sequence[TagSequence]],
        *,
        metrics: Sequence[Any] = (),
        validation: bool = False,
        **options: Any,
    ) -> Judge:
        tags = {tag for answers in references for answer in answers for tag in answer}
        if tags and tags.isdisjoint(self.labels.names):
            shown, known = (shorten_list(names, SHOWN) for names in (sorted(tags), self.labels.names))
            raise InputError(
                f"no tag of this data ({shown}) occurs in the training data ({known}); "
                "use a file with the same tags, or another --field"
            )
        usual = ("accuracy",) if self.scheme is None else (*ENTITIES, "accuracy")
        specs = dict.fromkeys((*usual, *metrics)) if validation else metrics or usual
        built = tuple(METRICS.build(spec) for spec in specs)
        return Judge(built, {"writing": "symbols"}, {metric.name: metric.title for metric in built})

    def mistakes(self, judge: Judge, items: Sequence[Item[Tagged, Tags]]) -> list[Mistake]:
        found = []
        for item in items:
            pairs = list(zip(item.references[0], item.output.tags, strict=True))
            changes = tuple((expected, tag) for expected, tag in pairs if expected != tag)
            share = len(changes) / max(len(pairs), 1)
            found.append(Mistake(item.references[0], len(changes), share, changes))
        return found

    def buckets(
        self, items: Sequence[Item[Tagged, Tags]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by length and by the share of words that training has not seen."""
        words = [item.example.words for item in items]
        new = [sum(word not in self.lexicon.tags for word in each) / max(len(each), 1) for each in words]
        return {
            LENGTHS["text"]: by_length([joined(each) for each in words], "text"),
            "share of new words": by_tenth(new),
        }

    def tables(self, items: Sequence[Item[Tagged, Tags]]) -> dict[str, Table]:
        expected = [tag for item in items for tag in item.references[0]]
        found = {"tag": class_table(expected, [tag for item in items for tag in item.output.tags], "tag")}
        if self.scheme is None:
            return found
        wanted, given, right = Counter[str](), Counter[str](), Counter[str]()
        for item in items:
            known, output = set(entities(item.references[0])), set(entities(item.output.tags))
            for counts, each in ((wanted, known), (given, output), (right, known & output)):
                counts.update(entity.type for entity in each)
        return {"entity": counted_table("entity", wanted, given, right), **found}

    def baseline(self, example: Tagged) -> TagSequence:
        """The most frequent tag of each word in the training data, and of all words for a new one."""
        usual, names = int(np.argmax(self.labels.counts)), self.labels.names
        return TagSequence(names[self.lexicon.tags.get(word, usual)] for word in example.words)


def joined(words: Iterable[str]) -> str:
    """Return words as one line; a space inside of a word becomes an underscore."""
    return " ".join(re.sub(r"\s+", "_", word) for word in words)


def words_of(given: Any) -> tuple[str, ...]:
    """Return the words of a text, or of a list of words."""
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        rule = "give a text with spaces between the words, a tuple of words, or a list of these"
        raise InputError(f"{reprlib.repr(given)} is not a sentence; {rule}")
    clean = tuple(cleaned(word, NOWHERE, "replace", ReadReport()).strip() for word in words)
    if not all(clean):
        raise InputError(f"{reprlib.repr(given)} has an empty word; remove it")
    return clean


def words_in_column(rows: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the lines of a sentence in CoNLL."""
    if is_conllu(rows):
        return tuple(cells[1] for cells in map(cells_of, rows) if cells[0].isdigit())
    return tuple(cells_of(row)[0].strip() for row in rows if not row.startswith(DOCUMENT))


def heads_in_column(rows: Sequence[str]) -> tuple[int, ...] | None:
    """Return the head of each word of a sentence in CoNLL-U; None without a tree."""
    if not is_conllu(rows):
        return None
    words = [cells for cells in map(cells_of, rows) if cells[0].isdigit()]
    whole = all(len(cells) > HEAD_COLUMN for cells in words)
    return tree_of([cells[HEAD_COLUMN] for cells in words]) if whole else None


def refuse_one_tag(counts: Mapping[str, int], name: str) -> None:
    """Raise if there is nothing to tell apart."""
    if len(counts) < 2:
        (only,) = counts or [""]
        rule = "a tagger needs at least two tags; is it the right column? --field chooses another one"
        raise InputError(f"{name}: every word has the tag {only!r}; {rule}")


def _shortened(pieces: list[P]) -> list[P]:
    """Return the beginning and the end of the pieces of a long word."""
    return pieces if len(pieces) <= HEAD + TAIL else pieces[:HEAD] + pieces[-TAIL:]


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise ModelError("a tag has a score that is not a number; the weights are damaged: restore them")
    return log_softmax(scores)

"""Texts to texts: translation, pronunciation, inflection, normalisation; any file of pairs."""

from __future__ import annotations

import logging
import math
import os
import random
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import numpy as np

from seqwright.config import Config, DataConfig
from seqwright.data.corrections import cell, clean, text_cell
from seqwright.data.fields import FIELD, JoinedFields, has_fields, plain, split_parts
from seqwright.data.glance import Glance
from seqwright.data.plan import RowLengths, item_seed
from seqwright.data.read_report import Pair, Place
from seqwright.data.readers.columns import FieldKind, parse_columns
from seqwright.data.readers.conll import conllu_rows, is_conllu
from seqwright.data.readers.pairs import PairFiles, open_pairs, source_from_cells
from seqwright.data.readers.parses import ParsedPairs, ParsedSource, parse_of, warn_without_trees
from seqwright.data.results import Reading, Text
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import (
    Bucket,
    Claim,
    Item,
    Judge,
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
from seqwright.data.text_display import pluralize
from seqwright.data.tokenizer import Tokenizer, load_tokenizer
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.buckets import ENDING, LENGTHS, by_ending, by_length, by_rarity, rarity_of_run
from seqwright.evaluation.mistakes import mistakes_of
from seqwright.evaluation.text_outputs import (
    METRICS_FOR,
    ItemKind,
    Writing,
    build_metric,
    copied_share,
    item_of,
    metric_label,
    writing_of,
)
from seqwright.tasks.bases.generated_text import SIDES, GeneratedText

if TYPE_CHECKING:
    from seqwright.data.batch import Batch

Source = str | tuple[str, ...]

JOINT, SOURCE, TARGET = "tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"
ONE_TEXT: tuple[FieldKind, ...] = ("text",)
NOWHERE = Place("", 0)
ONE_TOKENIZER = {  # kinds of models that need one, and why
    "decoder_only": "reads source and target as one text",
    "pointer_generator": "copies tokens of the source",
}
TREES = ("nodes", "heads")  # columns of dependency trees
SUMMARY = 3  # times the words of targets from which on sources are texts to summarise
USUAL = {  # the metrics of a validation, by the way targets are written
    "text": ("bleu", "chrf"),
    "symbols": ("exact_match", "symbol_error_rate"),
    "characters": ("exact_match", "symbol_error_rate"),
}

logger = logging.getLogger(__name__)


class ParsedIds(list[int]):
    """The ids of a source, the word of each, counted from 1, and the heads of the words."""

    nodes: Sequence[int] = ()
    heads: Sequence[int] = ()


@dataclass(frozen=True)
class ParsedRows(Ragged):
    """Sources end to end, with the columns of `ParsedIds`."""

    nodes: Ragged
    heads: Ragged


@dataclass(frozen=True)
class TextToText(GeneratedText[Pair]):
    """Pairs of texts, as ids of two tokenizers.

    sampled: the training texts are segmented differently in each epoch (BPE dropout, unigram sampling), where
    the tokenizers can. fields: the kinds of the fields that make up a source, usually one text. parsed: the
    encoder reads dependency trees.
    """

    source: Tokenizer
    target: Tokenizer
    sampled: bool = False
    fields: tuple[FieldKind, ...] = ONE_TEXT
    parsed: bool = False

    roles = (Role("source", Kind.TEXT), Role("target", Kind.TEXT, needed="train"))
    models = ("encoder_decoder", "ensemble", "decoder_only", "pointer_generator")
    nouns = Nouns("pair", group="source")
    learning = Learning(transfers=True, correctable=True, takes_trees=True)
    usage = Usage(generates=True, traced=models)
    sample_facts: ClassVar[Mapping[str, Any]] = {
        "source_vocabulary": 8,
        "target_vocabulary": 8,
        "vocabulary": 8,
    }

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        if len(glance.files) == 2 and glance.parallel:
            return Claim(10, f"{glance.name}: two files with equally many lines are source and target")
        if glance.shape == "jsonl":
            return Claim(4, f"{glance.name}: JSON objects with {glance.names}") if glance.width > 1 else None
        if glance.width < 2:
            return None
        columns = pluralize(glance.width, "column")
        if any(column.looks_like_features for column in glance.columns):
            return Claim(9, f"{glance.name}: {columns}, one of them feature bundles")
        return Claim(11, f"{glance.name}: {columns} of text are source and target")

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> PairFiles | ParsedPairs:
        pairs = open_pairs(paths, data)
        return ParsedPairs(pairs, syntax_files(data)) if data.syntax else pairs

    @classmethod
    def files(cls, paths: Sequence[str], data: DataConfig) -> list[str]:
        return [*super().files(paths, data), *syntax_files(data)]

    @classmethod
    def group(cls, example: Pair) -> str:
        return example.source

    @classmethod
    def corrected(cls, record: Mapping[str, Any], place: Place, data: DataConfig) -> Pair:
        source, kinds = cell(record, "source"), field_kinds(data.columns)
        if isinstance(source, str):
            source = source.split("\t") if len(kinds) > 1 else [source]
        if len(source) != len(kinds):
            fields = pluralize(len(kinds), "source field")
            raise InputError(f"a correction needs {fields}, not {len(source)}")
        cells = [clean(plain(field)) for field in source]
        return Pair(source_from_cells(cells, kinds), plain(text_cell(record, "target")), place)

    @classmethod
    def texts(cls, example: Pair) -> Sequence[str]:
        return example[:2]

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Words and their letters backwards, in capitals."""
        draw = random.Random(seed)
        words = ["".join(draw.choices("abcdef", k=draw.randint(2, 5))) for _ in range(200)]
        return [{"source": word, "target": " ".join(reversed(word.upper()))} for word in words]

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls, config: Config, examples: Callable[[], Iterable[Pair]], start: Task[Any, Any] | None = None
    ) -> TextToText:
        from seqwright.models.building import reads_trees

        def texts(*sides: int) -> Iterator[str]:
            return (example[side] for example in examples() for side in sides)  # type: ignore[misc]

        parsed = reads_trees(config.model)
        if parsed:
            warn_without_trees((bool(tree_in(example.source)) for example in examples()), "pair")
        options, kinds = config.tokenizer, field_kinds(config.data.columns)
        rest = (options.sampled, kinds, parsed)
        if isinstance(start, TextToText) and start.source is not start.target:
            return cls(start.source.grown(texts(0)), start.target.grown(texts(1)), *rest)
        if options.joint or isinstance(start, TextToText):
            joint = fit_tokenizer(options.source, texts(0, 1), start)
            return cls(joint, joint, *rest)
        target = fit_tokenizer(options.target, texts(1), None)
        return cls(fit_tokenizer(options.source, texts(0), start), target, *rest)

    @classmethod
    def load(cls, folder: Path, config: Config) -> TextToText:
        from seqwright.models.building import reads_trees

        kinds, parsed = field_kinds(config.data.columns), reads_trees(config.model)
        rest = (config.tokenizer.sampled, kinds, parsed)
        if (folder / JOINT).exists():
            joint = load_tokenizer(folder / JOINT)
            return cls(joint, joint, *rest)
        return cls(load_tokenizer(folder / SOURCE), load_tokenizer(folder / TARGET), *rest)

    def save(self, folder: Path) -> None:
        """Replace the tokenizer files, be it one for both sides or one for each."""
        joint = self.source is self.target
        for old in (SOURCE, TARGET) if joint else (JOINT,):
            (folder / old).unlink(missing_ok=True)
        if joint:
            self.source.save(folder / JOINT)
        else:
            self.source.save(folder / SOURCE)
            self.target.save(folder / TARGET)

    @property
    def reads(self) -> Tokenizer:
        return self.source

    @property
    def fingerprint(self) -> str:
        return f"{self.source.fingerprint}:{self.target.fingerprint}"

    @property
    def summary(self) -> str:
        sides = (f"{side.kind} with {side.size:,} ids" for side in (self.source, self.target))
        several = f"; fields {', '.join(self.fields)}" if len(self.fields) > 1 else ""
        return f"{' → '.join(sides)}{several}"

    # Examples as numbers ---------------------------------------------------------------------------

    @classmethod
    def check(cls, config: Config) -> None:
        from seqwright.models.building import reads_trees, resolve

        parsed = reads_trees(config.model)
        if config.data.syntax and not parsed:
            raise ConfigError(
                "data.syntax names dependency trees, but the positions of the encoder do not read them; set "
                "model.encoder.position = syntax"
            )
        if parsed and config.tokenizer.sampled:
            raise ConfigError(
                "positions from syntax need the same tokens in each epoch; set tokenizer.sampled = false"
            )
        model, together = resolve(config.model), config.tokenizer.joint or config.start is not None
        why = ONE_TOKENIZER.get(model["kind"])
        if why is not None and not together:
            raise ConfigError(
                f"a {model['kind']} model {why}, but tokenizer.joint is false; set tokenizer.joint = true"
            )
        if model.get("share") and not together:
            raise ConfigError(
                "model.share uses one embedding for both sides, but tokenizer.joint is false; set "
                "tokenizer.joint = true or model.share = false"
            )

    def facts(self) -> dict[str, int]:
        sizes = {"source_vocabulary": self.source.size, "target_vocabulary": self.target.size}
        return sizes | ({"vocabulary": self.source.size} if self.source is self.target else {})

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        vocabulary = max(self.source.size, self.target.size)
        ids = tuple(ColumnSpec.ids(side, vocabulary) for side in SIDES)
        texts = tuple(ColumnSpec.text(f"{side}_text") for side in SIDES)
        trees = tuple(ColumnSpec(name, "<u4") for name in TREES) if self.parsed else ()
        return (*ids, *trees, *(texts if readable or self.sampled else ()))

    def encode(self, examples: Sequence[Pair]) -> list[Row[Pair]]:
        """Encode sources, and targets where all examples have one."""
        sources = self.source.encode_batch([example.source for example in examples])
        encoded = [
            {"source": source, **(self._tree(example.source) if self.parsed else {})}
            for example, source in zip(examples, sources, strict=True)
        ]
        if any(example.target is None for example in examples):
            return [
                Row(e, columns, len(columns["source"])) for e, columns in zip(examples, encoded, strict=True)
            ]
        targets, rows = self.target.encode_batch([example.target for example in examples]), []
        for example, columns, target in zip(examples, encoded, targets, strict=True):
            texts = {"source_text": example.source, "target_text": example.target}
            length = max(len(columns["source"]), len(target))
            rows.append(Row(example, {**columns, "target": target, **texts}, length))
        return rows

    def _tree(self, source: str) -> dict[str, Sequence[int]]:
        """Return the word of each token, and the heads of the words; nothing without a tree."""
        heads = tree_in(source)
        if not heads:
            return dict.fromkeys(TREES, ())
        starts = [piece.start for piece in self.source.pieces(source)]
        return {"nodes": cast(Any, source).parse.words_at(source, starts), "heads": heads}

    def read_source(self, row: Row[Pair], limit: int) -> Sequence[int]:
        ids = self.read_part(row.columns["source"], limit)
        if not self.parsed:
            return ids
        found = ParsedIds(ids)
        found.nodes, found.heads = row.columns["nodes"][:limit], row.columns["heads"]
        return found

    def gathered(self, sources: Sequence[Sequence[int]]) -> Ragged:
        rows = super().gathered(sources)
        if not self.parsed:
            return rows
        trees = (Ragged.of([getattr(source, name, ()) for source in sources]) for name in TREES)
        return ParsedRows(rows.flat, rows.lengths, *trees)

    def source_of(self, rows: Ragged) -> Any:
        from seqwright.data.batch import Trees

        source = super().source_of(rows)
        if not isinstance(rows, ParsedRows):
            return source
        return replace(source, trees=Trees.of(rows.nodes.split(), rows.heads.split(), source.ids.shape[1]))

    def stored(self, store: Store, number: int) -> Pair:
        source, target = (store.column(f"{side}_text").text(number) for side in SIDES)
        return Pair(source, target, NOWHERE)

    def lengths(self, store: Store) -> RowLengths:
        return RowLengths(*(store.column(side).lengths() for side in SIDES))

    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Batch:
        """Return the batch of these examples; with an epoch and `sampled`, segmented at random for it."""
        if epoch is None or not self.sampled:
            source, target = (store.column(side).gather(numbers) for side in SIDES)
            if self.parsed:
                trees = (store.column(name).gather(numbers) for name in TREES)
                source = ParsedRows(source.flat, source.lengths, *trees)
            return self.collated(source, target, numbers)
        sides: tuple[list[list[int]], list[list[int]]] = ([], [])
        for number in numbers.tolist():
            draw, pair = item_seed(seed, epoch, number), self.stored(store, number)
            for rows, tokenizer, text in zip(sides, (self.source, self.target), pair, strict=False):
                rows.append(tokenizer.encode_sampled(text, draw))
        return self.collated(Ragged.of(sides[0]), Ragged.of(sides[1]), numbers)

    @property
    def chance_loss(self) -> float:
        return math.log(self.target.size)

    # Inputs ----------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Pair]:
        several = isinstance(given, Iterable) and not isinstance(given, str | tuple | bytes | Mapping)
        for each in given if several else [given]:
            yield self._input(each)

    def _input(self, given: Any) -> Pair:
        """Return an example without a target. No field may be missing; an empty one is given as ""."""
        if isinstance(given, Pair):
            return given._replace(target=None)
        if isinstance(given, Mapping) and isinstance(given.get("source"), str | tuple):
            given = given["source"]
        if isinstance(given, tuple) and all(isinstance(field, str) for field in given):
            return Pair(self._joined(given), None, NOWHERE)
        if not isinstance(given, str):
            raise InputError(
                f"{reprlib.repr(given)} is not a source: give a text, a tuple of its fields, or a list of "
                "several sources"
            )
        if isinstance(given, JoinedFields) or self.fields == ONE_TEXT or has_fields(given):
            return Pair(given, None, NOWHERE)
        return self.from_line(given)

    def labelled(self, given: Any) -> Iterator[Pair]:
        for source, target in pairs_of(given):
            yield self._input(source)._replace(target=target)

    def is_blank(self, example: Pair) -> bool:
        return not example.source or example.source.isspace()

    def check_compatible(self, example: Pair, files: Sequence[str]) -> None:
        if self.fields == ONE_TEXT and has_fields(example.source):
            raise InputError(
                f"{', '.join(files)} has sources of several fields, but the model takes one text; name the "
                "columns, as in --columns 1:2"
            )

    def in_blocks(self, head: Sequence[str]) -> bool:
        return self.parsed and is_conllu(head)

    def reading(self, row: Row[Pair], limit: int) -> Reading:
        return replace(super().reading(row, limit), unparsed=self.parsed and not row.columns["heads"])

    def from_line(self, line: str) -> Pair:
        """Return the example of a line, or of a parsed sentence in CoNLL-U."""
        if self.parsed and line.endswith("\n"):
            lines = [(NOWHERE, row) for row in line.splitlines()]
            return Pair(parse_of(lines, conllu_rows(lines)).source, None, NOWHERE)
        if not line or line.isspace():
            return Pair("", None, NOWHERE)
        return Pair(self._joined([line] if len(self.fields) == 1 else line.split("\t")), None, NOWHERE)

    def _joined(self, cells: Sequence[str]) -> str:
        """Return one source from its fields; if all of them are blank, an empty one."""
        if len(cells) != len(self.fields):
            raise InputError(
                f"{pluralize(len(cells), 'field')}, but the model takes {len(self.fields)} "
                f"({', '.join(self.fields)}); separate them by tabs, leave an empty one empty, and give "
                "several sources as a list"
            )
        if "unspecified" in self.fields:
            raise ModelError(
                "the run does not record whether the further fields of its sources are text or symbols; "
                "mark the columns with + or = in its config.json, as in 1,3+:2 or 1,3=:2"
            )
        if not any(cell.strip() for cell in cells):
            return ""
        return source_from_cells([plain(cell) for cell in cells], self.fields)

    def to_line(self, example: Pair) -> str:
        """Return the fields of a source with tabs between them."""
        if self.fields == ONE_TEXT:
            return example.source
        text, *rest = split_parts(example.source)
        marked = list(zip(rest[::2], rest[1::2], strict=True))  # a marker, and the text behind it
        cells = []
        for number, kind in enumerate(self.fields):
            if kind == "symbols":
                names = []
                while marked and marked[0][0] != FIELD:
                    names.append(marked.pop(0)[0][1:])
                cells.append(";".join(names))
            elif number == 0:
                cells.append(text)
            else:
                cells.append(marked.pop(0)[1] if marked else "")
        return "\t".join(cell.replace("\t", " ") for cell in cells)

    @property
    def one_text(self) -> bool:
        return len(self.fields) == 1

    def unknown_symbols(self, line: str) -> list[str]:
        return [symbol for symbol, _ in self.source.count_unknown([line]).most_common]

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: Pair) -> str:
        """Return the target as an output would have it: one space between symbols."""
        assert example.target is not None
        return " ".join(example.target.split()) if self.target.kind == "symbols" else example.target

    def judge(
        self,
        examples: Sequence[Pair],
        references: Sequence[Sequence[str]],
        *,
        metrics: Sequence[Any] = (),
        writing: Any = None,
        validation: bool = False,
        known: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Judge:
        """Choose metrics by the way targets are written: text, symbols or characters.

        `known` is the evaluation at the end of training: another file may have other lengths by chance, and
        its scores are to be compared. `options` go to the metrics that have them.
        """
        known = known or {}
        texts = [text for given in references for text in given]
        recorded = known.get("writing") if known.get("writing") in get_args(Writing) else None
        writing = writing or recorded or writing_of(self.target.kind, texts)
        usual: Sequence[Any] = USUAL[writing] if validation else METRICS_FOR[writing]
        specs = dict.fromkeys((*usual, *metrics)) if validation else metrics or usual
        built = tuple(build_metric(spec, writing, **options) for spec in specs)
        sources = [example.source for example in examples]
        item: Any = known.get("item") if writing == recorded else None
        if item not in get_args(ItemKind):
            item = item_of(sources, references, writing)
        labels = {metric.name: metric_label(metric.name, item) for metric in built}
        return Judge(built, {"writing": writing, "item": item}, labels)

    def mistakes(self, judge: Judge, items: Sequence[Item[Pair, Text]]) -> list[Mistake]:
        outputs, references = [item.output.text for item in items], [item.references for item in items]
        return mistakes_of(outputs, references, cast(Any, judge.settings["writing"]))

    def buckets(
        self, items: Sequence[Item[Pair, Text]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by length, by the rarest symbol and by the end of the output, where these differ."""
        sources = [item.example.source for item in items]
        rarity = None if folder is None else rarity_of_run(folder, self.source)
        writing = writing_of(self.source.kind, sources)
        found = {
            LENGTHS[writing]: by_length(sources, writing),
            **({} if rarity is None else {rarity.name: by_rarity(sources, rarity)}),
            ENDING: by_ending([item.output.finish_reason for item in items]),
        }
        return {respect: buckets for respect, buckets in found.items() if buckets}

    def baseline(self, example: Pair) -> str:
        """Copy the first field of the source."""
        return split_parts(example.source)[0]

    def baselines(self, examples: Sequence[Pair]) -> Mapping[str, Sequence[str]]:
        """Return the lead of each source if targets are summaries: as many words as these have on average."""
        if not self._summarises(examples):
            return {}
        words = [len(self.truth(example).split()) for example in examples]
        count = round(sum(words) / len(words))
        return {"lead": [" ".join(self.baseline(example).split()[:count]) for example in examples]}

    def tables(self, items: Sequence[Item[Pair, Text]]) -> dict[str, Table]:
        """Return how much of summaries is copied from their sources, next to that of the references."""
        if not self._summarises([item.example for item in items]):
            return {}
        sources = [self.baseline(item.example) for item in items]
        texts = {
            "outputs": [item.output.text for item in items],
            "references": [item.references[0] for item in items],
        }
        rows = tuple((name, copied_share(each, sources)) for name, each in texts.items())
        return {"copies": Table(("copied in one run", "share"), rows)}

    def _summarises(self, examples: Sequence[Pair]) -> bool:
        targets = [self.truth(example) for example in examples]
        words = sum(len(self.baseline(example).split()) for example in examples)
        running = writing_of(self.target.kind, targets) == "text"
        return running and words >= SUMMARY * sum(len(target.split()) for target in targets)


def syntax_files(data: DataConfig) -> tuple[str, ...]:
    return (data.syntax,) if isinstance(data.syntax, str) else tuple(data.syntax)


def tree_in(source: str) -> Sequence[int]:
    """Return the head of each word of a source, counted from 1; nothing without a parse."""
    parse = source.parse if isinstance(source, ParsedSource) else None
    return () if parse is None else parse.heads


def field_kinds(columns: str | None) -> tuple[FieldKind, ...]:
    """Return the fields of a source from `data.columns`; a first column is text unless signed otherwise."""
    if columns is None:
        return ONE_TEXT
    first, *others = (column.kind for column in parse_columns(columns).source)
    return ("text" if first == "unspecified" else first, *others)


def pairs_of(given: Any) -> Iterator[tuple[Source, str]]:
    """Yield the pairs of an iterable; what is not a pair is refused with its number."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | os.PathLike):
        raise InputError(f"{reprlib.repr(given)} holds no pairs; give a list of (source, target)")
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given):
        raise InputError(f"{reprlib.repr(given)} is one pair; give a list of pairs")
    for number, pair in enumerate(given, start=1):
        two = isinstance(pair, Pair) or (isinstance(pair, tuple | list) and len(pair) == 2)
        if not two or not isinstance(pair[1], str):
            raise InputError(
                f"pair {number} is {reprlib.repr(pair)}; a pair is a source and a target, as in ('a', 'b')"
            )
        yield pair[0], pair[1]

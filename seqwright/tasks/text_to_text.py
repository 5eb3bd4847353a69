"""Texts to texts: translation, pronunciation, inflection, normalisation, dialogue; any file of pairs."""

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

from seqwright.config import Config, DataConfig, SearchConfig
from seqwright.config.registry import parse as parse_spec
from seqwright.data.fields import FIELD, JoinedFields, has_fields, plain, split_parts
from seqwright.data.glance import Glance
from seqwright.data.plan import RowLengths, cut_by_tokens, item_seed
from seqwright.data.read_report import Pair, Place
from seqwright.data.readers.columns import FieldKind, parse_columns
from seqwright.data.readers.pairs import PairFiles, open_pairs, source_from_cells
from seqwright.data.results import Reading, Text
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import Bucket, Check, Claim, Item, Judge, Kind, Mistake, Role, Row, Task
from seqwright.data.text_display import pluralize
from seqwright.data.tokenizer import BEGIN, END, PAD, UNK, Tokenizer, load_tokenizer, train_tokenizer
from seqwright.errors import ConfigError, InputError, ModelError, Problem
from seqwright.evaluation.buckets import ENDING, LENGTHS, by_ending, by_length, by_rarity, rarity_of_run
from seqwright.evaluation.mistakes import mistakes_of
from seqwright.evaluation.text_outputs import (
    METRICS_FOR,
    ItemKind,
    Writing,
    build_metric,
    item_of,
    metric_label,
    writing_of,
)

if TYPE_CHECKING:
    from seqwright.data.batch import Batch
    from seqwright.models import Model
    from seqwright.search import BeamOptions, Emission, Hypothesis, Lattice, SamplingOptions, Start
    from seqwright.search.drafts import Leg

Source = str | tuple[str, ...]

SIDES = ("source", "target")
JOINT, SOURCE, TARGET = "tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"
ONE_TEXT: tuple[FieldKind, ...] = ("text",)
NOWHERE = Place("", 0)
LONGEST = 4095  # tokens of one source that are read: with its end it is a batch of its own
TOGETHER = 64  # sources decoded at a time in a validation, of targets about as long
USUAL = {  # the metrics of a validation, by the way targets are written
    "text": ("bleu", "chrf"),
    "symbols": ("exact_match", "symbol_error_rate"),
    "characters": ("exact_match", "symbol_error_rate"),
}
TOKENS = 4096  # source tokens that are decoded or scored together, padding included

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextRequest:
    """How outputs are searched for; `prefix` is what all of them, or each one, must begin with."""

    options: BeamOptions | SamplingOptions
    prefix: str | Sequence[str] = ""


class TextDraft:
    """An output that grows by greedy search or sampling; that of a blank source is done at once."""

    def __init__(
        self,
        task: TextToText,
        model: Model,
        row: Row[Pair],
        request: TextRequest,
        number: int,
        options: SamplingOptions,
    ):
        self.task, self.row, self.request, self.number = task, row, request, number
        self.options = options
        self.nothing = task._nothing(row, task.input_limit(model))
        self.done = not row.example.source.strip()
        self.emissions: list[Emission] = []

    @property
    def text(self) -> str:
        return self.task.text([each.token for each in self.emissions if each.finish_reason != "end"])

    def take(self, emission: Emission) -> None:
        self.emissions.append(emission)
        self.done = emission.finish_reason is not None

    def token_text(self, emission: Emission) -> str:
        return "" if emission.finish_reason == "end" else self.task.target.decode([emission.token])

    def result(self) -> Text:
        from seqwright.search import BeamOptions
        from seqwright.search.generate import hypothesis

        if not self.emissions:
            return self.nothing
        found, options = hypothesis(self.emissions), self.request.options
        if isinstance(options, BeamOptions):
            found = replace(found, score=found.log_prob / options.penalty(len(self.emissions)))
        return self.task._output(self.nothing, found)


@dataclass(frozen=True)
class TextToText(Task[Pair, Text]):
    """Pairs of texts, as ids of two tokenizers.

    sampled: the training texts are segmented differently in each epoch (BPE dropout, unigram sampling), where
    the tokenizers can. fields: the kinds of the fields that make up a source, usually one text.
    """

    source: Tokenizer
    target: Tokenizer
    sampled: bool = False
    fields: tuple[FieldKind, ...] = ONE_TEXT

    roles = (Role("source", Kind.TEXT), Role("target", Kind.TEXT, needed="train"))
    models = ("encoder_decoder", "ensemble", "decoder_only")
    noun, group_noun = "pair", "source"
    sample_facts: ClassVar[Mapping[str, Any]] = {
        "source_vocabulary": 8,
        "target_vocabulary": 8,
        "vocabulary": 8,
    }
    traced = True
    generates = True

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
    def reader(cls, paths: Sequence[str], data: DataConfig) -> PairFiles:
        return open_pairs(paths, data)

    @classmethod
    def group(cls, example: Pair) -> str:
        return example.source

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
        cls, config: Config, examples: Callable[[], Iterable[Pair]], start: TextToText | None = None
    ) -> TextToText:
        def texts(*sides: int) -> Iterator[str]:
            return (example[side] for example in examples() for side in sides)  # type: ignore[misc]

        def learned(spec: Any, *sides: int) -> Tokenizer:
            kind, options = parse_spec("tokenizer", spec)
            return train_tokenizer(kind, texts(*sides), **options)

        options, rest = config.tokenizer, (config.tokenizer.sampled, field_kinds(config.data.columns))
        if start is not None and start.source is start.target:
            joint = start.source.grown(texts(0, 1))
            return cls(joint, joint, *rest)
        if start is not None:
            return cls(start.source.grown(texts(0)), start.target.grown(texts(1)), *rest)
        if options.joint:
            joint = learned(options.source, 0, 1)
            return cls(joint, joint, *rest)
        return cls(learned(options.source, 0), learned(options.target, 1), *rest)

    @classmethod
    def load(cls, folder: Path, config: Config) -> TextToText:
        rest = config.tokenizer.sampled, field_kinds(config.data.columns)
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
        from seqwright.models.building import resolve

        model, together = resolve(config.model), config.tokenizer.joint or config.start is not None
        if model["kind"] == "decoder_only" and not together:
            raise ConfigError(
                "a decoder_only model reads source and target as one text, but tokenizer.joint is false; set "
                "tokenizer.joint = true"
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
        return (*ids, *texts) if readable or self.sampled else ids

    def encode(self, examples: Sequence[Pair]) -> list[Row[Pair]]:
        """Encode sources, and targets where all examples have one."""
        sources = self.source.encode_batch([example.source for example in examples])
        if any(example.target is None for example in examples):
            return [Row(e, {"source": ids}, len(ids)) for e, ids in zip(examples, sources, strict=True)]
        targets, rows = self.target.encode_batch([example.target for example in examples]), []
        for example, source, target in zip(examples, sources, targets, strict=True):
            texts = {"source_text": example.source, "target_text": example.target}
            ids = {"source": source, "target": target}
            rows.append(Row(example, {**ids, **texts}, max(len(source), len(target))))
        return rows

    def stored(self, store: Store, number: int) -> Pair:
        source, target = (store.column(f"{side}_text").text(number) for side in SIDES)
        return Pair(source, target, NOWHERE)

    def lengths(self, store: Store) -> RowLengths:
        return RowLengths(*(store.column(side).lengths() for side in SIDES))

    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Batch:
        """Return the batch of these examples; with an epoch and `sampled`, segmented at random for it."""
        from seqwright.data.batch import collate

        if epoch is None or not self.sampled:
            source, target = (store.column(side).gather(numbers) for side in SIDES)
            return collate(source, target, numbers)
        sides: tuple[list[list[int]], list[list[int]]] = ([], [])
        for number in numbers.tolist():
            draw, pair = item_seed(seed, epoch, number), self.stored(store, number)
            for rows, tokenizer, text in zip(sides, (self.source, self.target), pair, strict=False):
                rows.append(tokenizer.encode_sampled(text, draw))
        return collate(Ragged.of(sides[0]), Ragged.of(sides[1]), numbers)

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

    def check_compatible(self, example: Pair, files: Sequence[str]) -> None:
        if self.fields == ONE_TEXT and has_fields(example.source):
            raise InputError(
                f"{', '.join(files)} has sources of several fields, but the model takes one text; name the "
                "columns, as in --columns 1:2"
            )

    def from_line(self, line: str) -> Pair:
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
                "sign the columns in its config.json, as in 1,3+:2 or 1,3=:2"
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

    # Outputs ---------------------------------------------------------------------------------------

    def request(
        self,
        search: SearchConfig,
        *,
        count: int | None = None,
        prefix: str | Sequence[str] = "",
        options: BeamOptions | SamplingOptions | None = None,
        **requested: Any,
    ) -> TextRequest:
        """Return how to search: complete `options`, or those of `SearchRequest` by name."""
        from seqwright.search.options import BeamOptions, SamplingOptions
        from seqwright.search.request import SearchRequest

        several = isinstance(prefix, Sequence) and all(isinstance(text, str) for text in prefix)
        if not several:  # a text is a sequence of texts, too
            raise ConfigError(Problem("prefix", prefix, "it must be a text, or a list of one for each input"))
        if not isinstance(options, BeamOptions | SamplingOptions | None):
            raise ConfigError(Problem("options", options, "it must be BeamOptions or SamplingOptions"))
        if not isinstance(prefix, str) and count not in (None, len(prefix)):
            raise ConfigError(
                f"{len(prefix)} prefixes for {pluralize(count or 0, 'input')}; give one for each, or one "
                "for all"
            )
        return TextRequest(options or SearchRequest.of(requested).options(search), prefix)

    def width(self, request: TextRequest) -> int:
        return getattr(request.options, "size", 1)

    def input_limit(self, model: Model) -> int:
        from seqwright.models import table_length

        return min(LONGEST, table_length(model, "encoder", LONGEST + 1) - 1)

    def answer(
        self, model: Model, rows: Sequence[Row[Pair]], request: TextRequest, numbers: Sequence[int] = ()
    ) -> list[Text]:
        """Return one output per source; that of a blank source is empty."""
        limit = self.input_limit(model)
        found = [self._nothing(row, limit) for row in rows]
        filled = [i for i, row in enumerate(rows) if row.example.source and not row.example.source.isspace()]
        if not filled:
            return found
        own = [numbers[i] if numbers else i for i in filled]
        sources = [rows[i].columns["source"][:limit] for i in filled]
        outputs = self.search(model, sources, self._prefixes(request.prefix, own), request.options, own)
        for i, hypotheses in zip(filled, outputs, strict=True):
            best, *others = (self._output(found[i], each) for each in hypotheses)
            found[i] = replace(best, alternatives=tuple(others))
        return found

    def _prefixes(self, prefix: str | Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        texts = [prefix if isinstance(prefix, str) else prefix[number] for number in numbers]
        rows = self.target.encode_batch(texts)
        for text, row in zip(texts, rows, strict=True):
            if UNK in row:
                raise ConfigError(
                    f"the prefix {text!r} has symbols that the model does not know; remove them"
                )
        return rows

    def search(
        self,
        model: Model,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        options: BeamOptions | SamplingOptions,
        numbers: Sequence[int] = (),
        recorder: Lattice | None = None,
    ) -> list[list[Hypothesis]]:
        """Return hypotheses for ids.

        An output is limited to a few times the length of its source, to max_length, and to the positions
        that the decoder has. The seed and `numbers` decide what is drawn. A `recorder` gets every candidate
        of a beam.
        """
        from seqwright.models import Generative, evaluating
        from seqwright.search import BeamOptions, beam_search, generate

        assert isinstance(model, Generative)
        with evaluating(model):
            state, start = self._begin(model, sources, prefixes, options, numbers)
            if isinstance(options, BeamOptions):
                return beam_search(model.step, state, start, options, recorder)
            return [[each] for each in generate(model.step, state, start, options)]

    def _begin(
        self,
        model: Model,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        options: BeamOptions | SamplingOptions,
        numbers: Sequence[int],
    ) -> tuple[Any, Start]:
        """Encode sources; return the state before the first token, and what the search needs to know."""
        from seqwright.data.batch import source_tokens
        from seqwright.models import Generative, table_length
        from seqwright.search import Start

        assert isinstance(model, Generative)
        most = min(options.max_length, table_length(model, "decoder", options.max_length))
        limits = [min(most, 20 + 4 * len(row) + len(p)) for row, p in zip(sources, prefixes, strict=True)]
        symbols: dict[str, Any] = {"first": BEGIN, "end": END, "silent": (PAD, BEGIN)}
        seed = getattr(options, "seed", None)
        seeds = () if seed is None else [item_seed(seed, 0, number) for number in numbers]
        start = Start(
            rows=len(sources),
            prefixes=prefixes,
            limits=limits,
            seeds=seeds,
            prefill=model.prefill,
            **symbols,
        )
        return model.start(source_tokens(Ragged.of(sources))), start

    def drafts(
        self, model: Model, rows: Sequence[Row[Pair]], request: TextRequest, numbers: Sequence[int]
    ) -> list[TextDraft] | None:
        from seqwright.search import BeamOptions, SamplingOptions

        options = request.options
        if isinstance(options, BeamOptions):
            if options.size > 1:
                return None
            shared = ("min_length", "max_length", "no_repeat", "banned", "filters")
            chosen = {name: getattr(options, name) for name in shared}
            greedy = SamplingOptions(temperature=0.0, **chosen)
            return [
                TextDraft(self, model, row, request, n, greedy) for row, n in zip(rows, numbers, strict=True)
            ]
        return [
            TextDraft(self, model, row, request, n, options) for row, n in zip(rows, numbers, strict=True)
        ]

    def legs(self, model: Model, drafts: Sequence[TextDraft]) -> list[Leg]:
        """Encode the sources of drafts; those with the same options start together."""
        from seqwright.models import evaluating
        from seqwright.search.drafts import Leg

        alike: dict[Any, list[TextDraft]] = {}
        for draft in drafts:
            prefix = draft.request.prefix
            own = prefix if isinstance(prefix, str) else id(draft.request)
            alike.setdefault((draft.options, own), []).append(draft)
        legs, limit = [], self.input_limit(model)
        for group in alike.values():
            sources = [draft.row.columns["source"][:limit] for draft in group]
            numbers, options = [draft.number for draft in group], group[0].options
            prefixes = self._prefixes(group[0].request.prefix, numbers)
            with evaluating(model):
                state, start = self._begin(model, sources, prefixes, options, numbers)
            legs.append(Leg(state, start, options, group))
        return legs

    def _nothing(self, row: Row[Pair], limit: int) -> Text:
        """Return the output of a blank source, and the beginning of any other."""
        ids = row.columns["source"]
        unknown = sum(token == UNK for token in ids)
        reading = Reading(len(ids), unknown, max(0, len(ids) - limit))
        return Text("", 0.0, 0.0, (), (), "end", source=self.to_line(row.example), reading=reading)

    def _output(self, of: Text, found: Hypothesis) -> Text:
        return replace(
            of,
            text=self.text(found.tokens),
            score=found.score,
            log_prob=found.log_prob,
            tokens=tuple(self.target.decode([token]) for token in found.tokens),
            token_scores=tuple(found.token_scores),
            finish_reason=found.finish_reason,
        )

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of an output, which is one line."""
        return self.target.decode(tokens).replace("\n", " ").replace("\r", " ")  # as reading does

    def draft(self, model: Model, items: Sequence[tuple[Pair, Sequence[str]]], check: Check) -> list[Text]:
        """Decode greedily, and at most about twice the right length: a model that has not learned to end yet
        would take longer than its training.
        """
        from seqwright.search import BeamOptions

        longest = [max(map(len, self.target.encode_batch(list(texts)))) for _, texts in items]
        order = sorted(range(len(items)), key=longest.__getitem__)
        found: dict[int, Text] = {}
        for start in range(0, len(order), TOGETHER):
            check()
            places = order[start : start + TOGETHER]
            request = TextRequest(BeamOptions(size=1, max_length=2 * longest[places[-1]] + 10))
            rows = self.encode([items[place][0]._replace(target=None) for place in places])
            lengths = [row.length + 1 for row in rows]
            for numbers in cut_by_tokens(sorted(range(len(rows)), key=lengths.__getitem__), lengths, TOKENS):
                outputs = self.answer(model, [rows[i] for i in numbers], request)
                found |= zip((places[i] for i in numbers), outputs, strict=True)
        return [found[place] for place in range(len(order))]

    def score(self, model: Model, examples: Sequence[Pair]) -> list[float]:
        """Return log p(target | source) of each pair. All unknown symbols score alike."""
        from seqwright.data.batch import collate
        from seqwright.models import evaluating, log_probs

        rows = self.encode(examples)
        self._check_lengths(model, rows)
        if strange := [number for number, row in enumerate(rows, start=1) if UNK in row.columns["target"]]:
            logger.warning(
                "%d of %d targets have symbols that the model does not know, first that of pair %d; all "
                "unknown symbols score alike",
                *(len(strange), len(rows), strange[0]),
            )
        scores = np.zeros(len(rows))
        order = sorted(range(len(rows)), key=lambda i: (rows[i].length, len(rows[i].columns["source"])))
        for numbers in cut_by_tokens(order, [row.length + 1 for row in rows], TOKENS):
            sources, targets = (Ragged.of([rows[i].columns[side] for i in numbers]) for side in SIDES)
            with evaluating(model):
                scores[numbers] = log_probs(model, collate(sources, targets, np.array(numbers)))
        return scores.tolist()

    def _check_lengths(self, model: Model, rows: Sequence[Row[Pair]]) -> None:
        """A pair is scored whole or not at all."""
        from seqwright.models import table_length

        limits = {
            "source": self.input_limit(model),
            "target": min(LONGEST, table_length(model, "decoder", LONGEST + 1) - 1),
        }
        for name, limit in limits.items():
            for number, row in enumerate(rows, start=1):
                if len(row.columns[name]) > limit:
                    raise InputError(
                        f"the {name} of pair {number} has {len(row.columns[name]):,} tokens, but at most "
                        f"{limit:,} can be scored; shorten it or leave it out"
                    )

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

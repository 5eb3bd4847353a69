"""Conversations: a model replies to the turns so far. It generates the reply, or retrieves one.

A context is one text, with a marker between its turns; the most recent tokens of it are read. An encoder that
reads segments gets the turns apart.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np

from seqwright.config import Config, DataConfig, SearchConfig
from seqwright.config.registry import parse as parse_spec
from seqwright.data.fields import FIELD, plain, split_parts
from seqwright.data.glance import Glance
from seqwright.data.language_results import Surprise
from seqwright.data.plan import RowLengths
from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.conversations import (
    COLUMNS,
    KEYS,
    ConversationFiles,
    Exchange,
    context_in,
    context_of,
    contexts_in_lines,
    contexts_in_table,
    open_conversations,
    speaks,
    turns_once,
)
from seqwright.data.readers.lines import Decoding
from seqwright.data.replies import Reply, enough, last_turn, wrong_replies
from seqwright.data.results import Text
from seqwright.data.split import text_hash
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import (
    Bucket,
    Check,
    Claim,
    Item,
    Judge,
    Judging,
    Kind,
    Mistake,
    Nouns,
    Role,
    Row,
    Usage,
)
from seqwright.data.text_display import pluralize
from seqwright.data.tokenizer import END, Tokenizer, load_tokenizer, train_tokenizer
from seqwright.errors import ConfigError, InputError, ModelError, Problem, brief
from seqwright.evaluation.buckets import LENGTHS, by_ending, by_length
from seqwright.evaluation.metrics import METRICS
from seqwright.evaluation.metrics.bases import Recall, Surprisal
from seqwright.files import read_json, write_json
from seqwright.tasks.bases.generated_text import SIDES, GeneratedText, TextRequest
from seqwright.tasks.bases.reply_index import ReplyIndex
from seqwright.tasks.bases.retrieval import Retriever
from seqwright.tasks.bases.talk_readouts import read_context, reply_readout

if TYPE_CHECKING:
    from seqwright.data.batch import Batch
    from seqwright.lens.trace.readout import Readout
    from seqwright.models import Model

TOKENIZER, POOL = "tokenizer.json", "replies.json"
NOWHERE = Place("", 0)
POOLED = 1000  # replies of the training split from which an evaluation draws wrong candidates
RANKED = {10: 500, 100: 100}  # items whose candidates a generator ranks: each is scored with the context
TALK = {"temperature": 0.7, "top_p": 0.9, "no_repeat": 3}  # of a generated reply, unless it is searched for
WRITTEN = ("temperature", "top_k", "top_p", "sample", "max_length", "length_penalty", "prefix")
KEPT_TURNS = 3  # turns before each reply of the index that are kept for people to read
METRICS_OF_RETRIEVAL = (
    *("recall_at_1_of_10", "recall_at_5_of_10", "recall_at_1_of_100", "recall_at_5_of_100"),
    *("distinct_1", "distinct_2", "most_frequent_reply", "reply_length"),
)
METRICS_OF_REPLIES = (
    *("perplexity", "loss", "nats_per_character", "distinct_1", "distinct_2"),
    *("most_frequent_reply", "reply_length", "recall_at_1_of_10"),
)


@dataclass(frozen=True)
class TalkRequest(TextRequest):
    """checked: the expected reply is scored, too. candidates: a model that writes replies ranks it among so
    many, for the first items; one that retrieves ranks it whenever it is checked.
    """

    checked: bool = False
    candidates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Conversation(GeneratedText[Exchange]):
    """Exchanges as ids of one tokenizer.

    longest: the tokens of a context that are read, the most recent ones. turns: those of a context that are
    read; None: all. pool: some replies of the training split. counts: how often each id occurs in replies,
    for the baseline. segmented: the encoder reads turns. retrieves: replies are chosen from the `index`,
    which exists when the model is trained.
    """

    source: Tokenizer
    longest: int
    turns: int | None
    pool: tuple[str, ...]
    counts: tuple[int, ...]
    segmented: bool = False
    retrieves: bool = False
    index: ReplyIndex | None = None

    roles = (Role("context", Kind.TEXT), Role("reply", Kind.TEXT, needed="train"))
    models = ("encoder_decoder", "decoder_only", "ensemble", "dual_encoder")
    nouns = Nouns("exchange", group="conversation", unread="the beginning")
    usage = Usage(generates=True, chat={}, traced=models)
    judging = Judging(merges=False, options={"checked": True})
    shortest = 1
    sample_facts: ClassVar[Mapping[str, Any]] = {
        "source_vocabulary": 8,
        "target_vocabulary": 8,
        "vocabulary": 8,
    }

    @property
    def target(self) -> Tokenizer:  # type: ignore[override]
        return self.source

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        if glance.shape == "json":
            keys = [key for key in (*KEYS, "chats") if key in glance.keys]
            return Claim(3, f"{glance.name}: a JSON document with {keys[0]}") if keys else None
        names = [column.name for column in glance.columns]
        if glance.shape == "jsonl" and (key := next((key for key in KEYS if key in names), None)):
            return Claim(3, f"{glance.name}: JSON objects with {key}")
        if glance.shape in ("text", "tsv") and speaks(glance.head):
            return Claim(9, f"{glance.name}: lines that name their speakers")
        heads = {next(iter(column.sample), "").strip().lower() for column in glance.columns} | set(names)
        if glance.shape in ("tsv", "csv", "jsonl") and heads >= COLUMNS:
            return Claim(3, f"{glance.name}: columns context and reply")
        return None

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> ConversationFiles:
        return open_conversations(paths, data)

    @classmethod
    def group(cls, example: Exchange) -> str:
        return example.conversation

    @classmethod
    def identity(cls, example: Exchange) -> str:
        return cls.group(example)

    @classmethod
    def texts(cls, example: Exchange) -> Sequence[str]:
        return (example.text, example.reply or "")

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """A greeting by name, and questions about it."""
        draw, rows = random.Random(seed), []
        for _ in range(220):
            name = "".join(draw.choices("abcdef", k=3))
            rows.append({"context": f"i am {name}", "reply": f"hi {name}"})
        return rows

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls, config: Config, examples: Callable[[], Iterable[Exchange]], start: Conversation | None = None
    ) -> Conversation:
        def texts() -> Iterator[str]:
            return turns_once(examples())

        if start is None:
            kind, options = parse_spec("tokenizer", config.tokenizer.source)
            tokenizer = train_tokenizer(kind, texts(), **options)
        else:
            tokenizer = start.source.grown(texts())
        replies = dict.fromkeys(example.reply or "" for example in examples())
        pool = random.Random(config.data.split).sample(list(replies), min(POOLED, len(replies)))
        counts = np.zeros(tokenizer.size, np.int64)
        for ids in tokenizer.encode_batch(pool):
            np.add.at(counts, [*ids, END], 1)
        rest = tuple(pool), tuple(counts.tolist()), *model_facts(config)
        return cls(tokenizer, config.data.max_length, turns_read(config), *rest)

    @classmethod
    def load(cls, folder: Path, config: Config) -> Conversation:
        tokenizer, table = load_tokenizer(folder / TOKENIZER), read_json(folder / POOL)
        pool: Any = table.get("replies")
        counts: Any = table.get("counts")
        texts = isinstance(pool, list) and all(isinstance(reply, str) for reply in pool)
        numbers = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
        if not texts or not numbers or len(counts) != tokenizer.size:
            raise ModelError(
                f"{folder / POOL} does not have replies and {tokenizer.size:,} counts; restore it"
            )
        segmented, retrieves = model_facts(config)
        index = ReplyIndex.load(folder) if retrieves else None
        rest = tuple(pool), tuple(counts), segmented, retrieves, index
        return cls(tokenizer, config.data.max_length, turns_read(config), *rest)

    def save(self, folder: Path) -> None:
        self.source.save(folder / TOKENIZER)
        write_json(folder / POOL, {"replies": list(self.pool), "counts": list(self.counts)})
        if self.index is not None:
            self.index.save(folder)

    def indexed(self, model: Any, examples: Iterable[Exchange]) -> Conversation:
        if not self.retrieves:
            return self
        known: dict[str, tuple[str, ...]] = {}
        for example in examples:
            if example.reply:
                known.setdefault(example.reply, example.context[-KEPT_TURNS:])
        known |= {reply: () for reply in self.pool if reply not in known}
        return replace(self, index=Retriever.over(self, model, known).index)

    def calibrated(self, model: Any, examples: Sequence[Exchange]) -> Conversation:
        """Nothing fits if the best reply is less alike than nearly all right ones of the validation split."""
        if self.index is None or not examples:
            return self
        least = Retriever.of(self, model).least(examples)
        return replace(self, index=replace(self.index, least=least))

    @property
    def fingerprint(self) -> str:
        return self.source.fingerprint

    @property
    def summary(self) -> str:
        turns = ", turn by turn" if self.segmented else ""
        return (
            f"{self.source.kind} with {self.source.size:,} ids; {self.longest:,} tokens of a context{turns}"
        )

    # Exchanges as numbers --------------------------------------------------------------------------

    def facts(self) -> dict[str, int]:
        sides = ("source_vocabulary", "target_vocabulary", "vocabulary")
        return dict.fromkeys(sides, self.source.size)

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        ids = tuple(ColumnSpec.ids(side, self.source.size) for side in SIDES)
        texts = tuple(ColumnSpec.text(name) for name in ("context_text", "reply_text", "conversation_text"))
        return (*ids, *texts) if readable else ids

    def encode(self, examples: Sequence[Exchange]) -> list[Row[Exchange]]:
        sources = self.source.encode_batch([self.read_turns(example).text for example in examples])
        replies = self.source.encode_batch([example.reply or "" for example in examples])
        rows = []
        for example, source, reply in zip(examples, sources, replies, strict=True):
            columns: dict[str, Any] = {"source": self.read_part(source, self.longest), "all": len(source)}
            if example.reply is not None:
                texts = {"context_text": example.text, "reply_text": example.reply}
                columns |= {"target": reply, **texts, "conversation_text": example.conversation}
            rows.append(Row(example, columns, max(len(columns["source"]), len(columns.get("target", ())))))
        return rows

    def read_turns(self, example: Exchange) -> Exchange:
        """Return the exchange with the turns that are read: a chat may have had more."""
        return example if self.turns is None else example._replace(context=example.context[-self.turns :])

    def read_part(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        return ids[-limit:]

    def stored(self, store: Store, number: int) -> Exchange:
        context, reply, key = (
            store.column(f"{name}_text").text(number) for name in ("context", "reply", "conversation")
        )
        return Exchange(tuple(split_parts(context)[::2]), reply, key, NOWHERE)

    def lengths(self, store: Store) -> RowLengths:
        return RowLengths(*(store.column(side).lengths() for side in SIDES))

    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Batch:
        source, target = (store.column(side).gather(numbers) for side in SIDES)
        return self.collated(source, target, numbers)

    def draw_key(self, row: Row[Exchange], number: int) -> int:
        """A reply depends on its context, not on the place of the context in a file."""
        return text_hash(self.to_line(row.example))

    def source_of(self, rows: Ragged) -> Any:
        from seqwright.data.batch import between, segments

        if not self.segmented:
            return super().source_of(rows)
        (marker,) = self.source.encode(FIELD)
        return segments(*between(rows, marker, empty=END))

    @property
    def chance_loss(self) -> float:
        return math.log(self.source.size)

    # Inputs ----------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> Iterator[Exchange]:
        one = isinstance(given, str | Exchange | Mapping | tuple) or not isinstance(given, Iterable)
        for each in [given] if one else given:
            yield self._input(each)

    def _input(self, given: Any) -> Exchange:
        """A text is the last turn, or several with tabs between them; a tuple has one text for each turn."""
        if isinstance(given, Exchange):
            return given
        if isinstance(given, Mapping):
            given = context_of(given, "the input")
        if isinstance(given, str):
            return self.from_line(given)
        if not isinstance(given, tuple | list) or not all(isinstance(turn, str) for turn in given):
            raise InputError(f"{brief(given)} is not a context; give a text, or a tuple of the turns so far")
        return Exchange(tuple(plain(turn) for turn in given), None, "", NOWHERE)

    def labelled(self, given: Any) -> Iterator[Exchange]:
        for number, each in enumerate(given, start=1):
            if isinstance(each, Exchange):
                yield each
            elif isinstance(each, tuple | list) and len(each) == 2 and isinstance(each[1], str):
                context = self._input(each[0])
                yield context._replace(reply=each[1], conversation="\0".join(context.context))
            else:
                raise InputError(f"example {number} is {brief(each)}; give a list of (context, reply)")

    def after_turns(self, turns: Sequence[str]) -> tuple[str, ...]:
        """A reply that was stopped before its first word is no turn, as in training."""
        return tuple(turn for turn in turns if turn.strip())

    def from_messages(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
        """All messages are turns, those of the system as well: so they are in training."""
        return context_of({"messages": list(messages)}, "the messages")

    def last_reply(self, turns: Sequence[str]) -> Exchange:
        return Exchange(tuple(map(plain, self.after_turns(turns[:-1]))), plain(turns[-1]), "", NOWHERE)

    def file_inputs(self, path: str, data: DataConfig) -> Callable[[ReadReport], Iterator[Exchange]] | None:
        decoding = Decoding(data.encoding, data.on_bad_bytes, data.max_line)
        found = contexts_in_lines(path, decoding) or contexts_in_table(path, decoding)
        if found is None:
            return None
        return lambda report: (self.from_line(_line(context)) for context in found)

    def from_line(self, line: str) -> Exchange:
        return Exchange(tuple(map(plain, context_in(line))), None, "", NOWHERE)

    def to_line(self, example: Exchange) -> str:
        return _line(example.context)

    def caption(self, example: Exchange) -> str:
        return last_turn(self.to_line(example))

    def is_blank(self, example: Exchange) -> bool:
        return not any(turn.strip() for turn in example.context)

    def unknown_symbols(self, line: str) -> list[str]:
        return [symbol for symbol, _ in self.source.count_unknown(line.split("\t")).most_common]

    def input_limit(self, model: Model) -> int:
        return min(self.longest, super().input_limit(model))

    # Outputs ---------------------------------------------------------------------------------------

    def request(
        self,
        search: SearchConfig,
        *,
        count: int | None = None,
        checked: bool = False,
        candidates: tuple[int, ...] = (),
        **requested: Any,
    ) -> TalkRequest:
        """Sample by default, in a way that avoids dull and repeated words; a beam searches for the most
        probable reply. A reply that is retrieved takes no options of a search but `n_best` and `beam`.
        """
        rule = "the model retrieves replies and does not write them; leave it out"
        if self.retrieves and (
            given := [name for name in WRITTEN if requested.get(name) not in (None, "", 0)]
        ):
            raise ConfigError(*(Problem(name, requested[name], rule) for name in given))
        beam = requested.keys() & {"beam", "n_best", "length_penalty", "options"}
        drawn = {"temperature": TALK["temperature"], "top_p": TALK["top_p"], **requested}
        found = super().request(search, count=count, **(requested if beam else drawn))
        marker = tuple(self.source.encode(FIELD))  # a reply is one turn
        options = replace(found.options, banned=marker)
        if not beam:
            options = replace(options, no_repeat=int(TALK["no_repeat"]))
        return TalkRequest(options, found.prefix, checked, candidates)

    def drafts(
        self, model: Model, rows: Sequence[Row[Exchange]], request: TextRequest, numbers: Sequence[int]
    ) -> Any:
        return None if self.retrieves else super().drafts(model, rows, request, numbers)

    def draft_request(self, max_length: int) -> TextRequest:
        """Return how a validation decodes: as a chat does. Ranks of a retrieval cost next to nothing."""
        return self.request(SearchConfig(max_length=max_length), checked=self.retrieves)

    def draft(
        self, model: Model, items: Sequence[tuple[Exchange, Sequence[str]]], check: Check
    ) -> list[Text]:
        if self.index is not None or not self.retrieves:
            return super().draft(model, items, check)
        known = Retriever.of(self, model).index
        return replace(self, index=known).draft(model, items, check)

    def answer(
        self, model: Model, rows: Sequence[Row[Exchange]], request: TextRequest, numbers: Sequence[int] = ()
    ) -> list[Text]:
        counts = enough(self.pool, request.candidates) if isinstance(request, TalkRequest) else ()
        checked = isinstance(request, TalkRequest) and request.checked
        checked = checked and not any(row.example.reply is None for row in rows)
        if self.retrieves:
            return self._retrieve(model, rows, request, (numbers or range(len(rows))) if checked else None)
        found = [Reply.of(text) for text in super().answer(model, rows, request, numbers)]
        if not checked:
            return list(found)
        scores = self.score(model, [row.example for row in rows])
        own = numbers or range(len(rows))
        return [
            replace(
                reply,
                surprise=Surprise(row.example.reply or "", score, len(row.columns["target"]) + 1),
                ranks={
                    count: self._rank(model, row.example, score, n, count)
                    for count in counts
                    if n < RANKED[count]
                },
            )
            for reply, row, score, n in zip(found, rows, scores, own, strict=True)
        ]

    def _retrieve(
        self, model: Any, rows: Sequence[Row[Exchange]], request: TextRequest, numbers: Sequence[int] | None
    ) -> list[Text]:
        """Return the nearest replies; with `numbers` the ranks of the expected ones, too."""
        retriever, limit = Retriever.of(self, model), self.input_limit(model)
        nothing = [Reply.of(self._nothing(row, limit)) for row in rows]
        found = retriever.nearest(rows, nothing, getattr(request.options, "n_best", 1))
        if numbers is None:
            return list(found)
        ranks = retriever.ranks(rows, numbers)
        return [replace(reply, ranks=own) for reply, own in zip(found, ranks, strict=True)]

    def _rank(self, model: Model, example: Exchange, score: float, number: int, count: int) -> int:
        """Return the place of the right reply among candidates, by the log-probability of a token."""
        others = wrong_replies(self.pool, example.reply or "", number, count - 1)
        scores = self.score(model, [example._replace(reply=other) for other in others])
        own, *lengths = (len(ids) + 1 for ids in self.source.encode_batch([example.reply or "", *others]))
        means = [each / length for each, length in zip(scores, lengths, strict=True)]
        return 1 + sum(mean >= score / own for mean in means)

    # Looking inside --------------------------------------------------------------------------------

    def readout(
        self, model: Any, example: Exchange, request: TextRequest | None = None, output: str | None = None
    ) -> Readout:
        """The context turn by turn, and the reply: `output`, that of the example, or the one that the model
        gives.
        """
        from seqwright.lens.trace.readout import check_text

        example = self.read_turns(example if output is None else example._replace(reply=plain(output)))
        check_text(example.text.replace(FIELD, ""))
        (row,) = self.encode([example._replace(reply=None)])
        ids = self.read_part(row.columns["source"], self.input_limit(model))
        context = read_context(self.source, example.context, len(ids))
        if self.retrieves:
            return Retriever.of(self, model).readout(context, example.reply)
        options = (request or self.request(SearchConfig())).options
        found = None
        if example.reply is None:
            ((found, *_),) = self.search(model, [ids], [[]], options, [self.draw_key(row, 0)])
        return reply_readout(self, model, context, self.source_of(Ragged.of([ids])), example.reply, found)

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: Exchange) -> str:
        assert example.reply is not None
        return example.reply

    def judge(
        self,
        examples: Sequence[Exchange],
        references: Sequence[Sequence[str]],
        *,
        metrics: Sequence[Any] = (),
        validation: bool = False,
        **options: Any,
    ) -> Judge:
        usual: tuple[str, ...] = ("distinct_2", "reply_length")
        if not validation:
            usual = METRICS_OF_RETRIEVAL if self.retrieves else METRICS_OF_REPLIES
        specs = dict.fromkeys((*usual, *metrics)) if validation else metrics or usual
        built = tuple(METRICS.build(spec) for spec in specs)
        self._check_metrics(built if metrics else (), validation=validation)
        lacking = {metric.candidates for metric in built if self._lacks_replies(metric)}
        remarks: tuple[str, ...] = ()
        if lacking:
            built = tuple(metric for metric in built if not self._lacks_replies(metric))
            named = " and of ".join(map(str, sorted(lacking)))
            remarks = (f"recall of {named} candidates is left out: training has only {self._known}",)
        labels = {metric.name: metric.title for metric in built}
        counts = sorted({metric.candidates for metric in built if isinstance(metric, Recall)})
        tokens = "" if self.retrieves else self.source.fingerprint
        others = [name for name in labels if name not in ("perplexity", "loss")]
        across = sorted(others, key=lambda name: name != "nats_per_character")
        return Judge(built, {}, labels, remarks, {"candidates": tuple(counts)}, tokens, tuple(across))

    @property
    def _known(self) -> str:
        return pluralize(len(self.pool), "different reply", "different replies")

    def _lacks_replies(self, metric: Any) -> TypeGuard[Recall]:
        """Whether the training replies are fewer than the candidates of a metric."""
        return isinstance(metric, Recall) and not enough(self.pool, (metric.candidates,))

    def _check_metrics(self, requested: Sequence[Any], *, validation: bool) -> None:
        """Refuse metrics that were requested and cannot be computed."""
        for metric in requested:
            reason = None
            if self._lacks_replies(metric):
                reason = f"needs {metric.candidates} different replies, and training has {self._known}"
            elif self.retrieves and isinstance(metric, Surprisal):
                reason = "needs probabilities of replies; a model that retrieves them has none"
            elif validation and not self.retrieves and isinstance(metric, Recall | Surprisal):
                reason = "is not computed by validations of a model that writes replies"
            if reason:
                way = "use training.metric=loss" if validation else "leave it out"
                raise ConfigError(f"{metric.name} {reason}; {way}")

    def mistakes(self, judge: Judge, items: Sequence[Item[Exchange, Any]]) -> list[Mistake]:
        """The more surprising the expected reply, or the lower its rank, the worse."""
        found = []
        for item in items:
            surprise, output = item.output.surprise, item.output.value
            wrong, ranks = output not in item.references, item.output.ranks
            most = max(ranks, default=0)
            rank = ranks[most] / most if ranks else float(wrong)
            nats = -surprise.log_prob / max(surprise.tokens, 1) if surprise else rank
            found.append(Mistake(item.references[0], int(wrong), 1 - math.exp(-nats), ()))
        return found

    def buckets(
        self, items: Sequence[Item[Exchange, Any]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        last = [item.example.context[-1] if item.example.context else "" for item in items]
        turns: dict[str, list[int]] = {}
        for number, item in enumerate(items):
            count = len(item.example.context)
            turns.setdefault(str(count) if count < 5 else "5 or more", []).append(number)
        found = {
            "turns before the reply": tuple(Bucket(name, tuple(turns[name])) for name in sorted(turns)),
            LENGTHS["text"]: by_length(last, "text"),
            "end of the output": by_ending([item.output.finish_reason for item in items]),
        }
        return {respect: buckets for respect, buckets in found.items() if len(buckets) > 1}

    def baseline(self, example: Exchange) -> Surprise | None:
        """The surprise of a reply whose words are drawn by their frequency alone."""
        if self.retrieves:
            return None
        ids, total = [*self.source.encode(example.reply or ""), END], sum(self.counts) + len(self.counts)
        log_prob = math.fsum(math.log((self.counts[i] + 1) / total) for i in ids)
        return Surprise(example.reply or "", log_prob, len(ids))


def _line(context: Sequence[str]) -> str:
    return "\t".join(turn.replace("\t", " ").replace("\n", " ") for turn in context)


def turns_read(config: Config) -> int | None:
    """Return how many turns of a context are read; None for all."""
    return None if config.data.context == "all" else config.data.context


def model_facts(config: Config) -> tuple[bool, bool]:
    """Whether the encoder of a configuration reads segments, and whether its model retrieves."""
    from seqwright.models.building import reads_sentences, resolve

    return reads_sentences(config.model), resolve(config.model)["kind"] == "dual_encoder"

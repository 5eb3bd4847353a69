"""Generated text: what the tasks share whose models write texts, from a request to outputs."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from seqwright.config import SearchConfig
from seqwright.data.plan import cut_by_tokens, item_seed
from seqwright.data.results import Reading, Text
from seqwright.data.store import Ragged
from seqwright.data.task import Check, E, Row, Task
from seqwright.data.text_display import pluralize
from seqwright.data.tokenizer import BEGIN, END, PAD, UNK, Tokenizer
from seqwright.errors import ConfigError, InputError, Problem

if TYPE_CHECKING:
    from seqwright.data.batch import Batch
    from seqwright.models import Model
    from seqwright.search import BeamOptions, Emission, Hypothesis, Lattice, SamplingOptions, Start
    from seqwright.search.drafts import Leg

LONGEST = 4095  # tokens of one source that are read: with its end it is a batch of its own
TOGETHER = 64  # sources decoded at a time in a validation, of targets about as long
TOKENS = 4096  # source tokens that are decoded or scored together, padding included
SIDES = ("source", "target")

Options = TypeVar("Options", bound="BeamOptions | SamplingOptions")

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
        task: GeneratedText[Any],
        row: Row[Any],
        limit: int,
        request: TextRequest,
        number: int,
        options: SamplingOptions,
    ):
        self.task, self.row, self.request, self.number = task, row, request, number
        self.options = options
        self.nothing = task._nothing(row, limit)
        self.done = task.is_blank(row.example)
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


class GeneratedText(Task[E, Text]):
    """Sources and targets as ids of two tokenizers, in the columns `source` and `target`."""

    source: Tokenizer
    target: Tokenizer
    shortest: ClassVar[int] = 0  # tokens that every output has at least

    @abstractmethod
    def is_blank(self, example: E) -> bool:
        """Whether an input is empty, so that its output is."""

    def read_part(self, ids: Sequence[int], limit: int) -> Sequence[int]:
        """Return the part of a source that is read, of at most `limit` tokens."""
        return ids[:limit]

    def read_source(self, row: Row[E], limit: int) -> Sequence[int]:
        """Return the part of the source of an input that is read, of at most `limit` tokens."""
        return self.read_part(row.columns["source"], limit)

    def gathered(self, sources: Sequence[Sequence[int]]) -> Ragged:
        """Return sources end to end."""
        return Ragged.of(sources)

    def draw_key(self, row: Row[E], number: int) -> int:
        """Return what decides the random numbers of an output, besides the seed: the number of the input."""
        return number

    def source_length(self, row: Row[E]) -> int:
        """Return how many tokens a source counts as."""
        return len(row.columns["source"])

    def output_limit(self, source: Sequence[int]) -> int:
        """Return how many tokens the output of a source has at most."""
        return 20 + 4 * len(source)

    def reading(self, row: Row[E], limit: int) -> Reading:
        """Count the tokens of a source, of which `limit` are read."""
        ids = row.columns["source"]
        every = row.columns.get("all", len(ids))
        return Reading(every, sum(token == UNK for token in ids), max(0, every - limit))

    def source_of(self, rows: Ragged) -> Any:
        """Return the ids of sources as the encoder reads them."""
        from seqwright.data.batch import source_tokens

        return source_tokens(rows)

    def collated(self, source: Ragged, target: Ragged, index: np.ndarray) -> Batch:
        """Return the batch of these examples."""
        from seqwright.data.batch import with_targets

        return with_targets(self.source_of(source), target, index)

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
        found = options or SearchRequest.of(requested).options(search)
        return TextRequest(self._long_enough(found), prefix)

    def _long_enough(self, options: Options) -> Options:
        short = options.min_length < self.shortest
        return replace(options, min_length=self.shortest) if short else options

    def width(self, request: TextRequest) -> int:
        return getattr(request.options, "size", 1)

    def input_limit(self, model: Model) -> int:
        from seqwright.models import table_length

        return min(LONGEST, table_length(model, "encoder", LONGEST + 1) - 1)

    def answer(
        self, model: Model, rows: Sequence[Row[E]], request: TextRequest, numbers: Sequence[int] = ()
    ) -> list[Text]:
        """Return one output per source; that of a blank source is empty."""
        limit = self.input_limit(model)
        found = [self._nothing(row, limit) for row in rows]
        filled = [i for i, row in enumerate(rows) if not self.is_blank(row.example)]
        if not filled:
            return found
        own = [numbers[i] if numbers else i for i in filled]
        sources = [self.read_source(rows[i], limit) for i in filled]
        drawn = [self.draw_key(rows[i], n) for i, n in zip(filled, own, strict=True)]
        outputs = self.search(model, sources, self._prefixes(request.prefix, own), request.options, drawn)
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
        from seqwright.models import Generative, table_length
        from seqwright.search import Start

        assert isinstance(model, Generative)
        most = min(options.max_length, table_length(model, "decoder", options.max_length))
        pairs = zip(sources, prefixes, strict=True)
        limits = [min(most, self.output_limit(source) + len(prefix)) for source, prefix in pairs]
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
        return model.start(self.source_of(self.gathered(sources))), start

    def drafts(
        self, model: Model, rows: Sequence[Row[E]], request: TextRequest, numbers: Sequence[int]
    ) -> list[TextDraft] | None:
        from seqwright.search import BeamOptions

        options, limit = request.options, self.input_limit(model)
        if isinstance(options, BeamOptions):
            if options.size > 1:
                return None
            options = _greedy(options)
        numbered = zip(rows, numbers, strict=True)
        return [TextDraft(self, row, limit, request, number, options) for row, number in numbered]

    def legs(self, model: Model, drafts: Sequence[TextDraft]) -> list[Leg]:
        """Encode the sources of drafts; those with the same options start together."""
        from seqwright.search.drafts import Leg

        alike: dict[Any, list[TextDraft]] = {}
        for draft in drafts:
            prefix = draft.request.prefix
            own = prefix if isinstance(prefix, str) else id(draft.request)
            alike.setdefault((draft.options, own), []).append(draft)
        legs, limit = [], self.input_limit(model)
        for group in alike.values():
            sources = [self.read_source(draft.row, limit) for draft in group]
            numbers, options = [draft.number for draft in group], group[0].options
            prefixes = self._prefixes(group[0].request.prefix, numbers)
            drawn = [self.draw_key(draft.row, draft.number) for draft in group]
            legs.append(Leg(*self._begin(model, sources, prefixes, options, drawn), options, group))
        return legs

    def typed(self, model: Model, row: Row[E], request: TextRequest) -> Iterator[str]:
        """Yield the output as it grows; that of a beam at once."""
        from seqwright.models import Generative, evaluating
        from seqwright.search import stream

        drafts = self.drafts(model, [row], request, [0])
        if drafts is None:
            yield self.answer(model, [row], request)[0].text
            return
        assert isinstance(model, Generative)
        (draft,) = drafts
        while not draft.done:
            with evaluating(model):
                (leg,) = self.legs(model, [draft])
            for (emission,) in stream(model.step, leg.state, leg.start, leg.options):
                draft.take(emission)
                yield draft.text

    def _nothing(self, row: Row[E], limit: int) -> Text:
        """Return the output of a blank source, and the beginning of any other."""
        line, reading = self.to_line(row.example), self.reading(row, limit)
        return Text("", 0.0, 0.0, (), (), "end", source=line, reading=reading)

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

    def draft(self, model: Model, items: Sequence[tuple[E, Sequence[str]]], check: Check) -> list[Text]:
        """Decode at most about twice the right length: a model that has not learned to end yet would take
        longer than its training.
        """
        longest = [max(map(len, self.target.encode_batch(list(texts)))) for _, texts in items]
        order = sorted(range(len(items)), key=longest.__getitem__)
        found: dict[int, Text] = {}
        for start in range(0, len(order), TOGETHER):
            check()
            places = order[start : start + TOGETHER]
            request = self.draft_request(2 * longest[places[-1]] + 10)
            rows = self.encode([items[place][0] for place in places])
            lengths = [self.source_length(row) + 1 for row in rows]
            for numbers in cut_by_tokens(sorted(range(len(rows)), key=lengths.__getitem__), lengths, TOKENS):
                outputs = self.answer(model, [rows[i] for i in numbers], request)
                found |= zip((places[i] for i in numbers), outputs, strict=True)
        return [found[place] for place in range(len(order))]

    def draft_request(self, max_length: int) -> TextRequest:
        """Return how a validation decodes: greedily."""
        from seqwright.search import BeamOptions

        return TextRequest(self._long_enough(BeamOptions(size=1, max_length=max_length)))

    def score(self, model: Model, examples: Sequence[E]) -> list[float]:
        """Return log p(target | source) of each pair. All unknown symbols score alike."""
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
        order = sorted(range(len(rows)), key=lambda i: (rows[i].length, self.source_length(rows[i])))
        for numbers in cut_by_tokens(order, [row.length + 1 for row in rows], TOKENS):
            sources = self.gathered([self.read_source(rows[i], LONGEST) for i in numbers])
            targets = Ragged.of([rows[i].columns["target"] for i in numbers])
            with evaluating(model):
                scores[numbers] = log_probs(model, self.collated(sources, targets, np.array(numbers)))
        return scores.tolist()

    def _check_lengths(self, model: Model, rows: Sequence[Row[E]]) -> None:
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


@lru_cache
def _greedy(options: BeamOptions) -> SamplingOptions:
    """Return the options of a beam of width 1 for a search that yields token by token."""
    from seqwright.search import SamplingOptions

    shared = ("min_length", "max_length", "no_repeat", "banned", "filters")
    return SamplingOptions(temperature=0.0, **{name: getattr(options, name) for name in shared})

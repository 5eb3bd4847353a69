"""Running text: a model of the next token, which continues a prompt and scores how surprising a text is.

Training draws windows from a stream of documents; an evaluation scores every token, each with at least half
a window before it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.config import SearchConfig
from seqwright.config.validation import Count, check
from seqwright.data.glance import Glance
from seqwright.data.language_results import Continuation, Scored, Surprise
from seqwright.data.plan import cut_by_tokens, item_seed
from seqwright.data.readers.files import TEXTS
from seqwright.data.readers.texts import FIELD, Passage
from seqwright.data.results import Reading
from seqwright.data.split import text_hash
from seqwright.data.store import Ragged, Store
from seqwright.data.task import Claim, Item, Judge, Mistake, Row, Usage
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.data.tokenizer import BEGIN, END, PAD, UNK, Piece
from seqwright.errors import ConfigError
from seqwright.files import uncompressed
from seqwright.tasks.bases.running_text import RunningText, Scoring

if TYPE_CHECKING:
    from torch import Tensor

    from seqwright.data.batch import Tokens
    from seqwright.lens.trace.readout import Readout
    from seqwright.search import Emission, SamplingOptions
    from seqwright.search.drafts import Leg

LENGTH = 200  # tokens of a continuation, unless the search of the run allows fewer
TOKENS = 8192  # tokens that are scored together, padding included
TABLES = (".tsv", ".csv", ".jsonl", ".json")  # the endings of files that should have columns
METADATA = {
    "id",
    "_id",
    "idx",
    "index",
    "meta",
    "metadata",
    "url",
    "date",
    "timestamp",
}  # keys next to a text
PROSE = 3  # words of a line, on average, from which on a file of another ending is a text

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Writing:
    """How a prompt is continued: the number of tokens and of samples, and texts that end a sample."""

    length: int
    samples: int
    stop: tuple[str, ...]
    options: SamplingOptions


@dataclass(frozen=True)
class Windows:
    """Windows of text side by side, as a language model takes them: `target` (B, T) is read, and `expected`
    (B, T) follows each token, `PAD` where nothing is expected.
    """

    target: Tokens
    expected: Tensor
    index: np.ndarray
    source: None = None

    @property
    def rows(self) -> int:
        return len(self.expected)

    @property
    def count(self) -> int:
        return int((self.expected != PAD).sum())

    @property
    def tokens(self) -> int:
        return self.target.count

    def with_shuffled_inputs(self) -> Windows:
        return replace(self, target=self.target.rolled())


class ContinuationDraft:
    """A continuation that grows. What is drawn depends on the seed, the prompt and the number of the sample
    alone.
    """

    def __init__(self, task: LanguageModeling, row: Row[Passage], request: Writing, sample: int = 0):
        self.task, self.row, self.request = task, row, request
        self.context = [*task.start, *row.columns["text"]]
        self.own = text_hash(f"{sample} {row.example.text}")
        self.written: list[int] = []
        self.scores: list[float] = []
        self.text, self.reason, self.done = "", "length", False

    def take(self, emission: Emission) -> None:
        self.scores.append(emission.log_prob)
        if emission.finish_reason == "end":
            self.written.append(emission.token)
            self.reason, self.done = "end", True
            return
        self.written.append(emission.token)
        self.context.append(emission.token)
        self.text = self.task.text(self.written)
        ends = [place for stop in self.request.stop if (place := self.text.find(stop)) >= 0]
        if ends:
            self.text, self.reason = self.text[: min(ends)], "stop"
        self.done = bool(ends) or len(self.written) >= self.request.length

    def token_text(self, emission: Emission) -> str:
        return self.task.text([emission.token])

    def result(self) -> Continuation:
        return Continuation(
            self.text,
            math.fsum(self.scores),
            tuple(self.task.text([token]) for token in self.written),
            tuple(self.scores),
            self.reason,
            source=self.row.example.text,
            reading=self.task.reading(self.row, self.task.window),
        )


@dataclass(frozen=True)
class LanguageModeling(RunningText[Any]):
    """A model of the next token."""

    models = ("decoder_only",)
    nouns = replace(RunningText.nouns, unread="the beginning")
    usage = Usage(prompted=True, streams=True, chat={"stop": ("\n\n",)}, traced=models)
    part = "decoder"
    usual = ("loss", "perplexity", "bits_per_character", "bits_per_byte", "nats_per_character")
    validated = ("nats_per_character",)
    across = ("nats_per_character", "bits_per_character", "bits_per_byte")

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        folder = glance.folder
        if folder is not None:
            if folder.suffixes.keys() == {".jsonl"}:
                return Claim(3, f"{glance.name}: a folder with only JSON lines")
            if not folder.texts or folder.labelled_texts:
                return None
            return Claim(3, f"{glance.name}: a folder with {pluralize(len(folder.texts), 'text file')}")
        if glance.shape == "jsonl":
            others = {column.name.lower() for column in glance.columns if column.name != FIELD}
            if len(others) == len(glance.columns) or not others <= METADATA:
                return None
            if others:
                return Claim(
                    2, f"{glance.name}: JSON objects with a text and only {shorten_list(sorted(others))}"
                )
            return Claim(4, f"{glance.name}: JSON objects with only a text")
        if glance.shape != "text" or not glance.rows or (len(glance.files) == 2 and glance.parallel):
            return None
        endings = {uncompressed(file).suffix.lower() for file in glance.files}
        prose = len(glance.files) == 1 and endings.isdisjoint(TABLES) and glance.columns[0].words >= PROSE
        if not prose and not endings <= set(TEXTS):
            return None
        return Claim(10, f"{glance.name}: running text without columns")

    # Texts as numbers ------------------------------------------------------------------------------

    @property
    def start(self) -> list[int]:
        """The ids before a text that begins: the end of the document before it, or a line end where the
        model saw only one document.
        """
        return [END] if self.counts[END] > 1 or self.line_end == UNK else [self.line_end]

    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Windows:
        """Return one window per passage: with an epoch, one that begins at a random place of the passage;
        otherwise the beginning of the passage after half a window of context.
        """
        import torch

        from seqwright.data.batch import Tokens

        if epoch is None:
            column = store.column("text")
            return self._windows([self._fixed(column, number) for number in numbers.tolist()], numbers)
        ids = torch.from_numpy(self.drawn(store, numbers, self.width_in(store) + 1, seed=seed, epoch=epoch))
        return Windows(Tokens(ids[:, :-1].contiguous()), ids[:, 1:].contiguous(), numbers)

    def _fixed(self, column: Any, number: int) -> tuple[list[int], int]:
        """Return the window of a passage in a validation, and how many of its tokens are context."""
        begin, end = column.offsets[number : number + 2].tolist()
        half = self.window // 2
        context = column.flat[max(begin - half, 0) : begin].tolist() or [END]
        return [*context, *column.flat[begin : min(end, begin + self.window - half)].tolist()], len(context)

    def _windows(self, rows: Sequence[tuple[list[int], int]], index: np.ndarray) -> Windows:
        """Return windows of ids, of each of which a number of tokens is context."""
        from seqwright.data.batch import padded

        target = padded(Ragged.of([ids[:-1] for ids, _ in rows]))
        expected = padded(Ragged.of([[PAD] * (known - 1) + ids[known:] for ids, known in rows])).ids
        return Windows(target, expected, index)

    # Outputs ---------------------------------------------------------------------------------------

    def after_turns(self, turns: Sequence[str]) -> str:
        return "\n".join((*turns, ""))

    def request(
        self,
        search: SearchConfig,
        *,
        count: int | None = None,
        scored: bool = False,
        length: int | None = None,
        max_length: int | None = None,
        samples: int = 1,
        stop: str | Sequence[str] = (),
        sample: bool = True,
        **drawing: Any,
    ) -> Writing | Scoring:
        """Return how to continue prompts: `length` tokens, or fewer where a `stop` text comes. Sampling is
        the default; temperature=0 takes the most probable token.
        """
        if scored:
            return Scoring()
        from seqwright.search import SamplingOptions

        known = ("temperature", "top_k", "top_p", "seed")
        if wrong := [name for name in drawing if name not in known]:
            raise ConfigError(f"{', '.join(wrong)}: a language model samples, without a beam; leave it out")
        wanted = max_length if length is None else length
        problems = [check("length", wanted, Count | None), check("samples", samples, Count)]
        if problems := [problem for problem in problems if problem is not None]:
            raise ConfigError(*problems)
        texts = (stop,) if isinstance(stop, str) else tuple(stop)
        if not all(isinstance(text, str) and text for text in texts):
            raise ConfigError("stop must be a text that is not empty, or a list of such texts")
        given = {name: value for name, value in drawing.items() if value is not None}
        return Writing(wanted or min(search.max_length, LENGTH), samples, texts, SamplingOptions(**given))

    def reading(self, row: Row[Passage], limit: int) -> Reading:
        ids = row.columns["text"]
        return Reading(len(ids), ids.count(UNK), max(len(ids) - limit, 0))

    def answer(
        self,
        model: Any,
        rows: Sequence[Row[Passage]],
        request: Writing | Scoring,
        numbers: Sequence[int] = (),
    ) -> list[Any]:
        if isinstance(request, Scoring):
            return self.scored(model, rows)
        return [self._continued(model, row, request) for row in rows]

    def _continued(self, model: Any, row: Row[Passage], request: Writing) -> Continuation:
        found = [self._written(model, row, request, sample) for sample in range(request.samples)]
        return replace(found[0], alternatives=tuple(found[1:]))

    def _written(self, model: Any, row: Row[Passage], request: Writing, sample: int) -> Continuation:
        draft = self._draft(row, request, sample)
        for _ in self._growing(model, draft):
            pass
        return draft.result()

    def typed(self, model: Any, row: Row[Passage], request: Writing) -> Iterator[str]:
        """Yield the continuation of a prompt as it grows."""
        draft = self._draft(row, request)
        for _ in self._growing(model, draft):
            yield draft.text

    def _growing(self, model: Any, draft: ContinuationDraft) -> Iterator[None]:
        """Let a draft grow by one token at a time."""
        from seqwright.models import evaluating
        from seqwright.search import stream

        while not draft.done:
            with evaluating(model):
                (leg,) = self.legs(model, [draft])
            for (emission,) in stream(model.step, leg.state, leg.start, leg.options):
                draft.take(emission)
                yield
                if draft.done:
                    return

    def _draft(self, row: Row[Passage], request: Writing, sample: int = 0) -> ContinuationDraft:
        if not sample and len(self.start) + len(row.columns["text"]) + request.length > self.window:
            logger.warning(
                "the text is longer than the window of %d tokens that the model was trained with: each token "
                "depends on the %d to %d tokens before it",
                *(self.window, self.window // 2, self.window),
            )
        return ContinuationDraft(self, row, request, sample)

    def drafts(
        self, model: Any, rows: Sequence[Row[Passage]], request: Writing | Scoring, numbers: Sequence[int]
    ) -> list[ContinuationDraft] | None:
        if isinstance(request, Scoring) or request.samples > 1:
            return None
        return [ContinuationDraft(self, row, request) for row in rows]

    def legs(self, model: Any, drafts: Sequence[ContinuationDraft]) -> list[Leg]:
        """Read the context of each draft. When the window is full, its older half is dropped."""
        import torch

        from seqwright.search import Start
        from seqwright.search.drafts import Leg

        legs = []
        symbols: dict[str, Any] = {"end": END, "silent": (PAD, UNK, BEGIN)}
        for draft in drafts:
            context, count = draft.context, len(draft.scores)
            kept = context[-self.window // 2 :] if len(context) >= self.window else context
            room = min(self.window - len(kept) + 1, draft.request.length - count)
            seed = item_seed(draft.request.options.seed, count, draft.own)
            state = model.start(1)
            if len(kept) > 1:
                state = model.prefill(torch.tensor([kept]), state)[1]
            start = Start(rows=1, first=kept[-1], limits=[room], seeds=[seed], **symbols)
            legs.append(Leg(state, start, draft.request.options, [draft]))
        return legs

    def scored(self, model: Any, rows: Sequence[Row[Passage]]) -> list[Scored]:
        """Score texts in windows of which the first half is context, except at the beginning."""
        half = max(self.window // 2, 1)
        contexts = self.exact_ids([row.example.before for row in rows])
        pieces: list[tuple[list[int], int]] = []
        owners: list[int] = []
        for number, (row, before) in enumerate(zip(rows, contexts, strict=True)):
            context = (before or self.start)[-half:]
            ids = [*context, *row.columns["text"]]
            whole = max(self.window, len(context) + 1)
            cuts = [len(context), *range(whole, len(ids), max(self.window - half, 1)), len(ids)]
            for begin, end in pairwise(cuts):
                known = min(begin, half)
                pieces.append((ids[begin - known : end], known))
                owners.append(number)
        scores: list[list[float]] = [[] for _ in rows]
        found = self._log_probabilities(model, pieces)
        for owner, own in zip(owners, found, strict=True):
            scores[owner] += own
        return [self._as_scored(row, own) for row, own in zip(rows, scores, strict=True)]

    def _as_scored(self, row: Row[Passage], scores: Sequence[float]) -> Scored:
        ids = row.columns["text"]
        tokens = tuple("" if token == END else self.text([token]) for token in ids)
        reading = Reading(len(ids), list(ids).count(UNK))
        source = self.to_line(row.example)
        return Scored(row.example.text, tokens, tuple(scores), source=source, reading=reading)

    def _log_probabilities(self, model: Any, pieces: Sequence[tuple[list[int], int]]) -> list[list[float]]:
        """Return the log-probability of each token of each piece that is not context."""
        from seqwright.models import evaluating

        lengths = [len(ids) for ids, _ in pieces]
        found: dict[int, list[float]] = {}
        for numbers in cut_by_tokens(sorted(range(len(pieces)), key=lengths.__getitem__), lengths, TOKENS):
            batch = self._windows([pieces[number] for number in numbers], np.array(numbers))
            with evaluating(model):
                every = model.output.log_probabilities(model.hidden(batch), batch.expected).tolist()
            for number, own in zip(numbers, every, strict=True):
                ids, known = pieces[number]
                found[number] = own[known - 1 : len(ids) - 1]
        return [found[number] for number in range(len(pieces))]

    def score(self, model: Any, examples: Sequence[Passage]) -> list[Scored]:  # type: ignore[override]
        """Return the log-probability of each text and of its tokens."""
        return self.scored(model, self.encode(examples))

    def readout(self, model: Any, example: Passage) -> Readout:
        """The text after `start`, and the token that the model puts after it."""
        from seqwright.lens.trace.pieces import piece_entries, symbol_text
        from seqwright.lens.trace.readout import NEXT, Readout, check_text
        from seqwright.models import evaluating

        (ids,), first = self.exact_ids([example.text]), self.start
        check_text(example.text, len(ids), self.window - len(first))
        batch = self._windows([([*first, *ids, PAD], len(first))], np.zeros(1, np.int64))
        with evaluating(model):
            following = int(model(batch)[0, -1].argmax())
        shifted = self.tokenizer.pieces(f"\n{example.text}")[-len(ids) :]  # as in `exact_ids`
        pieces = [Piece(text, start - 1, end - 1) for text, start, end in shifted]
        entries = piece_entries(example.text, ids, pieces, ended=False)
        end = len(example.text)
        after = {"id": following, "text": "", "start": end, "end": end, "word": None, "special": NEXT}
        symbol = partial(symbol_text, self.tokenizer)
        return Readout(
            batch,
            example.text,
            None,
            {
                "given": True,
                "begin": symbol(first[-1]),
                "text": example.text,
                "pieces": [*entries["pieces"], after],
                "words": entries["words"],
            },
            symbol,
            {"output": "text", "step": "token"},
        )

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: Passage) -> Surprise:
        return Surprise(example.text)

    @property
    def evaluated(self) -> str:
        return f"windows of {self.window} tokens, {self.window - self.window // 2} of them scored"

    def mistakes(self, judge: Judge, items: Sequence[Item[Passage, Scored]]) -> list[Mistake]:
        """Rank passages by surprise: a share of 1 is that of a model that knows nothing."""
        found = []
        for item in items:
            nats = -item.output.log_prob / max(item.output.output_tokens, 1)
            share = min(nats / max(self.chance_loss, 1e-9), 1.0)
            found.append(Mistake(item.references[0], item.output.output_tokens, share, ()))
        return found

    def baseline(self, example: Passage) -> Surprise:
        """Draw each token by its frequency in the training split, a token that it lacks like a rarest one."""
        ids, total = self.ids(example), sum(self.counts)
        log_prob = math.fsum(math.log(max(self.counts[token], 1) / max(total, 1)) for token in ids)
        return Surprise(example.text, log_prob, len(ids))

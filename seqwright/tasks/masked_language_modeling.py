"""Running text with blanks: a model of hidden tokens from the text on both sides (Devlin et al. 2019).

It fills the `[MASK]` of a text, and its encoder is a start for classifiers, taggers and encoder-decoders.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.config import SearchConfig
from seqwright.config.validation import Count, check
from seqwright.data.calibration import log_softmax
from seqwright.data.glance import Glance
from seqwright.data.masked_results import Candidate, Filled, Guessed, Guesses
from seqwright.data.masking import BLANK, MARKER, masked
from seqwright.data.plan import cut_by_tokens, item_seed
from seqwright.data.readers.texts import Passage
from seqwright.data.results import Reading
from seqwright.data.split import text_hash
from seqwright.data.store import Ragged, Store
from seqwright.data.task import Item, Judge, Mistake, Row, Usage
from seqwright.data.tokenizer import FIRST, PAD, UNK, Piece
from seqwright.errors import ConfigError, InputError
from seqwright.tasks.bases.running_text import RunningText, Scoring

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch
    from seqwright.lens.trace.readout import Readout

TOKENS = 8192  # tokens that are read together, padding included
CANDIDATES = 5  # shown for each blank

logger = logging.getLogger(__name__)

Blanks = tuple[Sequence[int], Sequence[int]]  # a window of ids, and the places in it that are predicted


@dataclass(frozen=True)
class Filling:
    """The request to fill blanks, with so many candidates each."""

    candidates: int


@dataclass(frozen=True)
class MaskedLanguageModeling(RunningText[Any]):
    """A model of hidden tokens. `[MASK]` in a text is a blank, in training data as well."""

    models = ("encoder_only",)
    usage = Usage(prompted=True, traced=models)
    part = "encoder"
    usual = ("masked_accuracy", "loss")
    validated = ("masked_accuracy",)
    markers = (MARKER,)

    @classmethod
    def claim(cls, glance: Glance) -> None:
        """Plain text is for language modelling, unless this task is requested."""

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Texts of a single letter, and spaces: what is hidden stands next to it."""
        draw = random.Random(seed)
        letters = (draw.choice("abcdefgh") for _ in range(150))
        return [{"text": " ".join(letter * draw.randint(2, 9) for _ in range(25))} for letter in letters]

    @classmethod
    def prompt(cls, line: str) -> tuple[str, str]:
        text, _ = super().prompt(line)
        return f"{text} {BLANK}", "fills the blanks"

    # Texts as numbers ------------------------------------------------------------------------------

    @property
    def blank(self) -> int:
        """The id of a blank."""
        return self.tokenizer.encode(MARKER)[0]

    def exact_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts; a blank takes the place of a token with the space before it, if tokens have that."""
        divided = [text.split(BLANK) for text in texts]
        if self.tokenizer.spaced:
            divided = [[*(part.removesuffix(" ") for part in parts[:-1]), parts[-1]] for parts in divided]
        encoded = iter(super().exact_ids(list(chain.from_iterable(divided))))
        blank, found = self.blank, []
        for parts in divided:
            ids = next(encoded)
            for _ in parts[1:]:
                ids = [*ids, blank, *next(encoded)]
            found.append(ids)
        return found

    def unknown_symbols(self, line: str) -> list[str]:
        return super().unknown_symbols(line.replace(BLANK, ""))

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> HeadBatch:
        """Return one window per passage: with an epoch, one that begins at a random place of the passage,
        with tokens hidden for this epoch; otherwise the beginning of the passage, always hidden alike.
        """
        from seqwright.data.batch import HeadBatch, padded

        column = store.column("text")
        if epoch is None:
            windows: Any = [column.row(number)[: self.window] for number in numbers.tolist()]
        else:
            windows = self.drawn(store, numbers, self.width_in(store), seed=seed, epoch=epoch)
        hidden = [
            self._hidden(window, item_seed(seed, -1 if epoch is None else epoch, number))
            for window, number in zip(windows, numbers.tolist(), strict=True)
        ]
        expected = padded(Ragged.of([wanted for _, wanted in hidden])).ids
        source = padded(Ragged.of([read for read, _ in hidden]))
        return HeadBatch(source, expected, numbers, int((expected != PAD).sum()))

    def _hidden(self, ids: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
        return masked(np.asarray(ids), blank=self.blank, vocabulary=self.tokenizer.size, seed=seed)

    # Outputs ---------------------------------------------------------------------------------------

    def request(
        self,
        search: SearchConfig,
        *,
        count: int | None = None,
        scored: bool = False,
        n_best: int | None = None,
        **options: Any,
    ) -> Filling | Scoring:
        """Return how to fill blanks: with `n_best` candidates for each."""
        if scored:
            return Scoring()
        super().request(search, **options)
        if problem := check("n_best", n_best, Count | None):
            raise ConfigError(problem)
        return Filling(n_best or CANDIDATES)

    def answer(
        self,
        model: Any,
        rows: Sequence[Row[Passage]],
        request: Filling | Scoring,
        numbers: Sequence[int] = (),
    ) -> list[Any]:
        if isinstance(request, Scoring):
            return self.scored(model, rows)
        return self._filled(model, rows, request)

    def _filled(self, model: Any, rows: Sequence[Row[Passage]], request: Filling) -> list[Filled]:
        """Fill each blank from the window of tokens around it."""
        windows: dict[tuple[int, int], list[int]] = {}  # by row and begin: the blanks that are filled from it
        for number, row in enumerate(rows):
            ids = row.columns["text"]
            places = [place for place, token in enumerate(ids) if token == self.blank]
            if not places:
                logger.warning("%r has no %s and stays as it is", self.to_line(row.example)[:60], BLANK)
            for place in places:
                begin = min(max(place - self.window // 2, 0), max(len(ids) - self.window, 0))
                windows.setdefault((number, begin), []).append(place - begin)
        asked = [
            (rows[number].columns["text"][begin : begin + self.window], places)
            for (number, begin), places in windows.items()
        ]
        scores: list[list[np.ndarray]] = [[] for _ in rows]
        for (number, _), own in zip(windows, self._scores(model, asked), strict=True):
            scores[number] += list(own)
        return [self._with_best(row, own, request) for row, own in zip(rows, scores, strict=True)]

    def _with_best(self, row: Row[Passage], scores: Sequence[np.ndarray], request: Filling) -> Filled:
        """Fill the blanks of one text by the scores of all symbols (V,) at each."""
        ids, fills, candidates = list(row.columns["text"]), list[int](), list[tuple[Candidate, ...]]()
        for before, each in zip(row.example.text.split(BLANK), scores, strict=False):
            fits = self._fitting[before.endswith(" ")]
            each = np.where(fits, each, -np.inf)
            chances = np.exp(log_softmax(each))
            best = np.argsort(-chances, kind="stable")[: min(request.candidates, int(fits.sum()))].tolist()
            fills.append(best[0])
            candidates.append(tuple(Candidate(self._shown(token), float(chances[token])) for token in best))
        following = iter(fills)
        text = self.text([next(following) if token == self.blank else token for token in ids])
        reading = Reading(len(ids), ids.count(UNK))
        shown = text if fills else row.example.text
        return Filled(shown, tuple(candidates), source=self.to_line(row.example), reading=reading)

    def _shown(self, token: int) -> str:
        """Return the text of a token without the space that belongs to it."""
        text = self.text([token])
        return text.removeprefix(" ") if self.tokenizer.spaced else text

    @cached_property
    def _fitting(self) -> tuple[np.ndarray, np.ndarray]:
        """Which ids fit into a blank, (V,): without a space before it, and with one. Where a space belongs to
        the token after it, only tokens with a space fit after a space, and only others elsewhere.
        """
        ids = np.arange(self.tokenizer.size)
        text = (ids >= FIRST) & (ids != self.blank)
        if not self.tokenizer.spaced:
            return text, text
        spaced = text & [self.text([token]).startswith(" ") for token in ids.tolist()]
        without, after = (fits if fits.any() else text for fits in (text & ~spaced, spaced))
        return without, after

    def _scores(self, model: Any, asked: Sequence[Blanks]) -> list[np.ndarray]:
        """Return the scores of all symbols at places of windows, (places, V) each."""
        import torch

        from seqwright.data.batch import padded
        from seqwright.models import evaluating

        lengths = [len(ids) for ids, _ in asked]
        found: dict[int, np.ndarray] = {}
        for numbers in cut_by_tokens(sorted(range(len(asked)), key=lengths.__getitem__), lengths, TOKENS):
            tokens = padded(Ragged.of([asked[number][0] for number in numbers]))
            with evaluating(model):
                hidden = model.encoder(tokens).hidden
                for row, number in enumerate(numbers):
                    places = torch.tensor(asked[number][1], dtype=torch.int64)
                    found[number] = model.head(hidden[row, places]).double().numpy()
        return [found[number] for number in range(len(asked))]

    def readout(self, model: Any, example: Passage) -> Readout:
        """The text with its blanks, and the most probable token for each."""
        import torch

        from seqwright.data.batch import HeadBatch, padded
        from seqwright.lens.trace.pieces import joined_entries, piece_entries
        from seqwright.lens.trace.readout import Readout, check_text

        (row,), text = self.encode([example]), example.text
        ids = list(row.columns["text"])
        check_text(text, len(ids), self.window)
        places = [place for place, token in enumerate(ids) if token == self.blank]
        if not places:
            raise InputError(f"the text has no {BLANK}; write it where a token is to be filled in")
        allowed = np.stack([self._fitting[part.endswith(" ")] for part in text.split(BLANK)[:-1]])
        (scores,) = self._scores(model, [(ids, places)])
        fills = np.where(allowed, scores, -np.inf).argmax(-1).tolist()
        expected = torch.full((1, len(ids)), PAD)
        expected[0, places] = torch.tensor(fills)
        return Readout(
            HeadBatch(padded(Ragged.of([ids])), expected, np.zeros(1, np.int64), len(places)),
            text,
            piece_entries(text, ids, self._pieces(text), ended=False),
            joined_entries(fills, [self._shown(token) for token in fills]),
            self._shown,
            {"source": "text", "output": "filling", "step": "blank"},
            scored=places,
            allowed=allowed,
        )

    def _pieces(self, text: str) -> list[Piece]:
        """Return the span of each id of `exact_ids` in a text."""
        found, at, parts = list[Piece](), 0, text.split(BLANK)
        for number, part in enumerate(parts, start=1):
            last = number == len(parts)
            read = part.removesuffix(" ") if self.tokenizer.spaced and not last else part
            (ids,) = super().exact_ids([read])
            pieces = self.tokenizer.pieces(f"\n{read}")
            own = pieces[len(pieces) - len(ids) :]
            found += [Piece(p.text, at + p.start - 1, at + p.end - 1) for p in own]
            at += len(part)
            if not last:
                found.append(Piece(BLANK, at, at + len(BLANK)))
                at += len(BLANK)
        return found

    def scored(self, model: Any, rows: Sequence[Row[Passage]]) -> list[Guessed]:
        """Hide tokens of texts as in training, by the text alone, and predict them."""
        asked, wanted, owners = list[Blanks](), list[list[int]](), list[int]()
        for owner, row in enumerate(rows):
            for read, expected in self._windows(row):
                places = np.flatnonzero(expected != PAD).tolist()
                if places:
                    asked.append((read.tolist(), places))
                    wanted.append(expected[places].tolist())
                    owners.append(owner)
        right: list[list[int]] = [[] for _ in rows]
        best: list[list[int]] = [[] for _ in rows]
        logs: list[list[float]] = [[] for _ in rows]
        for owner, own, scores in zip(owners, wanted, self._scores(model, asked), strict=True):
            right[owner] += own
            best[owner] += scores.argmax(-1).tolist()
            logs[owner] += log_softmax(scores)[np.arange(len(own)), own].tolist()
        return [self._guessed(*each) for each in zip(rows, right, best, logs, strict=True)]

    def _windows(self, row: Row[Passage]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the windows of a text, of nearly equal lengths, with tokens hidden by the text alone."""
        ids, own = np.array(row.columns["text"], np.int64), text_hash(row.example.text)
        windows = np.array_split(ids, max(math.ceil(len(ids) / self.window), 1))
        return [self._hidden(window, item_seed(0, k, own)) for k, window in enumerate(windows)]

    def _guessed(
        self, row: Row[Passage], right: Sequence[int], best: Sequence[int], logs: Sequence[float]
    ) -> Guessed:
        ids = row.columns["text"]
        return Guessed(
            row.example.text,
            tuple(self.text([token]) for token in right),
            tuple(self.text([token]) for token in best),
            tuple(logs),
            sum(one == other for one, other in zip(right, best, strict=True)),
            source=self.to_line(row.example),
            reading=Reading(len(ids), list(ids).count(UNK)),
        )

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: Passage) -> Guesses:
        return Guesses(example.text)

    @property
    def evaluated(self) -> str:
        return f"15 % of the tokens hidden, in windows of up to {self.window} tokens"

    def mistakes(self, judge: Judge, items: Sequence[Item[Passage, Guessed]]) -> list[Mistake]:
        """Rank passages by the share of wrong guesses."""
        found = []
        for item in items:
            tokens, guesses = item.output.tokens, item.output.guesses
            changes = tuple(pair for pair in zip(tokens, guesses, strict=True) if pair[0] != pair[1])
            every = Guesses(item.output.text, 0.0, len(tokens), len(tokens))
            wrong = len(tokens) - item.output.right
            found.append(Mistake(every, wrong, wrong / max(len(tokens), 1), changes))
        return found

    def baseline(self, example: Passage) -> Guesses:
        """Guess the most frequent token of the training split, and give each token its frequency there."""
        (row,) = self.encode([example])
        expected = [int(token) for _, window in self._windows(row) for token in window if token != PAD]
        counts = np.array(self.counts)
        counts[:FIRST] = 0
        logs = np.log(np.maximum(counts, 1) / max(counts.sum(), 1))
        right = expected.count(int(counts.argmax()))
        return Guesses(example.text, float(logs[expected].sum()), len(expected), right)

"""From inputs to outputs with one model: the command line, the server, validation and Python all come through
here.

model = seqwright.load("runs/g2p") model.predict("through")[0].text
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from seqwright.config import SearchConfig, parse
from seqwright.data.batch import BEGIN, END, PAD, Batch, collate, source_tokens
from seqwright.data.plan import item_seed
from seqwright.data.store import Ragged
from seqwright.data.tokenizer import UNK
from seqwright.errors import ConfigError
from seqwright.models import Model
from seqwright.presets import build_model
from seqwright.search import BeamOptions, Hypothesis, SamplingOptions, Start, beam_search, generate
from seqwright.tasks.translation import Translation

TOKENS = 4096  # source tokens, padding included, that are decoded together
BLOCK = 2048  # inputs that are sorted by length together


@dataclass(frozen=True)
class Prediction:
    """An output: its text, the score it was ranked by, and the log-probability of each of its tokens, the end
    included.

    finish_reason: "end", or "length" if it was cut. alternatives: the next best ones.
    """

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    finish_reason: str
    source: str = ""
    alternatives: tuple[Prediction, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(p.text)}</td><td>{p.score:.3f}</td></tr>"
            for p in (self, *self.alternatives)
        )
        return f"<table><tr><th>{html.escape(self.source)}</th><th>score</th></tr>{rows}</table>"


class Predictor:
    """A model with the task it was trained for."""

    def __init__(self, model: Model, task: Translation, search: SearchConfig | None = None):
        self.model, self.task, self.search = model, task, search or SearchConfig()

    def predict(
        self,
        texts: str | Sequence[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        prefix: str | Sequence[str] = "",
        options: BeamOptions | SamplingOptions | None = None,
    ) -> list[Prediction]:
        """One output for each text, in their order; an empty text has an empty output.

        `prefix` is what each output must begin with. `options` go beyond beam and n_best, also to sampling.
        """
        return list(self.stream(texts, beam=beam, n_best=n_best, prefix=prefix, options=options))

    def stream(
        self,
        texts: str | Sequence[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        prefix: str | Sequence[str] = "",
        options: BeamOptions | SamplingOptions | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[Prediction]:
        """The same one after the other, as they are done; `check` is called between batches and may raise."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        prefixes = [prefix] * len(texts) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(texts):
            raise ConfigError(
                f"{len(prefixes)} prefixes for {len(texts)} texts; give one for each, or one for all"
            )
        chosen = options or self._options(beam, n_best)
        for start in range(0, len(texts), BLOCK):
            block = slice(start, start + BLOCK)
            places = range(start, start + BLOCK)
            yield from self._block(texts[block], prefixes[block], places, chosen, check)

    def _options(self, beam: int | None, n_best: int) -> BeamOptions:
        return BeamOptions(
            size=max(self.search.beam, n_best) if beam is None else beam,
            n_best=n_best,
            length_penalty=self.search.length_penalty,
            max_length=self.search.max_length,
        )

    def _block(
        self,
        texts: list[str],
        prefixes: list[str],
        places: Sequence[int],
        options: BeamOptions | SamplingOptions,
        check: Callable[[], None],
    ) -> list[Prediction]:
        """`places` are the numbers of the texts among all: what is drawn at random depends on them alone."""
        rows = self.task.source.encode_batch(texts)
        starts = self._prefixes(prefixes)
        found: list[Prediction] = [_nothing(text) for text in texts]
        order = sorted((i for i, text in enumerate(texts) if text), key=lambda i: len(rows[i]))
        for numbers in _cut(order, [len(row) + 1 for row in rows]):
            check()
            sources, begun = [rows[i] for i in numbers], [starts[i] for i in numbers]
            outputs = self.search_tokens(sources, begun, options, [places[i] for i in numbers])
            for i, hypotheses in zip(numbers, outputs, strict=True):
                best, *others = (self._prediction(texts[i], each) for each in hypotheses)
                found[i] = replace(best, alternatives=tuple(others))
        return found

    def _prefixes(self, texts: list[str]) -> list[list[int]]:
        rows = self.task.target.encode_batch(texts)
        for text, row in zip(texts, rows, strict=True):
            if UNK in row:
                raise ConfigError(
                    f"the prefix {text!r} has symbols that the model does not know; take them out"
                )
        return rows

    def search_tokens(
        self,
        rows: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        options: BeamOptions | SamplingOptions,
        places: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        """Hypotheses for ids. An output is limited to a few times the length of its source, and to
        max_length. What is drawn for a row is decided by the seed and its entry in `places`.
        """
        source = source_tokens(Ragged.of(rows))
        limits = [
            min(options.max_length, 20 + 4 * len(row) + len(p)) for row, p in zip(rows, prefixes, strict=True)
        ]
        start = Start(rows=len(rows), first=BEGIN, end=END, prefixes=prefixes, limits=limits)
        with evaluating(self.model):
            state = self.model.start(source)
            if isinstance(options, BeamOptions):
                return beam_search(self.model.step, state, start, options)
            start = replace(start, seeds=[item_seed(options.seed, 0, place) for place in places])
            return [[each] for each in generate(self.model.step, state, start, options)]

    def _prediction(self, source: str, found: Hypothesis) -> Prediction:
        pieces = tuple(self.task.target.decode([token]) for token in found.tokens)
        return Prediction(
            text=self.task.text(found.tokens),
            score=found.score,
            log_prob=found.log_prob,
            tokens=pieces,
            token_scores=tuple(found.token_scores),
            finish_reason=found.finish_reason,
            source=source,
        )

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """log p(target | source) of each pair."""
        sources = self.task.source.encode_batch([source for source, _ in pairs])
        targets = self.task.target.encode_batch([target for _, target in pairs])
        scores = np.zeros(len(pairs))
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
        order = sorted(range(len(pairs)), key=lambda i: (lengths[i], len(sources[i])))
        for numbers in _cut(order, lengths):
            batch = collate(
                Ragged.of([sources[i] for i in numbers]),
                Ragged.of([targets[i] for i in numbers]),
                np.array(numbers),
            )
            with evaluating(self.model):
                scores[numbers] = log_probs(self.model, batch)
        return scores.tolist()


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout and gradients inside the block; in a training, that goes on after it."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def log_probs(model: Model, batch: Batch) -> np.ndarray:
    """log p of each row's target (B,)."""
    with torch.inference_mode():
        scores = model(batch).log_softmax(-1)
        chosen = scores.gather(-1, batch.expected[..., None]).squeeze(-1)
        return chosen.masked_fill(batch.expected == PAD, 0.0).sum(-1).numpy()


def load(path: str | os.PathLike[str]) -> Predictor:
    """The model of a run folder, ready to predict."""
    from seqwright.run import Run

    run = Run.open(Path(path))
    config = parse(run.config)
    task = Translation.load(run.folder)
    model = build_model(config.model, source_vocabulary=task.source.size, target_vocabulary=task.target.size)
    model.take_weights(
        run.load_weights({name: tuple(weight.shape) for name, weight in model.weights().items()})
    )
    return Predictor(model.eval(), task, config.search)


def _nothing(source: str) -> Prediction:
    return Prediction("", 0.0, 0.0, (), (), "end", source)


def _cut(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Runs of rows, sorted by length, that hold at most TOKENS together, padding included; at least one row
    each.
    """
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] > TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch

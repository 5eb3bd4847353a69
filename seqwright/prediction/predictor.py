"""From inputs to outputs with one model: the command line, the server, validation and Python all come through
here.

    model = seqwright.load("runs/g2p")
    model("through")                                 # the text
    model.predict(["through", "though"], n_best=3)   # all that is known of it
    model.predict("through", temperature=0.8, seed=3)
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from seqwright.config import SearchConfig, Spec, parse
from seqwright.config.presets import PARTS, PINNED
from seqwright.data.batch import BEGIN, END, PAD, Batch, collate, source_tokens
from seqwright.data.inputs import (
    ONE_TEXT,
    Source,
    line_of,
    pairs_of,
    paths_of,
    roles_of,
    source_of,
    sources_of,
)
from seqwright.data.plan import item_seed
from seqwright.data.readers.columns import Role
from seqwright.data.results import Predictions, Reading, Text
from seqwright.data.store import Ragged
from seqwright.data.text_display import amount
from seqwright.data.tokenizer import UNK
from seqwright.errors import ConfigError, InputError
from seqwright.models import Model
from seqwright.models.building import build_model
from seqwright.models.ensemble import Ensemble
from seqwright.nn.positions import Learned
from seqwright.search import BeamOptions, Hypothesis, Lattice, SamplingOptions, Start, beam_search, generate
from seqwright.tasks.text_to_text import Translation

if TYPE_CHECKING:
    from seqwright.evaluation.evaluate import Evaluation
    from seqwright.lens.trace.document import Trace

TOKENS = 4096  # source tokens, padding included, that are decoded together
LONGEST = 4095  # tokens of one source that are read: with its end it is a batch of its own, and no more
BLOCK = 2048  # inputs that are sorted by length together

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a search; None is left to the model. Temperature, top_k and top_p mean sampling."""

    beam: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    max_length: int | None = None
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    @property
    def sampling(self) -> bool:
        return self.sample or any(value is not None for value in (self.temperature, self.top_k, self.top_p))

    def options(self, search: SearchConfig) -> BeamOptions | SamplingOptions:
        """With the model's own choices where nothing is asked; all that is wrong is said in one error."""
        choose = self._sampling if self.sampling else self._beam
        problems = [*self._contradictions(), *_problems(choose, search)]
        if self.sampling:  # what was said of a beam may be wrong, too
            problems += _problems(replace(self, max_length=None)._beam, search)
        if problems:
            raise ConfigError("; ".join(problems))
        return choose(search)

    def _beam(self, search: SearchConfig) -> BeamOptions:
        return BeamOptions(
            size=max(search.beam, self.n_best) if self.beam is None else self.beam,
            n_best=self.n_best,
            length_penalty=search.length_penalty if self.length_penalty is None else self.length_penalty,
            max_length=search.max_length if self.max_length is None else self.max_length,
        )

    def _sampling(self, search: SearchConfig) -> SamplingOptions:
        drawn = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        given: dict[str, Any] = {name: value for name, value in drawn.items() if value is not None}
        return SamplingOptions(
            max_length=search.max_length if self.max_length is None else self.max_length, **given
        )

    def _contradictions(self) -> list[str]:
        if not self.sampling:
            return [] if self.seed is None else [f"seed is {self.seed}, which is for sampling; sample, too"]
        of_beam = {"beam": self.beam, "length_penalty": self.length_penalty}
        of_beam["n_best"] = None if self.n_best == 1 else self.n_best
        return [
            f"{name} is {value}, which is for a beam, and sampling was asked for; leave one of them out"
            for name, value in of_beam.items()
            if value is not None
        ]


def _problems(choose: Callable[[SearchConfig], object], search: SearchConfig) -> list[str]:
    try:
        choose(search)
    except ConfigError as error:
        return [re.sub(r"\bsize\b", "beam", str(error))]  # as it is called here
    return []


class Predictor:
    """A model with the task it was trained for.

    A source is a text, or the `fields` that the model was trained with, as a tuple or with tabs between them;
    a list holds several. At most `longest` tokens of a source are read; those behind them are counted in
    `Prediction.reading`.
    """

    def __init__(
        self,
        model: Model,
        task: Translation,
        search: SearchConfig | None = None,
        *,
        fields: tuple[Role, ...] = ONE_TEXT,
        trained_length: int | None = None,
        name: str = "",
        folder: Path | None = None,
    ):
        self.model, self.task, self.search, self.fields = model, task, search or SearchConfig(), fields
        self.trained_length = trained_length  # tokens of the longest source in training
        self.name, self.folder = name, folder
        self.longest = min(LONGEST, table_length(model, "encoder", LONGEST + 1) - 1)

    @overload
    def __call__(self, texts: Source, **asked: Any) -> str: ...
    @overload
    def __call__(self, texts: Iterable[Source], **asked: Any) -> list[str]: ...
    def __call__(self, texts: Source | Iterable[Source], **asked: Any) -> str | list[str]:
        """The text of the output, or of each; asked as `predict` is."""
        found = self.predict(texts, **asked).texts
        return found[0] if isinstance(texts, str | tuple) else found

    def predict(
        self,
        texts: Source | Iterable[Source],
        *,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        sample: bool = False,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        prefix: str | Sequence[str] = "",
        options: BeamOptions | SamplingOptions | None = None,
    ) -> Predictions[Text]:
        """One output for each text, in their order; a blank text has an empty output.

        `prefix` is what each output must begin with. `options` say all of the others at once, and more.
        """
        asked = Asked(
            beam=beam,
            n_best=n_best,
            length_penalty=length_penalty,
            max_length=max_length,
            sample=sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        found = Predictions(self.stream(texts, prefix=prefix, options=options or asked.options(self.search)))
        if cut := sum(prediction.reading.unread > 0 for prediction in found):
            logger.warning(
                "%d of %d sources are longer than the %d tokens that are read; what is behind them is not",
                *(cut, len(found), self.longest),
            )
        return found

    def stream(
        self,
        texts: Source | Iterable[Source],
        *,
        beam: int | None = None,
        n_best: int = 1,
        prefix: str | Sequence[str] = "",
        options: BeamOptions | SamplingOptions | None = None,
        first: int = 0,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[Text]:
        """The same one after the other, as they are done; `check` is called between batches and may raise.

        `first` is the number of the first text among all that belong together: what is drawn depends on it.
        """
        sources = sources_of(texts, self.fields)
        prefixes = [prefix] * len(sources) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(sources):
            raise ConfigError(
                f"{len(prefixes)} prefixes for {len(sources)} texts; give one for each, or one for all"
            )
        chosen = options or Asked(beam=beam, n_best=n_best).options(self.search)
        for start in range(0, len(sources), BLOCK):
            block = slice(start, start + BLOCK)
            yield from self._block(sources[block], prefixes[block], first + start, chosen, check)

    def _block(
        self,
        sources: list[str],
        prefixes: list[str],
        first: int,
        options: BeamOptions | SamplingOptions,
        check: Callable[[], None],
    ) -> list[Text]:
        """`first` is the number of the first source among all, which decides what is drawn at random."""
        rows = self.task.source.encode_batch(sources)
        starts = self._prefixes(prefixes)
        found = [self._nothing(source, row) for source, row in zip(sources, rows, strict=True)]
        rows = [row[: self.longest] for row in rows]
        filled = [i for i, source in enumerate(sources) if source and not source.isspace()]
        for numbers in _cut(sorted(filled, key=lambda i: len(rows[i])), [len(row) + 1 for row in rows]):
            check()
            outputs = self.search_tokens(
                [rows[i] for i in numbers],
                [starts[i] for i in numbers],
                options,
                [first + i for i in numbers],
            )
            for i, hypotheses in zip(numbers, outputs, strict=True):
                best, *others = (self._output(found[i], each) for each in hypotheses)
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
        recorder: Lattice | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses for ids. An output is limited to a few times the length of its source, to max_length,
        and to what the decoder has positions for. What is drawn for a row is decided by the seed and its
        entry in `places`. A `recorder` gets every candidate of a beam.
        """
        source = source_tokens(Ragged.of(rows))
        most = min(options.max_length, table_length(self.model, "decoder", options.max_length))
        limits = [min(most, 20 + 4 * len(row) + len(p)) for row, p in zip(rows, prefixes, strict=True)]
        start = Start(
            rows=len(rows), first=BEGIN, end=END, silent=(PAD, BEGIN), prefixes=prefixes, limits=limits
        )
        with evaluating(self.model):
            state = self.model.start(source)
            if isinstance(options, BeamOptions):
                return beam_search(self.model.step, state, start, options, recorder)
            start = replace(start, seeds=[item_seed(options.seed, 0, place) for place in places])
            return [[each] for each in generate(self.model.step, state, start, options)]

    def _nothing(self, source: str, row: Sequence[int]) -> Text:
        """The output of a blank source, and what any other is made of."""
        reading = Reading(len(row), row.count(UNK), max(0, len(row) - self.longest))
        return Text("", 0.0, 0.0, (), (), "end", source=line_of(source, self.fields), reading=reading)

    def _output(self, of: Text, found: Hypothesis) -> Text:
        return replace(
            of,
            text=self.task.text(found.tokens),
            score=found.score,
            log_prob=found.log_prob,
            tokens=tuple(self.task.target.decode([token]) for token in found.tokens),
            token_scores=tuple(found.token_scores),
            finish_reason=found.finish_reason,
        )

    def score(self, pairs: Iterable[tuple[Source, str]]) -> list[float]:
        """log p(target | source) of each pair. A symbol that the model does not know counts as any such."""
        given = list(pairs_of(pairs))
        sources = self.task.source.encode_batch([source_of(source, self.fields) for source, _ in given])
        targets = self.task.target.encode_batch([target for _, target in given])
        self._check_lengths(sources, targets)
        if strange := [number for number, row in enumerate(targets, start=1) if UNK in row]:
            logger.warning(
                "%d of %d targets have symbols that the model does not know, first that of pair %d; one such "
                "symbol scores like any other",
                *(len(strange), len(targets), strange[0]),
            )
        scores = np.zeros(len(given))
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
        order = sorted(range(len(given)), key=lambda i: (lengths[i], len(sources[i])))
        for numbers in _cut(order, lengths):
            batch = collate(
                Ragged.of([sources[i] for i in numbers]),
                Ragged.of([targets[i] for i in numbers]),
                np.array(numbers),
            )
            with evaluating(self.model):
                scores[numbers] = log_probs(self.model, batch)
        return scores.tolist()

    def evaluate(
        self,
        pairs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterable[tuple[Source, str]],
        **options: Any,
    ) -> Evaluation:
        """How good it is on a file of pairs, on files of both sides, or on pairs; `options` are those of
        `evaluate` and `evaluate_files` in `seqwright.evaluation`.
        """
        from seqwright.evaluation.evaluate import evaluate, evaluate_files

        if files := paths_of(pairs):
            return evaluate_files(self, files, **options)
        return evaluate(self, pairs, **options)  # type: ignore[arg-type]

    @property
    def members(self) -> int:
        """How many models speak together."""
        return len(self.model.members) if isinstance(self.model, Ensemble) else 1

    def numbered(self, member: int) -> tuple[int, int] | None:
        """A member and how many there are, where there are several."""
        return (member, self.members) if self.members > 1 else None

    def member(self, number: int = 1) -> Predictor:
        """One of the models that speak together, alone; a model that is no ensemble is its only member."""
        if not 1 <= number <= self.members:
            which = "the model" if self.folder is None else str(self.folder)
            raise ConfigError(f"{which} has no member {number}, only {amount(self.members, 'member')}")
        if not isinstance(self.model, Ensemble):
            return self
        return Predictor(
            self.model.members[number - 1],
            self.task,
            self.search,
            fields=self.fields,
            trained_length=self.trained_length,
            name=self.name,
            folder=self.folder,
        )

    def look(
        self,
        text: Source,
        *,
        beam: int | None = None,
        reference: str | None = None,
        ablate: bool = True,
        member: int = 1,
    ) -> Trace:
        """What happens inside on the way to the output of one text, and to a reference if one is given; of an
        ensemble inside one `member`, as if it spoke alone.

        `ablate` decodes again without each head, where that is quick enough.
        """
        from seqwright.lens.trace.build import look
        from seqwright.runs.folder import Run

        width = self.search.beam if beam is None else beam
        options = Asked(beam=beam, n_best=max(width, 1)).options(self.search)
        assert isinstance(options, BeamOptions)
        config = None if self.folder is None else Run.open(self.folder).config
        source = source_of(text, self.fields)
        asked: dict[str, Any] = {"reference": reference, "ablate": ablate, "config": config}
        return look(self.member(member), source, options=options, member=self.numbered(member), **asked)

    def _check_lengths(self, sources: list[list[int]], targets: list[list[int]]) -> None:
        """A pair is scored whole or not at all."""
        most = min(LONGEST, table_length(self.model, "decoder", LONGEST + 1) - 1)
        for name, rows, limit in (("source", sources, self.longest), ("target", targets, most)):
            for number, row in enumerate(rows, start=1):
                if len(row) > limit:
                    raise InputError(
                        f"the {name} of pair {number} has {len(row):,} tokens, and {limit:,} can be scored; "
                        "shorten it or leave it out"
                    )

    def __repr__(self) -> str:
        source, target = self.task.source, self.task.target
        parts = [
            self.name or type(self.model).__name__,
            f"{sum(weight.numel() for weight in self.model.weights().values()):,} parameters",
            f"{source.kind} ({source.size:,}) → {target.kind} ({target.size:,})",
            *([f"fields {', '.join(self.fields)}"] if len(self.fields) > 1 else []),
        ]
        return f"<Predictor{f' of {self.folder}' if self.folder else ''}: {', '.join(parts)}>"


def table_length(model: Model, part: str, otherwise: int) -> int:
    """How many positions a part of a model has learned; `otherwise` if it takes any number of them."""
    inside = (module for name, module in model.named_modules() if part in name.split("."))
    return min((len(module.table) for module in inside if isinstance(module, Learned)), default=otherwise)


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
    from seqwright.runs.folder import LONGEST, Run

    run = Run.open(Path(path))
    config = parse(run.config)
    task = Translation.load(run.folder)
    model = build_model(config.model, source_vocabulary=task.source.size, target_vocabulary=task.target.size)
    model.take_weights(
        run.load_weights({name: tuple(weight.shape) for name, weight in model.weights().items()})
    )
    return Predictor(
        model.eval(),
        task,
        config.search,
        fields=roles_of(config.data.columns),
        trained_length=int(run.weights_metadata().get(LONGEST, config.data.max_length)),
        name=_name(config.model),
        folder=run.folder,
    )


def _name(model: Spec) -> str:
    """A preset's name, or which parts the model has."""
    if isinstance(model, str):
        return model
    if "preset" in model:
        return f"{model['preset']}, changed" if model.keys() - {"preset", PINNED} else model["preset"]
    parts = [model.get(part, "transformer") for part in PARTS]
    return " → ".join(part if isinstance(part, str) else part.get("kind", "transformer") for part in parts)


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

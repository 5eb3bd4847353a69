"""Predictions with one model: the command line, the server and Python all come through here.

model = seqwright.load("runs/g2p")
model("through")                                 # the output
model.predict(["through", "though"], n_best=3)   # with scores and alternatives
model.predict("through", temperature=0.8, seed=3)
"""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from seqwright.config import Config, SearchConfig, Spec, parse
from seqwright.config.outside import trusting_code
from seqwright.config.presets import PARTS, PINNED
from seqwright.config.validation import Count, check
from seqwright.data.plan import cut_by_tokens
from seqwright.data.results import Prediction, Predictions
from seqwright.data.task import Row, Task, task_class
from seqwright.data.text_display import pluralize
from seqwright.errors import ConfigError, InputError, ModelError, brief
from seqwright.models import Model, checked_steps, shared_copy
from seqwright.models.building import resolve
from seqwright.models.ensemble import Ensemble
from seqwright.runs.folder import Run
from seqwright.runs.model import load_model
from seqwright.runtime import inference_threads, threads

if TYPE_CHECKING:
    from seqwright.evaluation.evaluate import Evaluation
    from seqwright.lens.trace.base import TraceDocument
    from seqwright.prediction.ranking import Ranking

TOKENS = 4096  # input tokens, padding included, that are predicted together
BLOCK = 2048  # inputs that are sorted by length together

logger = logging.getLogger(__name__)


class Predictor:
    """A model with the task it was trained for.

    An input is what the task takes (a text, or a tuple of the texts of its fields); a list holds several. At
    most `longest` tokens of an input are read; `Prediction.reading` counts those behind them.

    Several threads may use one predictor: a lock lets them compute one batch at a time, and `look` records
    in a copy of the model.
    """

    def __init__(
        self,
        model: Model,
        task: Task[Any, Any],
        search: SearchConfig | None = None,
        *,
        config: Config | None = None,
        trained_length: int | None = None,
        name: str = "",
        folder: Path | None = None,
        threads: int | None = None,
    ):
        self.model, self.task, self.config = model, task, config
        self.search = search or (SearchConfig() if config is None else config.search)
        self.trained_length = trained_length  # tokens of the longest input in training
        self.name, self.folder = name, folder
        self.threads = threads  # None: by the size of the work
        self.threads_used = 1  # by the latest batch
        self.ranking: Ranking | None = None
        self._lock = threading.RLock()

    @property
    def longest(self) -> int:
        """The number of tokens of an input that are read."""
        return self.task.input_limit(self.model)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the plain answer to one input, or a list of them to several; options as in `predict`."""
        values = [prediction.value for prediction in self.predict(inputs, **options)]
        return values[0] if self.task.is_one(inputs) else values

    def predict(self, inputs: Any, **options: Any) -> Predictions[Any]:
        """Return one prediction per input, in order.

        The options depend on the task. Tasks that generate text take beam, n_best, length_penalty,
        max_length, sample, temperature, top_k, top_p, seed, prefix (what each output must begin with), and
        `options`, a complete `BeamOptions` or `SamplingOptions`.
        """
        found = Predictions(self.stream(inputs, **options))
        if cut := sum(prediction.reading.unread > 0 for prediction in found):
            logger.warning(
                "%d of %d inputs are longer than the %d tokens that are read; %s is ignored",
                *(cut, len(found), self.longest, self.task.nouns.unread),
            )
        if linear := sum(prediction.reading.unparsed for prediction in found):
            logger.warning(
                "%d of %d inputs have no dependency tree; their positions are linear", linear, len(found)
            )
        return found

    def stream(
        self, inputs: Any, *, first: int = 0, check: Callable[[], None] = lambda: None, **options: Any
    ) -> Iterator[Any]:
        """Yield predictions as they are done; `check` is called between batches and may raise.

        Inputs are read in blocks, so that an endless iterator works. `first` is the number of the first input
        among all that belong together: what is drawn at random depends on it.
        """
        count = len(inputs) if isinstance(inputs, list) else None
        request = self.task.request(self.search, count=count, **options)
        return self._stream(self.task.inputs(inputs), first, request, check)

    def _stream(
        self, examples: Iterator[Any], first: int, request: Any, check: Callable[[], None]
    ) -> Iterator[Any]:
        while block := list(islice(examples, BLOCK)):
            yield from self._block(self.task.encode(block), first, request, check)
            first += len(block)

    def _block(
        self, rows: Sequence[Row[Any]], first: int, request: Any, check: Callable[[], None]
    ) -> list[Prediction]:
        """Predict in batches of inputs of similar length; return the predictions in the order of the rows."""
        limit = self.longest
        lengths = [min(row.length, limit) + 1 for row in rows]
        found: dict[int, Prediction] = {}
        for numbers in cut_by_tokens(sorted(range(len(rows)), key=lengths.__getitem__), lengths, TOKENS):
            check()
            batch = [rows[i] for i in numbers]
            found |= zip(numbers, self.answer(batch, request, [first + i for i in numbers]), strict=True)
        return [found[i] for i in range(len(rows))]

    def answer(
        self,
        rows: Sequence[Row[Any]],
        request: Any,
        numbers: Sequence[int],
        check: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Answer encoded inputs in one batch, in order: `Task.answer` with the model of this predictor.

        `check` is called before each step of a search and may raise.
        """
        with self.computing(len(rows) * self.task.width(request)), checked_steps(self.model, check):
            if self.ranking is not None:
                return list(self.ranking.answer(self, rows, request, numbers))
            return self.task.answer(self.model, rows, request, numbers)

    @cached_property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.model.weights().values())

    @contextmanager
    def computing(self, rows: int) -> Iterator[None]:
        """Compute alone inside the block, with as many threads as pay for so many rows."""
        with self._lock, threads(inference_threads(self.parameters, rows, self.threads)):
            self.threads_used = torch.get_num_threads()
            yield

    def score(self, examples: Any) -> Any:
        """Return the log-probability of the target of each example.

        A language model takes a text, or a list of texts, and returns a `Scored` text with the
        log-probability of each token.
        """
        labelled = list(self.task.labelled(examples))
        with self.computing(len(labelled)):
            found = self.task.score(self.model, labelled)
        return found[0] if isinstance(examples, str) else found

    def typed(self, prompt: str, **options: Any) -> Iterator[str]:
        """Yield the text that a language model writes after a prompt, as it grows."""
        task: Any = self.task
        (row,) = task.encode(list(task.inputs(prompt)))
        with self.computing(1):
            yield from task.typed(self.model, row, task.request(self.search, **options))

    def evaluate(self, examples: Any, **options: Any) -> Evaluation:
        """Evaluate on files, or on examples with their targets; `options` are those of `evaluate` and
        `evaluate_files` in `seqwright.evaluation.evaluate`.
        """
        from seqwright.evaluation.evaluate import evaluate, evaluate_files

        if files := paths_of(examples):
            return evaluate_files(self, files, **options)
        return evaluate(self, examples, **options)

    @property
    def members(self) -> int:
        """The number of models in an ensemble; 1 for any other model."""
        return len(self.model.members) if isinstance(self.model, Ensemble) else 1

    def numbered(self, member: int) -> tuple[int, int] | None:
        """Return the number of a member of an ensemble and how many there are; None for any other model."""
        return (member, self.members) if self.members > 1 else None

    def ranked(self, ranking: Ranking) -> Predictor:
        """Return this predictor with its candidates in the order of a ranking."""
        ranking.check(self.task)
        other = copy.copy(self)
        other.ranking = ranking
        return other

    def member(self, number: int = 1) -> Predictor:
        """Return one model of an ensemble on its own; any other model is its only member."""
        if not isinstance(number, int) or not 1 <= number <= self.members:
            which = "the model" if self.folder is None else str(self.folder)
            raise ConfigError(f"{which} has no member {number}, only {pluralize(self.members, 'member')}")
        if not isinstance(self.model, Ensemble):
            return self
        return self._with(self.model.members[number - 1], self._lock)

    def _with(self, model: Model, lock: threading.RLock | None = None) -> Predictor:
        """Return this predictor with another model: one that others use as well has their `lock`."""
        other = copy.copy(self)
        other.model, other._lock = model, lock or threading.RLock()
        other.__dict__.pop("parameters", None)  # a number of the other model
        return other

    def look(
        self,
        given: Any,
        *,
        beam: int | None = None,
        reference: Any = None,
        output: str | None = None,
        ablate: bool = True,
        member: int = 1,
        check: Callable[[], None] = lambda: None,
    ) -> TraceDocument:
        """Return the trace of one input: what happens inside on the way to its output; of an ensemble inside
        one `member`. If the output is searched for, with a `beam`, a `reference` is scored as well, and
        `output` is the one to look into (default: the best).

        `ablate` decodes again without each head, where that is quick enough. `check` is called before each
        step of a search and may raise.
        """
        from seqwright.lens.series.build import ForecastReadout, look_at_forecast
        from seqwright.lens.trace.build import look, look_at
        from seqwright.lens.trace.contract import searches_text

        if not self.task.usage.traced:
            raise ConfigError(f"look cannot show predictions of the task {type(self.task).__name__} yet")
        (example,) = self.task.inputs(given)
        config = None if self.folder is None else Run.open(self.folder).config
        rest: dict[str, Any] = {"ablate": ablate, "config": config, "member": self.numbered(member)}
        with self._lock:
            watched = self._with(shared_copy(self.model)).member(member)
        if not self.task.usage.generates:
            given_options = {"beam": beam, "reference": reference, "output": output}
            if wrong := [name for name, value in given_options.items() if value is not None]:
                raise ConfigError(f"{' and '.join(wrong)}: this task does not search; leave it out")
            with checked_steps(watched.model, check), watched.computing(1):
                readout = self.task.readout(watched.model, example)
                if isinstance(readout, ForecastReadout):
                    return look_at_forecast(watched.model, readout, config=config)
                return look_at(watched.model, readout, **rest)
        for name, value in (("reference", reference), ("output", output)):
            if not isinstance(value, str | None):
                raise InputError(f"the {name} is {brief(value)}; it must be a text")
        if not searches_text(self.task):
            if reference is not None:
                raise ConfigError("reference: this task does not score one; leave it out")
            request = self.task.request(self.search, **({} if beam is None else {"beam": beam}))
            with checked_steps(watched.model, check), watched.computing(self.task.width(request)):
                readout = cast(Any, self.task).readout(watched.model, example, request, output)
                return look_at(watched.model, readout, **rest)
        width = self.task.width(self.task.request(self.search, beam=beam))
        request = self.task.request(self.search, beam=beam, n_best=width)
        with checked_steps(watched.model, check), watched.computing(width):
            rest |= {"reference": reference, "chosen": output}
            return look(watched, example.source, options=request.options, **rest)

    def search_tokens(self, *rows: Any, **options: Any) -> Any:
        """Search for ids with the model of this predictor: `TextToText.search`."""
        return cast(Any, self.task).search(self.model, *rows, **options)

    def __repr__(self) -> str:
        parts = [
            self.name or type(self.model).__name__,
            f"{self.parameters:,} parameters",
            self.task.summary,
        ]
        return f"<Predictor{f' of {self.folder}' if self.folder else ''}: {', '.join(parts)}>"


def load(path: str | os.PathLike[str], *, threads: int | None = None, trusted: bool = False) -> Predictor:
    """Load the model of a run folder. Without `threads`, the size of the work decides how many are used.

    The code of a run is not imported unless it is `trusted`: a run may name parts outside of Seqwright.
    """
    if problem := check("threads", threads, Count | None):
        raise ConfigError(problem)
    with trusting_code(trusted):
        run = Run.open(path)
        config = parse(run.config)
        task = task_class(config.task).load(run.folder, config)
        kind = resolve(config.model)["kind"]
        if ":" not in str(kind) and kind not in task.models:
            raise ModelError(
                f"{path} has a model of the kind {brief(kind)}, which {config.task} does not use"
            )
        model = load_model(run, config.model, task.facts())
    return Predictor(
        model,
        task,
        config=config,
        trained_length=run.longest_input() or config.data.max_length,
        name=_name(config.model),
        folder=run.folder,
        threads=threads,
    )


def paths_of(given: Any) -> list[str]:
    """Return the paths in one path or several; none if it is something else."""
    several = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(several, Sequence) or not all(isinstance(path, str | os.PathLike) for path in several):
        return []
    return [os.fspath(path) for path in several]


def _name(model: Spec) -> str:
    """Return the name of a preset, or the kinds of the parts."""
    if isinstance(model, str):
        return model
    if "preset" in model:
        return f"{model['preset']}, changed" if model.keys() - {"preset", PINNED} else model["preset"]
    parts = [model.get(part, "transformer") for part in PARTS]
    return " → ".join(part if isinstance(part, str) else part.get("kind", "transformer") for part in parts)

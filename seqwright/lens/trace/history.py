"""Traces of the training: the same few sources, traced at every validation.

traces/probe_1/step_00000100.json is the trace (docs/trace.md) of the first source at step 100.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqwright.config import SearchConfig, parse
from seqwright.data.fields import FIELD, JoinedFields
from seqwright.data.task import task_class
from seqwright.data.text_display import excerpt
from seqwright.errors import InputError, ModelError
from seqwright.files import remove_leftovers, writing
from seqwright.lens.trace.contract import text_task, traced_in_training
from seqwright.models import Model
from seqwright.models.building import resolve
from seqwright.runs.folder import Run
from seqwright.search import BeamOptions

if TYPE_CHECKING:
    from seqwright.data.task import Item
    from seqwright.lens.trace.document import Trace
    from seqwright.lens.trace.readout import Readout
    from seqwright.prediction.predictor import Predictor
    from seqwright.training.validation import Validation

TRACES = "traces"
MAX_SOURCE = 40  # tokens: a longer source would slow down every validation
MAX_OUTPUT = 80  # tokens: an untrained model does not know where to end
SIZE = 200_000  # characters for the packed arrays of one trace
LIMIT = 20_000_000  # bytes for all traces of a run


class TraceHistory:
    """Stores traces of the first `count` suitable probes of every validation. predictor: for a model."""

    def __init__(
        self, folder: Path, predictor: Callable[[Model], Predictor], search: SearchConfig, *, count: int
    ):
        self.folder, self.predictor, self.count = folder, predictor, count
        beam, most, alpha = search.beam, min(search.max_length, MAX_OUTPUT), search.length_penalty
        self.options = BeamOptions(size=beam, n_best=beam, length_penalty=alpha, max_length=most)

    def validated(self, model: Model, validation: Validation, step: int) -> None:
        """Store traces of the model in its current state. If they take too much space, remove older ones."""
        if not self.count:
            return
        whole, probes = self.predictor(model), [probe.item for probe in validation.probes]
        if not probes:
            raise InputError("training.decode is 0, so no probes are decoded")
        rest = {"ablate": False, "step": step, "member": whole.numbered(1), "size": SIZE}
        traces = self._searched if whole.task.usage.generates else self._read
        for number, trace in enumerate(traces(whole.member(), probes, rest), start=1):
            folder = self.folder / f"probe_{number}"
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
            trace.save(folder / f"step_{step:08d}.json")
            thin(folder, LIMIT // self.count)

    def rewind(self, step: int) -> None:
        """Remove the traces after the step that a training resumes from, and leftovers of a kill."""
        with suppress(OSError):  # such a file is replaced when the training reaches its step
            for folder in _folders(self.folder):
                remove_leftovers(folder)
                for at, path in _by_step(folder).items():
                    if at > step:
                        path.unlink()

    def _searched(
        self, predictor: Predictor, probes: Sequence[Item[Any, Any]], rest: Mapping[str, Any]
    ) -> Iterator[Trace]:
        from seqwright.lens.trace.build import look

        for probe in self._suitable(probes, predictor):
            source, given = probe.example.source, probe.references[0]
            yield look(predictor, source, options=self.options, reference=given, branch=False, **rest)

    def _read(
        self, predictor: Predictor, probes: Sequence[Item[Any, Any]], rest: Mapping[str, Any]
    ) -> Iterator[Trace]:
        """Traces of probes whose predictions are read off at once; of a long text, its beginning."""
        from seqwright.lens.trace.build import look_at

        for probe in probes[: self.count]:
            yield look_at(predictor.model, beginning(predictor, probe.example), **rest)

    def _suitable(self, probes: Sequence[Item[Any, Any]], predictor: Predictor) -> list[Item[Any, Any]]:
        """The first probes that are neither blank nor too long."""
        longest = min(predictor.longest, MAX_SOURCE)
        sources = [one.example.source for one in probes]
        lengths = map(len, text_task(predictor.task).source.encode_batch(sources))
        fits = [bool(text.strip()) and n <= longest for text, n in zip(sources, lengths, strict=True)]
        if not any(fits):
            raise InputError(f"each of the {len(probes)} probes is blank or has more than {longest} tokens")
        return list(compress(probes, fits))[: self.count]


def beginning(predictor: Predictor, example: Any) -> Readout:
    """The readout of the first tokens of a text, at most `MAX_OUTPUT`."""
    task, (text,) = predictor.task, predictor.task.texts(example)
    while True:
        (first,) = task.inputs(text)
        tokens = max(row.length for row in task.encode([first]))
        if tokens <= MAX_OUTPUT or len(text) == 1:
            return task.readout(predictor.model, first)
        fields = text.split(FIELD)
        lengths = (max(1, min(len(each) - 1, len(each) * MAX_OUTPUT // tokens)) for each in fields)
        text = FIELD.join(each[:length] for each, length in zip(fields, lengths, strict=True))


def thin(folder: Path, limit: int) -> None:
    """Remove traces until they have at most `limit` bytes together, each time the one with the smallest gap
    between its neighbours, so that the rest is spread over the training. The first and the last stay.

    The choice depends only on the files that exist, so a kill in between does not change the result.
    """
    paths = _by_step(folder)
    with writing(folder):
        left = sum(path.stat().st_size for path in paths.values())
        while left > limit and len(paths) > 2:
            steps = list(paths)
            inner = range(1, len(steps) - 1)
            number = min(inner, key=lambda i: steps[i + 1] - steps[i - 1])
            removed = paths.pop(steps[number])
            left -= removed.stat().st_size
            removed.unlink()


@dataclass(frozen=True)
class LearningHistory:
    """The traces of one source during a training, and the loss of every validation by its step."""

    name: str  # of the run
    traces: tuple[Trace, ...]
    losses: dict[int, float]

    def page(self) -> str:
        """The HTML page that plays the training back, self-contained."""
        from seqwright.lens.page import render

        learning = [{"step": step, "loss": loss} for step, loss in self.losses.items()]
        documents = [trace.document for trace in self.traces]
        return render(documents, title=f"{self.name}: training", learning=learning)

    def __str__(self) -> str:
        """One line per validation."""
        lines = [f"{'step':>10}  {'loss':>6}  {excerpt(self.traces[0].text)}"]
        for trace in self.traces:
            step = trace.document["model"]["step"] or 0
            loss = f"{self.losses[step]:6.3f}" if step in self.losses else f"{'':6}"
            lines.append(f"{step:10,d}  {loss}  {excerpt(trace.output)}")
        return "\n".join(lines)


def read_learning(folder: str | Path, text: str | None = None) -> LearningHistory:
    """The history of the traced source with this text (fields separated by tabs), or of the first one."""
    from seqwright.lens.trace.document import Trace

    run = Run.open(folder)
    config = parse(run.config)
    task = task_class(config.task).load(run.folder, config)
    by_source = {
        Trace.load(next(iter(paths.values()))).text: paths
        for each in _folders(run.path(TRACES))
        if (paths := _by_step(each))
    }
    if not by_source:
        reasons = [str(record["untraced"]) for record in run.records() if "untraced" in record]
        reason = "it has not been validated yet, was copied without them, or is older than this feature"
        if not traced_in_training(task, resolve(config.model)["kind"]):
            reason = f"trainings of {config.task} are not traced; leave out --learning"
        elif reasons:
            reason = reasons[-1]
        elif not config.training.traces:
            reason = "training.traces is 0; train with training.traces=1"
        raise ModelError(f"{run.folder} has no traces of its training: {reason}")
    source = next(iter(by_source)) if text is None else text
    if text is not None and task.usage.generates:
        source = task.from_line(text).source
    by_line = {task.to_line(next(task.inputs(JoinedFields(each)))): each for each in by_source}
    source = by_line.get(source, source)
    if source not in by_source:
        there = ", ".join(map(repr, by_line))
        raise InputError(f"{text!r} was not traced in {run.folder}; choose one of {there}, or omit it")
    logged = ((record.get("step"), record.get("valid_loss")) for record in run.records())
    losses = {step: loss for step, loss in logged if isinstance(step, int) and isinstance(loss, float)}
    traces = tuple(map(Trace.load, by_source[source].values()))
    return LearningHistory(run.folder.resolve().name, traces, losses)


def _folders(folder: Path) -> list[Path]:
    """The folders of the probes, in order."""
    return sorted(path for path in folder.glob("probe_*") if path.is_dir())


def _by_step(folder: Path) -> dict[int, Path]:
    """The traces of a probe by step, in order."""
    matches = (re.fullmatch(r"step_(\d+)\.json", path.name) for path in folder.iterdir())
    return dict(sorted((int(match[1]), folder / match[0]) for match in matches if match))

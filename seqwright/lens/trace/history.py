"""Watching it learn: a few sources, the same at every validation, looked into as the model is at that moment.

traces/probe_1/step_00000100.json is the trace (docs/trace.md) of the first of them at step 100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seqwright.config import Config, SearchConfig
from seqwright.config import parse as parse_config
from seqwright.data.corpus import task_class
from seqwright.data.fields import Joined
from seqwright.data.task import Item
from seqwright.data.text_display import shown
from seqwright.errors import InputError, ModelError
from seqwright.files import remove_leftovers, writing
from seqwright.models import Model
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import Run
from seqwright.search import BeamOptions
from seqwright.tasks.text_to_text import TextToText
from seqwright.training.validation import Validation

if TYPE_CHECKING:
    from seqwright.lens.trace.document import Trace
    from seqwright.training.preparation import Prepared

TRACES = "traces"
LONGEST = 40  # tokens of a source: more takes longer than it is worth at every validation
SPOKEN = 80  # tokens of an output: a model that has learned nothing yet does not know where to end
ROOM = 200_000  # characters for the packed arrays of one trace
LIMIT = 20_000_000  # bytes for all traces of a run


class TraceHistory:
    """Keeps traces of `count` probes of every validation in a folder. With 0 of them nothing is looked at."""

    def __init__(self, folder: Path, task: TextToText, search: SearchConfig, *, count: int):
        self.folder, self.task, self.count = folder, task, count
        self.options = BeamOptions(
            size=search.beam,
            n_best=search.beam,
            length_penalty=search.length_penalty,
            max_length=min(search.max_length, SPOKEN),
        )

    def validated(self, model: Model, validation: Validation, step: int) -> None:
        """Looks into the model as it is now. Where the traces become too many, older ones make room."""
        if not self.count:
            return
        from seqwright.lens.trace.build import look

        whole = Predictor(model, self.task)
        predictor = whole.member()
        for number, probe in enumerate(
            self._chosen([probe.item for probe in validation.probes], predictor.longest), start=1
        ):
            trace = look(
                predictor,
                probe.example.source,
                options=self.options,
                reference=probe.references[0],
                ablate=False,
                branch=False,
                step=step,
                member=whole.numbered(1),
                room=ROOM,
            )
            folder = self.folder / f"probe_{number}"
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
            trace.save(folder / f"step_{step:08d}.json")
            thin(folder, LIMIT // self.count)

    def rewind(self, step: int) -> None:
        """Forgets what came after the step that a training goes on from, and what a kill left behind."""
        with suppress(OSError):  # what cannot be removed is replaced when the training comes there again
            for folder in _folders(self.folder):
                remove_leftovers(folder)
                for at, path in _by_step(folder).items():
                    if at > step:
                        path.unlink()

    def _chosen(self, probes: Sequence[Item], longest: int) -> list[Item]:
        """The first that are short enough."""
        longest = min(longest, LONGEST)
        short = [
            probe
            for probe in probes
            if probe.example.source.strip() and len(self.task.source.encode(probe.example.source)) <= longest
        ]
        if not short:
            raise InputError(
                f"each of the {len(probes)} probes is blank or has more than {longest} tokens"
                if probes
                else "training.decode is 0, so that no probe is decoded"
            )
        return short[: self.count]


def trace_observers(config: Config, run: Run, prepared: Prepared) -> list[TraceHistory]:
    """The observers of a training: its history of traces."""
    return [TraceHistory(run.path(TRACES), prepared.task, config.search, count=config.training.traces)]


def thin(folder: Path, limit: int) -> None:
    """Removes traces until all together have at most `limit` bytes: each time the one whose neighbours are
    nearest to each other, so that what is left is spread over the training. The first and the last stay.

    One at a time, and chosen by what is there: a kill in between changes nothing in what is left at the end.
    """
    paths = _by_step(folder)
    with writing(folder):
        left = sum(path.stat().st_size for path in paths.values())
        while left > limit and len(paths) > 2:
            steps = list(paths)
            between = zip(steps, steps[1:], steps[2:], strict=False)
            gaps = {at: after - before for before, at, after in between}
            unwanted = paths.pop(min(gaps, key=gaps.__getitem__))
            left -= unwanted.stat().st_size
            unwanted.unlink()


@dataclass(frozen=True)
class Learning:
    """One source in the course of a training: its traces, and the loss of every validation by its step."""

    name: str  # of the run
    traces: tuple[Trace, ...]
    losses: dict[int, float]

    def page(self) -> str:
        """The page that plays it back, self-contained."""
        from seqwright.lens.page import render

        return render(
            [trace.document for trace in self.traces],
            title=f"{self.name} learns",
            learning=[{"step": step, "loss": loss} for step, loss in self.losses.items()],
        )

    def __str__(self) -> str:
        """A line for each moment."""
        lines = [f"{'step':>10}  {'loss':>6}  {shown(self.traces[0].text)}"]
        for trace in self.traces:
            step = trace.document["model"]["step"]
            loss = f"{self.losses[step]:6.3f}" if step in self.losses else f"{'':6}"
            lines.append(f"{step:10,d}  {loss}  {shown(trace.output)}")
        return "\n".join(lines)


def read_learning(folder: str | Path, text: str | None = None) -> Learning:
    """What a training kept of one of its probes: that with this text (fields between tabs), or the first."""
    from seqwright.lens.trace.document import Trace

    run = Run.open(folder)
    config = parse_config(run.config)
    task = task_class(config.task).load(run.folder, config)
    found = {
        Trace.load(next(iter(paths.values()))).text: paths
        for each in _folders(run.path(TRACES))
        if (paths := _by_step(each))
    }
    if not found:
        raise ModelError(f"{run.folder} has no traces of its training: {_why_none(run)}")
    source = next(iter(found)) if text is None else task.from_line(text).source
    if source not in found:
        there = ", ".join(repr(task.to_line(next(task.inputs(Joined(each))))) for each in found)
        raise InputError(
            f"{text!r} was not watched while {run.folder} was trained; take one of {there}, or leave it out"
        )
    validations = (record for record in run.records() if record.get("valid_loss") is not None)
    losses = {record["step"]: record["valid_loss"] for record in validations}
    traces = tuple(map(Trace.load, found[source].values()))
    return Learning(run.folder.resolve().name, traces, losses)


def _why_none(run: Run) -> str:
    reasons = [record["untraced"] for record in run.records() if "untraced" in record]
    if reasons:
        return reasons[-1]
    if not parse_config(run.config).training.traces:
        return "training.traces is 0; train with training.traces=1"
    return "it was not validated yet, was copied without them, or is older than they are"


def _folders(folder: Path) -> Iterator[Path]:
    """Of the probes, in their order."""
    yield from sorted(path for path in folder.glob("probe_*") if path.is_dir())


def _by_step(folder: Path) -> dict[int, Path]:
    """The traces of a probe, in the order of their steps."""
    matches = (re.fullmatch(r"step_(\d+)\.json", path.name) for path in folder.iterdir())
    steps = sorted((int(match[1]), match[0]) for match in matches if match)
    return {step: folder / name for step, name in steps}

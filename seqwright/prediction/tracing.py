"""Connect a training with the traces of the lens."""

from __future__ import annotations

from seqwright.config import Config
from seqwright.lens.trace.contract import traced_in_training
from seqwright.lens.trace.history import TRACES, TraceHistory
from seqwright.models.building import resolve
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import Run
from seqwright.training.preparation import Prepared


def trace_observers(config: Config, run: Run, prepared: Prepared) -> list[TraceHistory]:
    """The observers of a training: its history of traces, where the task reads texts that can be traced."""
    task = prepared.task
    if not traced_in_training(task, resolve(config.model)["kind"]):
        return []
    folder, count = run.path(TRACES), config.training.traces
    return [TraceHistory(folder, lambda model: Predictor(model, prepared.task), config.search, count=count)]

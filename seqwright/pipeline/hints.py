"""The commands to run after a training, ready to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqwright.config import Config, TrainingConfig
from seqwright.data.task import Task, Usage
from seqwright.data.text_display import pluralize
from seqwright.files import uncompressed
from seqwright.lens.trace.history import TRACES
from seqwright.pipeline.design import ENDS
from seqwright.runs.folder import RUNS, Run
from seqwright.runs.report.wording import files_like, shell_word
from seqwright.training.trainer import Progress

RISEN = 1.02  # times the lowest validation loss: from there on it counts as risen


def folder_for(file: str) -> Path:
    """Return the default run folder: runs/pairs for pairs.tsv, pairs.tsv.gz or pairs.en."""
    return Path(RUNS, uncompressed(file).stem.strip(".") or "run")


def next_commands(
    folder: Path,
    example: str,
    trained: Sequence[str] = (),
    task: type[Task[Any, Any]] | None = None,
    kind: str = "",
) -> list[str]:
    """Return the usual next commands for a model of some kind; `example` is a line of input, `trained` the
    training files.
    """
    run, text = shlex.quote(str(folder)), shell_word(example)
    predict = f"  seqwright predict {run} < inputs.txt        # one line in, one line out"
    usage = Usage(traced=(kind,)) if task is None else task.usage
    if usage.file == "whole":
        predict = f"  seqwright predict {run} --output forecast.csv  # what follows the end of the data"
        text = ""
    if task is not None and usage.prompted:
        prompt, effect = task.prompt(example)
        text = shell_word(prompt)
        predict = f"  seqwright predict {run} {text}  # {effect}"
    if usage.file == "item":
        text = "photo.jpg"
        predict = f"  seqwright predict {run} {text} folder  # one line for each image"
    watch = f"  seqwright look {run} --learning -o learning.html  # how it learned"
    given = f"{run} {text}" if text else run
    look = f"  seqwright look {given} -o page.html  # what happens inside"
    return [
        "next:",
        predict,
        *([] if usage.chat is None else [f"  seqwright chat {run}  # talk to it"]),
        f"  seqwright evaluate {run} {files_like(trained)}  # scores on another file of the same form",
        *([look] if kind in usage.traced else []),
        *([watch] if (folder / TRACES).exists() else []),
        f"  python -m webbrowser {shlex.quote(str(folder / 'report.html'))}  # the report",
    ]


def resume_hint(config: Config, folder: Path, progress: Progress) -> list[str]:
    """Return the command that trains longer, unless the model overfits."""
    if _ended_early(config.training, progress):
        return [f"  {how_to_continue(config.training, progress)}"]
    found = ((record.get("step"), record.get("valid_loss")) for record in Run.open(folder).records())
    losses = {step: loss for step, loss in found if loss is not None}
    least = min(losses, key=losses.__getitem__, default=None)
    last = losses.get(progress.step, 0.0)
    if least is not None and progress.best_step < progress.step and last > RISEN * losses[least]:
        when = f"the validation loss was lowest at step {least:,} of {progress.step:,}"
        return [f"  more time is unlikely to help: {when}"]
    end = next(name for name in ENDS if getattr(config.training, name) is not None)
    out = [] if folder == folder_for(config.data.train[0]) else ["--out", str(folder)]
    more = f"{2 * getattr(config.training, end):g}"
    limit = f"{more} {end.removesuffix('s') if more == '1' else end}"
    command = shlex.join(["seqwright", "train", *config.data.train, *out, f"--{end}", more])
    return [f"  {command}  # more time may help: resumes, up to {limit}"]


def how_to_continue(training: TrainingConfig, progress: Progress) -> str:
    """Say how a finished training resumes."""
    return _ended_early(training, progress) or "a larger --minutes, --steps or --epochs resumes it"


def _ended_early(training: TrainingConfig, progress: Progress) -> str | None:
    """Say what ended a training before its end, and how it resumes."""
    if training.patience is not None and progress.worse >= training.patience:
        worse = f"{pluralize(progress.worse, 'validation')} without improvement ended the training"
        return f"{worse}; a larger training.patience resumes it"
    most = training.most_epochs
    if training.minutes is not None and most is not None and progress.cursor.epoch >= most:
        return f"{most:g} epochs ended the training; a larger training.most_epochs resumes it"
    return None

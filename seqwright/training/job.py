"""One training, from a configuration and a folder to a model: started, gone on with, or found finished."""

from __future__ import annotations

from pathlib import Path

import torch

from seqwright.config import Config
from seqwright.config import parse as parse_config
from seqwright.errors import ModelError
from seqwright.presets import build_model
from seqwright.run import Run, differences
from seqwright.training.interrupt import Interrupt
from seqwright.training.preparation import prepare
from seqwright.training.trainer import Listener, Progress, Trainer, derived_seed

# What may change between two starts of the same training: when it ends, and what does not touch the weights.
FREE = (
    "training.steps",
    "training.epochs",
    "training.minutes",
    "training.patience",
    "training.keep",
    "training.save_seconds",
)


def train(
    config: Config,
    folder: str | Path,
    *,
    listener: Listener = lambda report: None,
    interrupt: Interrupt | None = None,
) -> Progress:
    """Trains into `folder`, or goes on with what was begun there with the same configuration."""
    interrupt = interrupt or Interrupt()
    run = open_or_create(config, Path(folder))
    with run.lock(), interrupt.listening():
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        prepared = prepare(config, run.folder, interrupt.check)
        torch.manual_seed(derived_seed(config.seed))
        model = build_model(
            config.model,
            source_vocabulary=prepared.task.source.size,
            target_vocabulary=prepared.task.target.size,
        )
        return Trainer(run, config, prepared, model, listener=listener, interrupt=interrupt).train()


def open_or_create(config: Config, folder: Path) -> Run:
    """The run of this configuration. Another configuration in the same folder is an error that shows the
    difference.
    """
    wanted = config.to_dict()
    if not Run.exists(folder):
        return Run.create(folder, wanted)
    run = Run.open(folder)
    known = parse_config(run.config).to_dict()
    changed = [line for line in differences(known, wanted) if not line.startswith(FREE)]
    if changed:
        raise ModelError(
            f"{folder} was begun with another configuration ({'; '.join(changed)}); "
            "run it with the old one, or train into another folder"
        )
    if known != wanted:
        run.configure(wanted)
    return run

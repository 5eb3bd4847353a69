"""One training, from a configuration and a folder to a model: started, gone on with, or found finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from seqwright.config import Config, Spec
from seqwright.config import parse as parse_config
from seqwright.config.presets import PINNED, as_table, pinned
from seqwright.data.tokenizer import TOKENIZERS
from seqwright.errors import ConfigError, ModelError
from seqwright.evaluation.metrics import METRICS
from seqwright.models import Model
from seqwright.models.building import build_model, resolve
from seqwright.runs.folder import Run, differences
from seqwright.runtime import threads
from seqwright.training.forecast import Forecast, forecast
from seqwright.training.interrupt import Interrupt
from seqwright.training.preparation import Prepared, prepare
from seqwright.training.schedule import SCHEDULES
from seqwright.training.trainer import (
    Listener,
    Progress,
    Trainer,
    build_optimizer,
    derived_seed,
)
from seqwright.training.warm_start import warm_start
from seqwright.training.workers import allocate_workers

# What may change between two starts of the same training: when it ends, and what does not touch the weights.
FREE = (
    "training.steps",
    "training.epochs",
    "training.minutes",
    "training.patience",
    "training.keep",
    "training.traces",
    "training.save_seconds",
)


def train(
    config: Config,
    folder: str | Path,
    *,
    listener: Listener = lambda report: None,
    announce: Callable[[Forecast], None] | None = None,
    interrupt: Interrupt | None = None,
) -> Progress:
    """Trains into `folder`, or goes on with what was begun there with the same configuration.

    `announce` is told before the first step what the training will take.
    """
    interrupt = interrupt or Interrupt()
    config = pin_preset(config, Path(folder))
    check_parts(config)  # before there is a folder that would go on asking for the wrong configuration
    run = open_or_create(config, Path(folder))
    with run.lock(), interrupt.listening():
        if run.config != config.to_dict():
            run.configure(config.to_dict())
        prepared = prepare(config, run.folder, interrupt.check)
        with with_workers(config) as helpers:
            model = first_model(config, prepared)
            if run.checkpoints().steps():
                _take_threads(config, run)
            else:
                if config.start is not None:
                    warm_start(model, config.start, config.model)
                if announce is not None:
                    announce(forecast(config, prepared, model, helpers))
            trainer = Trainer(
                run, config, prepared, model, listener=listener, interrupt=interrupt, helpers=helpers
            )
            return trainer.train()


@contextmanager
def with_workers(config: Config) -> Iterator[int]:
    """The number of helpers; inside the block torch has the threads of one process among them."""
    helpers, own = allocate_workers(config.training.accumulate, config.threads or torch.get_num_threads())
    with threads(own):
        yield helpers


def _take_threads(config: Config, run: Run) -> None:
    """As many as the training was begun with, which may have been measured: other numbers round otherwise."""
    latest = run.checkpoints().load(parts=(), verify=False) if config.threads is None else None
    if latest is not None:
        torch.set_num_threads(latest.state["threads"])


def plan(config: Config) -> Forecast:
    """What a training would take; nothing of it is kept."""
    check_parts(config)
    with TemporaryDirectory(prefix="seqwright-plan-") as folder, with_workers(config) as helpers:
        prepared = prepare(config, Path(folder))
        return forecast(config, prepared, first_model(config, prepared), helpers)


def first_model(config: Config, prepared: Prepared) -> Model:
    """As it is before the first step."""
    torch.manual_seed(derived_seed(config.seed))
    return build_model(
        config.model,
        source_vocabulary=prepared.task.source.size,
        target_vocabulary=prepared.task.target.size,
    )


def open_or_create(config: Config, folder: Path) -> Run:
    """The run of this configuration. Another configuration in the same folder is an error that shows the
    difference, once there are weights.
    """
    return existing_run(config, folder) or Run.create(folder, config.to_dict())


def existing_run(config: Config, folder: Path) -> Run | None:
    """What is there of `open_or_create`."""
    if not Run.exists(folder):
        return None
    run = Run.open(folder)
    known, wanted = (pin_preset(each, folder).to_dict() for each in (parse_config(run.config), config))
    changed = [line for line in differences(known, wanted) if not line.startswith(FREE)]
    if any(line.startswith("model.preset:") for line in changed):  # whose names say enough
        changed = [line for line in changed if not line.startswith(f"model.{PINNED}.")]
    if changed and run.checkpoints().steps():
        raise ModelError(
            f"{folder} was begun with another configuration ({'; '.join(changed)}); "
            "run it with the old one, or train into another folder with --out"
        )
    return run


def pin_preset(config: Config, folder: Path) -> Config:
    """With what the model's preset says, or said when a run of it was begun in this folder."""
    known = parse_config(Run.open(folder).config).model if Run.exists(folder) else {}
    model = as_table(config.model)
    if isinstance(known, dict) and PINNED in known and known.get("preset") == model.get("preset"):
        model = {PINNED: known[PINNED], **model}
    return replace(config, model=pinned(model))


def check_parts(config: Config) -> None:
    """Builds every part that needs no data, so that all that is wrong with their options is said at once."""
    if problems := [*wrong_parts(config), *_said_by(partial(_check_model, config))]:
        raise ConfigError("; ".join(dict.fromkeys(problems)))


def wrong_parts(config: Config) -> list[str]:
    """What is wrong with the parts beside the model."""
    options = config.training
    checks: list[Callable[[], object]] = [
        lambda: SCHEDULES.build(options.schedule),
        lambda: build_optimizer(options.optimizer, torch.nn.Linear(1, 1)),
        lambda: options.metric == "loss" or METRICS.build(options.metric),
        *(partial(TOKENIZERS.build, spec) for spec in (config.tokenizer.source, config.tokenizer.target)),
    ]
    return [problem for check in checks for problem in _said_by(check)]


def wrong_model(config: Config) -> list[str]:
    """What is wrong with the model by itself, whether or not its sides can share an embedding."""
    return _said_by(partial(_on_paper, {**as_table(config.model), "share": False}))


def _said_by(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except ConfigError as error:
        return [str(error)]
    return []


def _on_paper(model: Spec) -> None:
    """Builds it with vocabularies of 8 and no memory for the weights."""
    with torch.device("meta"):
        build_model(model, source_vocabulary=8, target_vocabulary=8)


def _check_model(config: Config) -> None:
    _on_paper(config.model)
    if resolve(config.model).get("share") and not config.tokenizer.joint and config.start is None:
        raise ConfigError(
            "model.share puts both sides into one embedding, but tokenizer.joint is false and each side has "
            "symbols of its own; set tokenizer.joint = true or model.share = false"
        )

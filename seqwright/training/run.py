"""One training, from a configuration and a folder to a model: started, resumed, or already finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from seqwright.config import Config
from seqwright.config import parse as parse_config
from seqwright.config.presets import PINNED, as_table, pinned
from seqwright.config.registry import parse as parse_spec
from seqwright.config.registry import unknown
from seqwright.data.fingerprints import Fingerprints
from seqwright.data.task import task_class
from seqwright.data.tokenizer import TOKENIZERS
from seqwright.errors import ConfigError, ModelError, Problem
from seqwright.evaluation.metrics import METRICS
from seqwright.files import write_json
from seqwright.models import Model
from seqwright.models.building import build_model, reads_trees, resolve
from seqwright.runs.folder import Run, differences
from seqwright.runtime import threads
from seqwright.training.encoder_start import check_encoder_start, start_encoder
from seqwright.training.forecast import Forecast, forecast
from seqwright.training.interrupt import Interrupt
from seqwright.training.optimizer import OPTIMIZERS
from seqwright.training.preparation import Prepared, prepare
from seqwright.training.schedule import SCHEDULES
from seqwright.training.trainer import Listener, Observer, Progress, State, Trainer, derived_seed
from seqwright.training.warm_start import RECORD, Start, taken_parts, warm_start
from seqwright.training.workers import allocate_workers

# Keys of [training] that may change when it resumes: its end, and options that do not affect the weights.
FREE = ("steps", "epochs", "minutes", "most_epochs", "patience", "keep", "traces", "save_seconds")

Observers = Callable[[Config, Run, Prepared], Sequence[Observer]]


def train(
    config: Config,
    folder: str | Path,
    *,
    listener: Listener = lambda report: None,
    announce: Callable[[Forecast], None] | None = None,
    interrupt: Interrupt | None = None,
    observers: Observers = lambda config, run, prepared: (),
    surveyed: Fingerprints | None = None,
) -> Progress:
    """Train into `folder`, or resume the training of the same configuration there.

    `announce` receives the forecast before the first step; `observers` makes the observers of this run;
    `surveyed` are the fingerprints of the data files that the configuration was chosen for.
    """
    interrupt = interrupt or Interrupt()
    config = pin_preset(config, Path(folder))
    check_parts(config)  # before a folder with a wrong configuration exists
    start = None if _begun(Path(folder)) else _checked_start(config)
    run = open_or_create(config, Path(folder))
    with run.lock(), interrupt.listening(), with_workers(config) as workers:
        if run.config != config.to_dict():
            run.configure(config.to_dict())
        prepared = prepare(config, run.folder, interrupt.check, surveyed)
        model = first_model(config, prepared)
        if not run.checkpoints().steps():
            if start is not None:
                write_json(run.path(RECORD), warm_start(model, start, config))
            else:
                start_encoder(model, config.model)
            if announce is not None:
                announce(forecast(config, prepared, model, workers))
        elif config.threads is None:  # the forecast measured them; another number rounds differently
            latest = run.checkpoints().load(parts=(), verify=False)
            torch.set_num_threads(State.of(latest).threads if latest else torch.get_num_threads())
        build = partial(Trainer, run, config, prepared, model, listener=listener, interrupt=interrupt)
        return build(observers=observers(config, run, prepared), workers=workers).train()


@contextmanager
def with_workers(config: Config) -> Iterator[int]:
    """Yield the number of child processes; inside the block torch has the threads of one process."""
    workers, own = allocate_workers(config.training.accumulate, config.threads or torch.get_num_threads())
    with threads(own):
        yield workers


def plan(config: Config) -> Forecast:
    """Return the forecast of a training without starting it."""
    check_parts(config)
    _checked_start(config)
    with TemporaryDirectory(prefix="seqwright-plan-") as folder, with_workers(config) as workers:
        prepared = prepare(config, Path(folder))
        return forecast(config, prepared, first_model(config, prepared), workers)


def first_model(config: Config, prepared: Prepared) -> Model:
    """Return the model before the first step."""
    torch.manual_seed(derived_seed(config.seed))
    return build_model(config.model, **prepared.task.facts())


def _checked_start(config: Config) -> Start | None:
    """Return the run that a training starts from, if it does; refuse a run with another model or encoder."""
    if config.start is None:
        check_encoder_start(config.model)
        return None
    start = Start.open(config.start)
    taken_parts(start, config)
    return start


def _begun(folder: Path) -> bool:
    """Whether there is a training with weights in this folder."""
    return Run.exists(folder) and bool(Run.open(folder).checkpoints().steps())


def open_or_create(config: Config, folder: Path) -> Run:
    """Open the run of this configuration, or create it."""
    return existing_run(config, folder) or Run.create(folder, config.to_dict())


def existing_run(config: Config, folder: Path) -> Run | None:
    """Return the run in this folder, if there is one. With weights, it must have the same configuration."""
    if not Run.exists(folder):
        return None
    run = Run.open(folder)
    known, wanted = (pin_preset(each, folder).to_dict() for each in (parse_config(run.config), config))
    lines = {line.partition(":")[0]: line for line in differences(known, wanted)}
    changed = {key: line for key, line in lines.items() if key.removeprefix("training.") not in FREE}
    if "model.preset" in changed:  # the names of the presets are enough
        changed = {key: line for key, line in changed.items() if not key.startswith(f"model.{PINNED}.")}
    if changed and run.checkpoints().steps():
        raise ModelError(
            f"{folder} was started with another configuration ({'; '.join(changed.values())}); "
            "use the old one, or train in another folder with --out"
        )
    return run


def pin_preset(config: Config, folder: Path) -> Config:
    """Fill in the options of the model's preset: those recorded in this folder, or the current ones."""
    known = parse_config(Run.open(folder).config).model if Run.exists(folder) else {}
    model = as_table(config.model)
    if isinstance(known, dict) and PINNED in known and known.get("preset") == model.get("preset"):
        model = {PINNED: known[PINNED], **model}
    return replace(config, model=pinned(model))


def check_parts(config: Config) -> None:
    """Build every part that needs no data, and report all wrong options at once."""
    model = _problems(partial(_build_on_meta_device, config))
    model = model or _problems(lambda: task_class(config.task).check(config))
    model = model or _problems(partial(_check_positions, config))
    if problems := wrong_parts(config) + model:
        raise ConfigError("; ".join(dict.fromkeys(problems)))


def _check_positions(config: Config) -> None:
    if reads_trees(config.model) and not task_class(config.task).learning.takes_trees:
        rule = f"{config.task} reads no dependency trees, which the positions of the encoder need"
        raise ConfigError(f"{rule}; set model.encoder.position = shaw")


def wrong_parts(config: Config) -> list[str]:
    """Return the problems of schedule, optimizer, metric and tokenizers."""
    options = config.training
    checks: list[Callable[[], object]] = [
        lambda: SCHEDULES.build(options.schedule),
        lambda: OPTIMIZERS.build(options.optimizer, torch.nn.Linear(1, 1)),
        lambda: options.metric == "loss" or METRICS.build(options.metric),
        *(partial(TOKENIZERS.build, spec) for spec in (config.tokenizer.source, config.tokenizer.target)),
    ]
    return [problem for check in checks for problem in _problems(check)]


def wrong_model(config: Config) -> list[str]:
    """Return the problems of the model itself, whether or not its sides can share an embedding."""
    return _problems(partial(_build_on_meta_device, config, unshared=True))


def _problems(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except ConfigError as error:
        return [str(error)]
    return []


def _build_on_meta_device(config: Config, *, unshared: bool = False) -> None:
    """Build the model with tiny vocabularies and without memory for its weights."""
    model, task = as_table(config.model), task_class(config.task)
    kind = model.get("kind") or resolve(model)["kind"]
    if isinstance(kind, str) and ":" not in kind and kind not in task.models:
        raise ConfigError(Problem("model.kind", kind, f"{config.task} takes {' or '.join(task.models)}"))
    if unshared and "share" in resolve(model):
        model["share"] = False
    with torch.device("meta"):
        built = build_model(model, **task.sample_facts)
    _, optimizer = parse_spec("optimizer", config.training.optimizer)
    parts = list(dict.fromkeys(name.partition(".")[0] for name, _ in built.named_parameters()))
    if wrong := [part for part in optimizer.get("part_rates", {}) if part not in parts]:
        raise ConfigError(unknown("part of the model in part_rates", wrong[0], parts))

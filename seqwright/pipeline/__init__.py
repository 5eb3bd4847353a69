"""From files of pairs to a finished run folder: survey, recipe, training, test, report.

The command line and `seqwright.train` are two doors to this.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import reprlib
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqwright.config import Config, DataConfig, override, parse, read, read_toml
from seqwright.config.presets import PINNED, PRESETS
from seqwright.config.recipe import Choice, Recipe
from seqwright.config.registry import unknown
from seqwright.data.checks.findings import Finding
from seqwright.data.inputs import Source, pairs_of, paths_of
from seqwright.data.split import ENOUGH, NAMES, Part
from seqwright.data.survey import Survey, survey
from seqwright.data.text_display import amount
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.files import atomic_file, encode_json, read_json, uncompressed, write_json, writing
from seqwright.lens.trace.history import TRACES, trace_observers
from seqwright.recipes.text_to_text import Choice, Recipe, choose
from seqwright.runs.folder import RUNS, WEIGHTS, Run, check_home
from seqwright.runtime import machine, threads
from seqwright.training import run as training_run
from seqwright.training.console import Console
from seqwright.training.forecast import Forecast
from seqwright.training.preparation import Corpus
from seqwright.training.trainer import Listener, Progress, Report

if TYPE_CHECKING:
    from seqwright.evaluation.evaluate import Evaluation
    from seqwright.prediction.predictor import Predictor

    Files = str | os.PathLike[str]

DATA, EVALUATION = "data.json", "evaluation.json"
ENDS = ("minutes", "steps", "epochs")
EXAMPLES = 20  # that a run keeps to verify itself with
RISEN = 1.02  # times the least validation loss: from there on it counts as risen


@dataclass(frozen=True)
class Design:
    """A training before it begins, or goes on: the configuration, what is known of its data, and the choices
    that made the one from the other.
    """

    config: Config
    survey: Survey
    choices: tuple[Choice, ...]
    changes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What was found and what was chosen, with reasons."""
        chosen = [f"  {choice.what}: {choice.reason}" for choice in self.choices]
        changed = [f"  as asked: {' '.join(self.changes)}"] if self.changes else []
        return [*self.survey.lines(), f"  {self._split()}", *chosen, *changed]

    def to_json(self, left_out: Iterable[Finding] = ()) -> dict[str, Any]:
        """`left_out` are the findings of the preparation."""
        found = self.survey.to_json()
        return {
            **found,
            "findings": [*(finding.to_json() for finding in left_out), *found["findings"]],
            "split": self.survey.split(self._corpus()),
            "machine": machine(),
            "choices": [{"what": choice.what, "reason": choice.reason} for choice in self.choices],
        }

    def check_parts(self) -> None:
        """Refuses what cannot be trained or validated, before there is a folder for it."""
        found, share = self.survey, self.config.data.held_out
        for part, count in found.split(self._corpus()).items():
            if not count and part != "test":  # without a test, the final score is that of the validation
                raise InputError(
                    f"{found.name} has {amount(found.report.sources, 'different source')}, and with "
                    f"data.held_out = {share:g} none of them is for {NAMES[part]}; give at least {ENOUGH}, "
                    "or pairs of their own with --valid and --test"
                )

    def _corpus(self) -> Corpus:
        return Corpus(self.config.data)

    def _split(self) -> str:
        counts, data = self.survey.split(self._corpus()), self.config.data
        uses: tuple[tuple[Part, str, tuple[str, ...]], ...] = (
            ("valid", "to choose the best model by", data.valid),
            ("test", "for the final score", data.test),
        )
        shares = [f"{amount(counts['train'], 'pair')} to train on"]
        for part, use, own in uses:
            if counts[part]:
                shares.append(f"{counts[part]:,} {use}" + (" (own file)" if own else ""))
        kept = "" if data.valid else "; equal sources stay together, so nothing leaks"
        return f"split: {', '.join(shares)}{kept}"


def train(
    pairs: Files | Sequence[Files] | Iterable[tuple[str, str]],
    *,
    out: Files | None = None,
    valid: Files | Sequence[Files] = (),
    test: Files | Sequence[Files] = (),
    columns: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    quiet: bool = False,
    **tables: Any,
) -> Predictor:
    """A model for a file of pairs, for files of both sides, or for pairs; trained, or gone on with, in the
    folder `out`.

    `tables` are those of a configuration, as in model={"preset": "small"} or seed=2; what they leave open is
    chosen from the data.
    """
    from seqwright.prediction.predictor import load

    _check_named(tables)
    held_out = {"valid": _files(valid, "valid"), "test": _files(test, "test")}
    files = paths_of(pairs)
    if not files:
        files = [_written(pairs, out)]  # type: ignore[arg-type]
    given = {"train": files, **held_out, "columns": columns}
    asked = {"data": {name: value for name, value in given.items() if value}}
    ends = {name: end for name, end in zip(ENDS, (minutes, steps, epochs), strict=True) if end is not None}
    folder = Path(out) if out is not None else folder_for(files[0])
    designed = design(merged({**asked, "training": ends}, tables), folder=folder)
    console = Console(None if quiet else sys.stderr)
    console.lines(designed.lines())
    run_design(designed, folder, console)
    return load(folder)


def _check_named(tables: Mapping[str, Any]) -> None:
    """Arguments that `train` does not have, nor a configuration."""
    own = [name for name in inspect.signature(train).parameters if name not in ("pairs", "tables")]
    known = [*own, *(each.name for each in fields(Config))]
    if wrong := [unknown("argument", name, known) for name in tables if name not in known]:
        raise ConfigError("; ".join(wrong))


def folder_for(file: str) -> Path:
    """Where a training goes that was not told where: runs/pairs for pairs.tsv, pairs.tsv.gz or pairs.en."""
    return Path(RUNS, uncompressed(file).stem.strip(".") or "run")


def design(
    table: Mapping[str, Any],
    changes: Iterable[str] = (),
    *,
    folder: Path | None = None,
    by_recipe: bool = True,
) -> Design:
    """A training for what `table` says: files, and whatever else is decided already. `changes` (`key=value`)
    are over everything; with `by_recipe` what is left open is chosen from the data, otherwise it has its
    defaults. Where a training was begun in `folder`, what is left open is as it was begun.
    """
    changes = tuple(changes)
    asked = _with_tables(override(table, changes))
    config = _checked(asked)
    if folder is not None:
        check_home(folder)
        _check_untrained(folder)
    if not config.data.train:
        raise ConfigError("no file of pairs was named; give a TSV, two parallel files, or a configuration")
    begun = _begun(folder) if by_recipe and folder is not None else None
    if begun is not None:
        asked = _named_as_begun(asked, config.data, begun.table["data"])
        if begun.table["data"]["train"] == asked["data"]["train"]:
            config = parse(merged(begun.table, asked))  # other files are refused later, not read like these
    found = survey(config.data)
    if not by_recipe:
        recipe = Recipe((Choice("model and training", {}, "as the configuration says"),))
    else:
        recipe = _chosen(config, found, asked) if begun is None else Recipe((begun,))
    config = parse(merged(recipe.table(), _with_columns(asked, found)))
    return Design(config, found, recipe.choices, changes)


def from_file(path: str) -> dict[str, Any]:
    """The tables of a TOML configuration."""
    try:
        return read_toml(Path(path).read_text(encoding="utf-8-sig"), path)  # some editors begin with a mark
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (at byte {error.start}); convert it") from error


def run_design(
    design: Design, folder: Path, console: Console, listeners: Sequence[Listener] = ()
) -> Evaluation | None:
    """Trains as designed, or goes on with it, and finishes the folder. The evaluation, if it was made now."""
    design.check_parts()

    def announce(forecast: Forecast) -> None:
        write_json(folder / DATA, design.to_json(forecast.left_out))
        console.announce(forecast)

    def listen(report: Report) -> None:
        console(report)
        for listener in listeners:
            listener(report)

    progress = training_run.train(
        design.config, folder, listener=listen, announce=announce, observers=trace_observers
    )
    console.end(progress, folder)
    evaluation = finish(design, folder)
    if evaluation is None:
        console.line(f"it was finished before; {_further(design.config.training.patience, progress)}")
    else:
        example = evaluation.items[len(evaluation.items) // 2].output.source
        console.lines([str(evaluation), *next_commands(folder, example, design.config.data.train)])
        console.lines(resume_hint(design.config, folder, progress))
    return evaluation


def resume_hint(config: Config, folder: Path, progress: Progress) -> list[str]:
    """The command that goes on with a training, unless it has begun to learn its pairs by heart."""
    if _out_of_patience(config.training.patience, progress):
        return [f"  {_further(config.training.patience, progress)}"]
    found = ((record.get("step"), record.get("valid_loss")) for record in Run.open(folder).records())
    losses = {step: loss for step, loss in found if loss is not None}
    least = min(losses, key=losses.__getitem__, default=None)
    last = losses.get(progress.step, 0.0)
    if least is not None and progress.best_step < progress.step and last > RISEN * losses[least]:
        when = f"the loss on pairs for validation was least at step {least:,} of {progress.step:,}"
        return [f"  no sign that more time would help: {when}"]
    end = next(name for name in ENDS if getattr(config.training, name) is not None)
    out = [] if folder == folder_for(config.data.train[0]) else ["--out", str(folder)]
    more = f"{2 * getattr(config.training, end):g}"
    command = shlex.join(["seqwright", "train", *config.data.train, *out, f"--{end}", more])
    return [f"  {command}  # more time may help: goes on, to {more} {end} in all"]


def _further(patience: int | None, progress: Progress) -> str:
    """How a training goes on that has ended."""
    if _out_of_patience(patience, progress):
        worse = f"{amount(progress.worse, 'validation')} without a better one ended it"
        return f"{worse}, and a larger training.patience goes on with it"
    return "a longer --minutes, --steps or --epochs goes on with it"


def _out_of_patience(patience: int | None, progress: Progress) -> bool:
    return patience is not None and progress.worse >= patience


def finish(design: Design, folder: Path) -> Evaluation | None:
    """After the last step: the score on pairs that training has not seen, examples to verify the folder by,
    the report and the card. None if that was done for these weights before.
    """
    from seqwright.evaluation.evaluate import evaluate
    from seqwright.prediction.examples import write_examples
    from seqwright.prediction.predictor import load
    from seqwright.runs.card import write_card
    from seqwright.runs.report import write_report

    if not (folder / DATA).exists():
        write_json(folder / DATA, design.to_json())
    step = Run.open(folder).weights_metadata().get("step")
    known = read_json(folder / EVALUATION) if (folder / EVALUATION).exists() else {}
    if known.get("step") == step:
        return None
    predictor, corpus = load(folder), Corpus(design.config.data)
    part: Part = "test" if design.survey.split(corpus)["test"] else "valid"
    pairs = [(pair.source, pair.target) for pair in corpus.pairs(part)]
    with threads(design.config.threads):
        evaluation = evaluate(predictor, pairs, file=corpus.name(part))
        write_examples(folder, predictor, evenly(source for source, _ in pairs))
    document = {**evaluation.to_json(), "part": part}
    write_json(folder / EVALUATION, document)
    write_report(folder)
    write_card(folder)
    write_json(folder / EVALUATION, {**document, "step": step})  # last: now there is nothing left to do
    return evaluation


def evenly(sources: Iterable[str]) -> list[str]:
    """A few different ones from all over, to verify a run by."""
    every = list(dict.fromkeys(sources))
    return every[:: max(len(every) // EXAMPLES, 1)][:EXAMPLES]


def next_commands(folder: Path, example: str, trained: Sequence[str] = ()) -> list[str]:
    """What one would do now, ready to be copied; `example` is a line of input, and other files of pairs would
    be like those `trained` on.
    """
    from seqwright.runs.report.wording import files_like, shell_word

    run, text = shlex.quote(str(folder)), shell_word(example)
    watch = f"  seqwright look {run} --learning -o learning.html  # how it learned to"
    return [
        "next:",
        f"  seqwright predict {run} < inputs.txt        # one line in, one line out",
        f"  seqwright evaluate {run} {files_like(trained)}       # scores on other pairs, in the same form",
        f"  seqwright look {run} {text} -o page.html  # where it looks",
        *([watch] if (folder / TRACES).exists() else []),
        f"  python -m webbrowser {shlex.quote(str(folder / 'report.html'))}  # the report",
    ]


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one; where both have a value, that of `above`. One end of a training replaces
    another, and one preset all that the other said.
    """
    result = dict(below)
    if any(end in above for end in ENDS):
        result = {key: value for key, value in result.items() if key not in ENDS}
    if above.get("preset", result.get("preset")) != result.get("preset"):
        result.pop(PINNED, None)
    for key, value in above.items():
        inner = result.get(key)
        result[key] = (
            merged(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else value
        )
    return result


def _files(given: Any, part: Part) -> list[str]:
    """The files of a part, none if none are given; what is held out is not read from memory."""
    files = paths_of(given)
    if not files and not (given is None or (isinstance(given, Sequence) and not given)):
        raise InputError(
            f"{part} is {reprlib.repr(given)}; name files that hold its pairs, or leave it out, and a share "
            "of the others is taken"
        )
    return files


def _written(pairs: Iterable[tuple[str, str]], out: Files | None) -> str:
    """Pairs from memory as a file beside the run folder, for a training reads its files again when it goes
    on. A file of that name that holds something else stays, and this one has its hash in its name.
    """
    lines = b"".join(encode_json(_object(*pair)) for pair in pairs_of(pairs))
    if not lines:
        raise InputError("no pairs were given to train on")
    name = hashlib.sha256(lines).hexdigest()[:12]
    folder = Path(out) if out is not None else Path(RUNS, f"pairs-{name}")
    path = Path(f"{folder}.jsonl")
    if path.is_file() and path.read_bytes() != lines:
        path = Path(f"{folder}-{name}.jsonl")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != lines:
        with atomic_file(path) as file:
            file.write(lines)
    return str(path)


def _object(source: Source, target: str) -> dict[str, str]:
    if not isinstance(source, str):
        raise InputError(f"{source!r} is no text; pairs with several fields are read from a file, by columns")
    return {"source": source, "target": target}


def _with_tables(table: dict[str, Any]) -> dict[str, Any]:
    """A model that is only named is a preset, to which the recipe may add."""
    model = table.get("model")
    return {**table, "model": {"preset": model}} if isinstance(model, str) else table


def _checked(asked: Mapping[str, Any]) -> Config:
    """What is asked for; all that is wrong with it is said at once, before anything is read."""
    config, problems = read(_with_end(asked), _model_keys)
    model = asked.get("model")
    keys = _wrong_keys(model) if isinstance(model, Mapping) else []
    problems += training_run.wrong_parts(config) + keys
    if problems:  # otherwise the model is checked as soon as the recipe is known
        problems += training_run.wrong_model(config) if config.start is None and not keys else []
        raise ConfigError("; ".join(dict.fromkeys(problems)))
    return config


def _wrong_keys(model: Mapping[str, Any]) -> list[str]:
    """Options that no model has, and a preset that is not there."""
    known = ["preset", "kind", *(key.removeprefix("model.") for key in _model_keys())]
    wrong = [unknown("option of the model", key, known) for key in model if key not in known]
    named = model.get("preset")
    return wrong if named is None or named in PRESETS else [unknown("preset", named, list(PRESETS)), *wrong]


def _model_keys() -> list[str]:
    """What the table of a model may say."""
    from seqwright.models import MODELS
    from seqwright.models.building.scaling import options_of

    kinds = (MODELS.options(kind) for kind in MODELS.names())
    return [f"model.{key}" for key in sorted(set().union(*kinds, *map(options_of, PRESETS)))]


def _check_untrained(folder: Path) -> None:
    """Refuses to begin anew over a model, where the state of its training is gone."""
    if Run.exists(folder) and (folder / WEIGHTS).exists() and not Run.open(folder).checkpoints().steps():
        raise ModelError(
            f"{folder} holds a model without checkpoints to go on from, and a new training would take its "
            "place; train into another folder, or remove this one"
        )


def _named_as_begun(asked: dict[str, Any], data: DataConfig, known: Mapping[str, Any]) -> dict[str, Any]:
    """Files that a training has keep the names they were given first, however they are spelt now."""
    parts = [part for part in NAMES if _places(getattr(data, part)) == _places(known[part])]
    return merged(asked, {"data": {part: known[part] for part in parts}})


def _places(files: Iterable[str]) -> list[str]:
    return [os.path.realpath(file) for file in files]


def _begun(folder: Path) -> Choice | None:
    """What a training takes over from itself, once it has weights."""
    if not Run.exists(folder):
        return None
    run = Run.open(folder)
    steps = run.checkpoints().steps()
    if not steps:
        return None
    what = f"begun in {folder}, now at step {max(steps):,}"
    reason = (
        "its weights, tokenizers and options are kept but for what is asked now, and steps and minutes count "
        "from its beginning; another --out chooses anew"
    )
    return Choice(what, run.config, reason)


def _chosen(config: Config, found: Survey, asked: Mapping[str, Any]) -> Recipe:
    """By what was found; `config` is as far as it is known."""
    recipe = choose(found.report, found.sample, asked)
    if config.start is not None:
        recipe = recipe.over(_of_start(config.start))
    chosen = recipe.table().get("data", {}).get("held_out")
    if chosen is None or "held_out" in asked.get("data", {}):
        return recipe
    share = _least_share(found, replace(config.data, held_out=chosen))
    if share is None or share == chosen:
        return recipe
    again = "" if config.data.test else ", and as many again"
    what = f"{100 * share:.0f} % of the sources held out{again}"
    reason = "there are so few that less would leave nothing to validate or to test with"
    return recipe.over(Choice(what, {"data": {"held_out": share}}, reason))


def _least_share(found: Survey, data: DataConfig) -> float | None:
    """Of the sources to hold out: that of `data`, or the next hundredth that leaves no part without pairs."""
    hundredths = (number / 100 for number in range(int(100 * data.held_out) + 1, 50))
    for share in (data.held_out, *hundredths):
        if all(found.split(Corpus(replace(data, held_out=share))).values()):
            return share
    return None


def _of_start(start: str) -> Choice:
    """What fine-tuning takes over from the run that it begins with."""
    config = Run.open(start).config
    table = {key: config[key] for key in ("tokenizer", "model")}
    return Choice("tokenizers and model", table, f"those of {start}, which is gone on with")


def _with_end(table: Mapping[str, Any]) -> dict[str, Any]:
    """As much of a training as is needed to check the rest."""
    training = table.get("training", {})
    known = isinstance(training, Mapping) and any(training.get(end) is not None for end in ENDS)
    return dict(table) if known else merged({"training": {"minutes": 1.0}}, table)


def _with_columns(table: Mapping[str, Any], found: Survey) -> dict[str, Any]:
    """Several columns of a source are written down with their roles: predictions have to be given them."""
    columns = found.columns if found.columns and "," in found.columns else None
    return merged(table, {"data": {"columns": columns}}) if columns else dict(table)

"""Fine-tuning on corrections: what is read and replayed, how long, and the scores before and after."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqwright.config.recipe import ENDS, Choice, Recipe, merged
from seqwright.config.registry import parse as parse_spec
from seqwright.data.corrections import CORRECTIONS, SHARE, Corrections, correctable_tasks
from seqwright.data.fingerprints import check_run_data
from seqwright.data.split import NAMES
from seqwright.data.task import task_class
from seqwright.errors import ConfigError, InputError, Problem
from seqwright.files import atomic_file, writing
from seqwright.prediction.predictor import Predictor, load
from seqwright.runs.folder import Run

if TYPE_CHECKING:
    from seqwright.evaluation.evaluate import Evaluation

SEEN = 60  # times that a correction is trained on, unless the length of the training is given
RATE = 0.5  # of the rate of the recipe: the model is trained already


def with_corrections(
    requested: dict[str, Any], folder: Path | None
) -> tuple[dict[str, Any], tuple[Choice, ...]]:
    """Name the files of corrections in a request and, unless it names data, the data of the run it starts
    from. A training that has begun in `folder` keeps its corrections.
    """
    data = requested.get("data", {})
    given = data.get("corrections") if isinstance(data, Mapping) else None
    paths = [given] if isinstance(given, str) else given
    if not paths or not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        return requested, ()
    start = requested.get("start")
    if not isinstance(start, str):
        raise ConfigError("data.corrections fine-tunes a trained model; name its run folder, as in start=RUN")
    if (begun := _begun(folder)) is not None:
        known = {} if data.get("train") else {part: begun["data"][part] for part in NAMES}
        kept = begun["data"]["corrections"]
        return merged(requested, {"data": {**known, "corrections": kept}}), _note_later(paths, kept)
    run = Run.open(start)
    task = requested.get("task", run.config["task"])
    _check_task(task, start, run)
    files = [*map(_file, paths)]
    if not data.get("train"):
        known = run.config["data"]
        earlier = [path for path in known.get("corrections", ()) if path not in files]
        check_run_data(Path(start), [*(path for part in NAMES for path in known[part]), *earlier])
        set_now = {name: value for name, value in data.items() if name not in NAMES or value}
        data, files = merged(known, set_now), [*earlier, *files]
    return {**requested, "task": task, "data": {**data, "corrections": files}}, ()


def _begun(folder: Path | None) -> dict[str, Any] | None:
    """Return the configuration of a training on corrections that has weights in this folder."""
    if folder is None or not Run.exists(folder):
        return None
    run = Run.open(folder)
    return run.config if run.checkpoints().steps() and run.config["data"].get("corrections") else None


def _check_task(task: str, start: str, run: Run) -> None:
    if task != run.config["task"]:
        rule = f"corrections are of the outputs of {start}, a run of {run.config['task']}; leave it out"
        raise ConfigError(Problem("task", task, rule))
    if not task_class(task).learning.correctable:
        takers = ", ".join(correctable_tasks())
        raise ConfigError(
            f"{start} is a run of {task}, which cannot be trained on corrections ({takers} can); leave out "
            "data.corrections"
        )


def _file(path: str) -> str:
    """Return the file of corrections that a path names: a run folder, or the file itself."""
    place = Path(path)
    if not place.exists():
        raise InputError(f"{path} does not exist; name a run folder, or a file of corrections")
    if not place.is_dir():
        return path
    if not (place / CORRECTIONS).exists():
        serve = shlex.join(["seqwright", "serve", path])
        raise InputError(f"{path} has no corrections; run {serve} and correct outputs first")
    return str(place / CORRECTIONS)


def _note_later(paths: Sequence[str], kept: Sequence[str]) -> tuple[Choice, ...]:
    """Return a note if files of corrections have others than those that a training keeps."""
    known = b"".join(Path(path).read_bytes() for path in kept if Path(path).exists())
    files = (Path(path, CORRECTIONS) if Path(path).is_dir() else Path(path) for path in paths)
    if all(not file.exists() or file.read_bytes().strip() in known for file in files):
        return ()
    what = f"corrections of its beginning ({', '.join(kept)})"
    return (Choice(what, {}, "it resumes; for later corrections, train in another folder with --out"),)


def keep_corrections(files: Sequence[str], folder: Path) -> str:
    """Copy files of corrections into one file next to the run folder, and return its path.

    A training reads its files again when it resumes, and the server may add corrections meanwhile.
    """
    path = Path(f"{folder}.{CORRECTIONS}")
    if list(files) == [str(path)]:
        return str(path)
    contents = [Path(file).read_bytes() for file in files]
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, follow=True) as kept:
        for content in contents:
            kept.write(content if content.endswith(b"\n") or not content else content + b"\n")
    return str(path)


def corrected(recipe: Recipe, corrections: Corrections, own: int, requested: Mapping[str, Any]) -> Recipe:
    """Return the recipe for a training on corrections with so many own training examples."""
    repeats = corrections.repeats("train", own)
    what = f"corrections are {100 * SHARE:.0f} % of the examples"
    times = f"each comes {repeats:,} times per epoch" if repeats > 1 else "each comes once per epoch"
    choices = [Choice(what, {}, f"{times}; the rest replays the old data, against forgetting")]
    training = requested.get("training", {})
    _, optimizer = parse_spec("optimizer", recipe.table().get("training", {}).get("optimizer", "adamw"))
    wanted = training.get("optimizer", {})
    if "rate" in optimizer and not (isinstance(wanted, Mapping) and "rate" in wanted):
        rate = RATE * optimizer["rate"]
        slower = {"training": {"optimizer": {"rate": rate}}}
        reason = "the model is trained already"
        choices.append(Choice(f"rate {rate:g}, {RATE:g} times the usual one", slower, reason))
    kept = recipe.choices
    if not any(training.get(end) is not None for end in ENDS):
        epochs = round(SEEN / repeats, 4) or SEEN / repeats
        reason = f"each correction is seen about {SEEN} times"
        choices.append(Choice(f"{epochs:g} epochs", {"training": {"epochs": epochs}}, reason))
        kept = tuple(own for own in kept if own.table.get("training", {}).keys().isdisjoint(ENDS))
    return Recipe((*kept, *choices))


def before_and_after(
    start: str, after: Predictor, tested: Evaluation, examples: Sequence[Any], held_out: Sequence[Any]
) -> dict[str, Any]:
    """Return the scores of the run that a training started from and of the new model, by the first metric.

    tested: the evaluation of the new model on `examples`, which are those of the old data.
    """
    from seqwright.evaluation.evaluate import Judging, evaluate

    name, before = next(iter(tested.metrics)), load(start, threads=after.threads)

    def scored(predictor: Predictor, given: Sequence[Any]) -> Evaluation:
        return evaluate(predictor, given, judging=Judging(metrics=(name,), samples=1))

    pairs = {"old": (scored(before, examples), tested)}
    if held_out:
        pairs["corrections"] = scored(before, held_out), scored(after, held_out)
    scores = {
        key: {"items": len(new.items), "before": old.metrics[name], "after": new.metrics[name]}
        for key, (old, new) in pairs.items()
    }
    return {"start": start, "metric": name, "label": tested.label(name), **scores}


def comparison_lines(found: Mapping[str, Any], part: str) -> list[str]:
    """Return the table of `before_and_after` for a terminal."""
    names = {"old": f"{NAMES[part]} split of the old data", "corrections": "held-out corrections"}
    rows = [("", "items", "before", "after")]
    for key, name in names.items():
        if (row := found.get(key)) is not None:
            rows.append((name, f"{row['items']:,}", f"{row['before']:.2f}", f"{row['after']:.2f}"))
    width = max(len(name) for name, *_ in rows)
    lines = [f"corrections, before ({found['start']}) and after: {found['label']}"]
    lines += [
        f"  {name:<{width}}  {items:>7}  {before:>7}  {after:>7}" for name, items, before, after in rows
    ]
    if "corrections" not in found:
        lines.append("  no correction is held out: that takes at least 2 corrected inputs")
    return lines

"""From data files to a finished run folder: design, training, test, report.

`seqwright.train` and the train command both come through here.
"""

from __future__ import annotations

import hashlib
import inspect
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqwright.config import Config
from seqwright.config.parsing import SHORT
from seqwright.config.registry import unknown_each
from seqwright.data.corpus import Corpus
from seqwright.data.fingerprints import refuse_changed
from seqwright.data.split import Part
from seqwright.errors import ConfigError, InputError, SeqwrightError
from seqwright.files import atomic_file, encode_json, read_json, strict, write_json, writing
from seqwright.models.building import resolve
from seqwright.pipeline.correcting import before_and_after, comparison_lines
from seqwright.pipeline.design import ENDS, Design, design, from_file, held_out_files, merged
from seqwright.pipeline.hints import folder_for, how_to_continue, next_commands, resume_hint
from seqwright.prediction.predictor import Predictor, load, paths_of
from seqwright.prediction.tracing import trace_observers
from seqwright.runs.folder import RUNS, Run, check_home
from seqwright.training import run as training_run
from seqwright.training.console import Console
from seqwright.training.forecast import Forecast
from seqwright.training.trainer import Listener, Report

if TYPE_CHECKING:
    import os

    from seqwright.evaluation.evaluate import Evaluation

    Files = str | os.PathLike[str]

__all__ = ["Design", "design", "finish", "folder_for", "from_file", "merged", "run_design", "train"]

DATA, EVALUATION = "data.json", "evaluation.json"
EXAMPLES = 20  # that a run keeps to verify itself


def train(
    data: Files | Sequence[Files] | Iterable[tuple[str, str]],
    /,
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
    """Train a model on files, or on a list of pairs, in the folder `out`; an existing training resumes.

    `tables` are those of a configuration, as in model={"preset": "small"}, task="text_to_text" or seed=2;
    what they leave open is chosen from the data.
    """
    _check_arguments(tables)
    valid, test = held_out_files(valid, "valid"), held_out_files(test, "test")
    files, fresh = paths_of(data), False
    if not files:
        path, fresh = _written(data, out)
        files = [str(path)]
    given = {"train": files, "valid": valid, "test": test, "columns": columns}
    requested = {"data": {name: value for name, value in given.items() if value}}
    ends = {name: end for name, end in zip(ENDS, (minutes, steps, epochs), strict=True) if end is not None}
    folder = Path(out) if out is not None else folder_for(files[0])
    try:
        designed = design(merged({**requested, "training": ends}, tables), folder=folder)
        designed.check_parts()
    except SeqwrightError:
        if fresh:  # nothing has begun that would read the file again
            path.unlink()
            with suppress(OSError):
                path.parent.rmdir()
        raise
    console = Console(None if quiet else sys.stderr)
    console.lines(designed.lines())
    run_design(designed, folder, console)
    return load(folder)


def _check_arguments(tables: Mapping[str, Any]) -> None:
    """Refuse arguments that neither `train` nor a configuration has."""
    own = [name for name in inspect.signature(train).parameters if name not in ("data", "tables")]
    known = [*own, *SHORT, *(each.name for each in fields(Config))]
    if wrong := unknown_each("argument", [name for name in tables if name not in known], known):
        raise ConfigError("; ".join(wrong))


def _written(pairs: Any, out: Files | None) -> tuple[Path, bool]:
    """Write pairs from memory next to the run folder, because a training reads its files again when it
    resumes. A file of that name with other content stays; the new one has its hash in its name. Return the
    path, and whether the file is new.
    """
    from seqwright.tasks.text_to_text import pairs_of

    rows = []
    for source, target in pairs_of(pairs):
        if not isinstance(source, str):
            raise InputError(f"{source!r} is not a text; pairs with several fields are read from a file")
        rows.append(encode_json({"source": source, "target": target}))
    if not rows:
        raise InputError("no pairs were given to train on")
    content = b"".join(rows)
    name = hashlib.sha256(content).hexdigest()[:12]
    folder = Path(out) if out is not None else Path(RUNS, f"pairs-{name}")
    check_home(folder)
    path = Path(f"{folder}.jsonl")
    if path.is_file() and path.read_bytes() != content:
        path = Path(f"{folder}-{name}.jsonl")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists() or path.read_bytes() != content
    if fresh:
        with atomic_file(path, follow=True) as file:
            file.write(content)
    return path, fresh


def run_design(
    design: Design, folder: Path, console: Console, listeners: Sequence[Listener] = ()
) -> Evaluation | None:
    """Train as designed, or resume, and finish the folder. Return the evaluation if it was made now."""
    design.check_parts()
    design = design.keeping_corrections(folder)

    def announce(forecast: Forecast) -> None:
        write_json(folder / DATA, design.to_json(forecast.left_out))
        console.announce(forecast)

    def listen(report: Report) -> None:
        console(report)
        for listener in listeners:
            listener(report)

    progress = training_run.train(
        design.config,
        folder,
        listener=listen,
        announce=announce,
        observers=trace_observers,
        surveyed=design.survey.files,
    )
    console.end(progress, folder)
    evaluation = finish(design, folder)
    if evaluation is None:
        console.line(f"already finished; {how_to_continue(design.config.training, progress)}")
    else:
        example = evaluation.items[len(evaluation.items) // 2].output.source
        task = design.survey.corpus.task
        kind = resolve(design.config.model)["kind"]
        commands = next_commands(folder, example, design.config.data.train, task, kind)
        document = read_json(folder / EVALUATION)
        scores = document.get("corrections")
        table = comparison_lines(scores, document["part"]) if scores else []
        console.lines([str(evaluation), *table, *commands])
        console.lines(resume_hint(design.config, folder, progress))
    return evaluation


def finish(design: Design, folder: Path) -> Evaluation | None:
    """After the last step: score the test split, keep examples to verify the folder by, write the report and
    the card. None if that was done for these weights before.
    """
    from seqwright.evaluation.evaluate import evaluate
    from seqwright.prediction.examples import write_examples
    from seqwright.runs.card import write_card
    from seqwright.runs.report import write_report

    if not (folder / DATA).exists():
        write_json(folder / DATA, design.to_json())
    step = Run.open(folder).weights_metadata().get("step")
    known = read_json(folder / EVALUATION) if (folder / EVALUATION).exists() else {}
    if known.get("step") == step:
        return None
    predictor, corpus = load(folder, threads=design.config.threads), Corpus.of(design.config)
    part: Part = "test" if design.survey.split(design.config.data)["test"] else "valid"
    examples = list(corpus.originals(part))
    command = shlex.join(["seqwright", "evaluate", str(folder), "FILE"])
    refuse_changed(
        design.survey.files,
        "during the training",
        f"the model is in {folder}, but its {part} split is gone: restore the file and run the same command "
        f"again, or score another file with {command}",
    )
    predictor.task = predictor.task.indexed(predictor.model, corpus.examples("train"))
    predictor.task = predictor.task.calibrated(predictor.model, list(corpus.examples("valid")))
    predictor.task.save(folder)
    evaluation = evaluate(predictor, examples, file=corpus.name(part))
    write_examples(folder, predictor, to_verify(predictor, examples))
    sheet = predictor.task.contact_sheet(evaluation.items)
    document = {**evaluation.to_json(), "part": part, **({"sheet": sheet} if sheet else {})}
    if corpus.corrections is not None and design.config.start is not None:
        held_out = corpus.corrections.parts["test"]
        scores = before_and_after(design.config.start, predictor, evaluation, examples, held_out)
        document["corrections"] = strict(scores)
    write_json(folder / EVALUATION, document)
    write_report(folder)
    write_card(folder)
    write_json(folder / EVALUATION, {**document, "step": step})  # last: everything is done now
    return evaluation


def to_verify(predictor: Predictor, examples: Iterable[Any]) -> list[Any]:
    """Choose a few distinct inputs, spread over the examples, to verify a run by."""
    groups = {predictor.task.group(example): example for example in examples}
    return list(groups.values())[:: max(len(groups) // EXAMPLES, 1)][:EXAMPLES]

"""`seqwright compare`: compare two models on the same data, or train and compare several model families."""

from __future__ import annotations

import argparse
import os
import sys

from seqwright.commands import evaluate

TRAINING = (
    *("families", "task", "valid", "test", "field", "out"),
    *("paper_size", "seed", "minutes", "steps", "epochs"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    inputs = "Two run folders, then test files (default: their test splits); with --train: options to change."
    parser.add_argument("inputs", nargs="*", metavar="RUN RUN [FILE] | key=value", help=inputs)
    evaluate.shared_arguments(parser)
    families = parser.add_argument_group("model families, trained on the same data with the same budget")
    for part, name in (("train", "training"), ("valid", "validation"), ("test", "test")):
        families.add_argument(
            f"--{part}", action="append", default=[], metavar="F", help=f"{name.capitalize()} data."
        )
    families.add_argument("--task", metavar="NAME", help="Kind of task (default: detected from the files).")
    families.add_argument(
        "--field", metavar="NAME", help="Field of the tags in CoNLL-U: upos, xpos, deprel …"
    )
    families.add_argument("--families", metavar="A,B", help="Presets, such as bahdanau2015,tiny.")
    families.add_argument("--out", metavar="DIR", help="Folder of the runs (default: runs/families).")
    families.add_argument(
        "--paper-size", action="store_true", default=None, help="Use the model sizes of the papers."
    )
    families.add_argument("--seed", type=int, metavar="N", help="Seed of all random numbers.")
    end = families.add_mutually_exclusive_group()
    end.add_argument("--minutes", type=float, metavar="M", help="Training time of each family.")
    end.add_argument("--steps", type=int, metavar="N", help="Training steps of each family.")
    end.add_argument("--epochs", type=float, metavar="N", help="Passes over the data of each family.")


def run(options: argparse.Namespace) -> None:
    from seqwright.data.text_display import pluralize
    from seqwright.errors import ConfigError

    if options.train:
        _families(options)
        return
    given = [f"--{name.replace('_', '-')}" for name in TRAINING if getattr(options, name) not in (None, [])]
    if given:
        raise ConfigError(f"{' and '.join(given)} can only be used with --train; pass the training data")
    if len(options.inputs) < 2:
        count = pluralize(len(options.inputs), "run folder")
        raise ConfigError(f"{count} given; pass two, or --train with --families")
    _runs(options)


def _runs(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from seqwright.data.readers.files import Input
    from seqwright.errors import ConfigError, InputError
    from seqwright.evaluation.comparison import compare
    from seqwright.evaluation.evaluate import evaluate_files
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import Run, check_order

    first, second, *files = options.inputs
    for folder in (first, second):
        check_order(folder, *files)
        Run.open(folder)
    if os.path.realpath(first) == os.path.realpath(second):
        raise ConfigError(f"{first} and {second} are the same run; pass two different runs")
    for pipe in (file for file in map(Input, files) if file.single_pass):
        raise InputError(f"{pipe.name} is a pipe, which cannot be read twice; save it to a file first")
    how, judged, evaluations = evaluate.reading_options(options), evaluate.metric_options(options), []
    predictors = [load(folder, threads=options.threads) for folder in (first, second)]
    tasks = [predictor.task for predictor in predictors]
    if type(tasks[0]) is type(tasks[1]):
        for predictor, other in zip(predictors, reversed(tasks), strict=True):
            predictor.task = predictor.task.beside(other)
    for folder, predictor in zip((first, second), predictors, strict=True):
        try:
            evaluations.append(evaluate_files(predictor, files, **how, judging=judged))
        except InputError as error:
            columns = Run.open(folder).config["data"]["columns"]
            trained = f", trained on columns {columns}" if columns else ""
            raise InputError(f"{folder}{trained}: {error}") from error
        judged = replace(judged, writing=evaluations[0].writing)
    evaluate.print_result(compare(evaluations[0], evaluations[1], (first, second)), options)


def _families(options: argparse.Namespace) -> None:
    from seqwright.errors import ConfigError

    if not options.families:
        raise ConfigError("--train needs --families; pass presets, as in --families bahdanau2015,tiny")
    if options.metrics or options.lowercase or options.bleu_tokenize != "13a":
        flags = "--metrics, --bleu-tokenize and --lowercase"
        raise ConfigError(f"--train chooses the metrics; use {flags} with evaluate or compare after training")
    evaluate.reading_options(options)
    from pathlib import Path

    from seqwright.commands.train import with_flags
    from seqwright.pipeline import design
    from seqwright.pipeline.families import check_names, families, train_families
    from seqwright.training.console import Console

    names = [name.strip() for name in options.families.split(",")]
    check_names(names, options.inputs)  # before the data is read
    console, folder = Console(sys.stderr), Path(options.out or os.path.join("runs", "families"))
    data = {"train": options.train} | ({"encoding": options.encoding} if options.encoding else {})
    search = {} if options.beam is None else {"beam": options.beam}
    base = design(with_flags({"data": data, "search": search}, options), options.inputs)
    console.lines(base.lines())
    ready = families(names, base, folder, paper_size=bool(options.paper_size))
    found = train_families(ready, folder, name=base.survey.name, log=console.line, listener=console)
    evaluate.print_result(found, options)

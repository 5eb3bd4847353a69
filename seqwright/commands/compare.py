"""`seqwright compare`: two models on the same pairs, or families of models trained on them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from seqwright.commands.evaluate import metric_arguments, metric_options, reading_arguments, reading_options

if TYPE_CHECKING:
    from seqwright.evaluation.evaluate import Evaluation

TRAINING = ("families", "valid", "test", "out", "paper_size", "seed", "minutes", "steps", "epochs")
UNSAID: tuple[Any, ...] = (None, [])  # 0 is said


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="RUN RUN [FILE] | key=value",
        help="two run folders, then files of pairs; without files: what both trainings put aside for a test; "
        "with --train, options to change for all families",
    )
    reading_arguments(parser)
    metric_arguments(parser)
    families = parser.add_argument_group("families of models, trained here on the same pairs and budget")
    families.add_argument("--train", action="append", default=[], metavar="F", help="pairs to train on")
    families.add_argument("--valid", action="append", default=[], metavar="F", help="pairs for validation")
    families.add_argument("--test", action="append", default=[], metavar="F", help="pairs for the table")
    families.add_argument("--families", metavar="A,B", help="presets: bahdanau2015,luong2015-general,tiny")
    families.add_argument("--out", metavar="DIR", help="a folder for the runs (default: runs/families)")
    families.add_argument(
        "--paper-size", action="store_true", default=None, help="keep the sizes of the papers"
    )
    families.add_argument("--seed", type=int, metavar="N")
    end = families.add_mutually_exclusive_group()
    end.add_argument("--minutes", type=float, metavar="M", help="how long to train each")
    end.add_argument("--steps", type=int, metavar="N")
    end.add_argument("--epochs", type=float, metavar="N")


def run(options: argparse.Namespace) -> int:
    from seqwright.errors import ConfigError

    if options.train:
        return _families(options)
    if given := [f"--{name.replace('_', '-')}" for name in TRAINING if getattr(options, name) not in UNSAID]:
        raise ConfigError(
            f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for families that are trained, and "
            "--train is not there; name the pairs to train on"
        )
    if len(options.inputs) < 2:
        raise ConfigError(
            f"{len(options.inputs)} of two runs {'was' if options.inputs else 'were'} named; give two run "
            "folders, and a file of pairs if there is one, or --train with --families"
        )
    _runs(options)
    return 0


def _runs(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from seqwright.data.readers.files import Input
    from seqwright.errors import ConfigError, InputError
    from seqwright.evaluation.comparison import compare
    from seqwright.runs.folder import Run, check_order

    first, second, *files = options.inputs
    for folder in (first, second):
        check_order(folder, *files)
        Run.open(folder)
    if os.path.realpath(first) == os.path.realpath(second):
        raise ConfigError(f"{first} and {second} are the same run; name two different ones")
    for pipe in (file for file in map(Input, files) if file.once):
        raise InputError(f"{pipe.name} is a pipe, and each of the two runs reads it; save it to a file first")
    how, judged = reading_options(options), metric_options(options)
    one = _evaluated(first, files, **how, judging=judged)
    other = _evaluated(second, files, **how, judging=replace(judged, writing=one.writing))
    _print(compare(one, other, (first, second)), options)


def _evaluated(folder: str, files: list[str], **how: Any) -> Evaluation:
    """What one of two runs cannot read names the run."""
    from seqwright.errors import InputError
    from seqwright.evaluation.evaluate import evaluate_files
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import Run

    try:
        return evaluate_files(load(folder), files, **how)
    except InputError as error:
        columns = Run.open(folder).config["data"]["columns"]
        trained = f", trained on columns {columns}" if columns else ""
        raise InputError(f"{folder}{trained}: {error}") from error


def _families(options: argparse.Namespace) -> int:
    _check(options)
    reading_options(options)
    from pathlib import Path

    from seqwright.commands.train import with_flags
    from seqwright.pipeline import design
    from seqwright.pipeline.families import check_names, families, train_families
    from seqwright.training.console import Console
    from seqwright.training.interrupt import Interrupted

    names = [name.strip() for name in options.families.split(",")]
    check_names(names, options.inputs)  # before the pairs are read
    console, folder = Console(sys.stderr), Path(options.out or os.path.join("runs", "families"))
    data = {"train": options.train} | ({"encoding": options.encoding} if options.encoding else {})
    search = {} if options.beam is None else {"beam": options.beam}
    base = design(with_flags({"data": data, "search": search}, options), options.inputs)
    console.lines(base.lines())
    try:
        ready = families(names, base, folder, paper_size=bool(options.paper_size))
        _print(
            train_families(ready, folder, name=base.survey.name, say=console.line, listener=console), options
        )
    except Interrupted as left:
        console.line(f"stopped by {left}; the same command goes on from here")
        return left.exit_code
    return 0


def _check(options: argparse.Namespace) -> None:
    """Families are tested as every training is; what would change that is said instead of passed over."""
    from seqwright.errors import ConfigError

    if not options.families:
        raise ConfigError("--train needs --families; name presets, as in --families bahdanau2015,tiny")
    if options.metrics or options.lowercase or options.bleu_tokenize != "13a":
        raise ConfigError(
            "families are judged by the metrics that fit their targets; for --metrics, --bleu-tokenize and "
            "--lowercase, evaluate or compare the runs when they are trained"
        )


def _print(found: Any, options: argparse.Namespace) -> None:
    print(json.dumps(found.to_json(), ensure_ascii=False, allow_nan=False) if options.json else found)

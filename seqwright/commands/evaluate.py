"""`seqwright evaluate`: score a model on data with known targets."""

from __future__ import annotations

import argparse
import json
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="Run folder.")
    files = (
        "Test files, a source file and a target file, or images and their table (default: the test split of "
        "the run)."
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help=files)
    shared_arguments(parser)
    parser.add_argument("--output", metavar="F", help="Write the outputs to this file, one line per example.")


def shared_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading data, decoding and metrics, which `compare` has as well."""
    parser.add_argument("--beam", type=int, metavar="N", help="Beam size (default: the run's); 1 is greedy.")
    parser.add_argument("--columns", metavar="1,3:2", help="Source columns, a colon, target column.")
    parser.add_argument("--encoding", metavar="E", help="Encoding of the files.")
    syntax = "CoNLL-U file with the dependency trees of the sources; may be repeated."
    parser.add_argument("--syntax", action="append", default=[], metavar="F", help=syntax)
    parser.add_argument("--threads", type=int, metavar="N", help="Number of CPU threads.")
    parser.add_argument("--json", action="store_true", help="Print one JSON document instead of a table.")
    metrics = "Metrics, such as bleu,chrf or rouge (default: automatic)."
    parser.add_argument("--metrics", metavar="A,B", help=metrics)
    tokenize = "Tokenization for BLEU (default: 13a). Use none for text that is tokenized already."
    choices = ("13a", "none", "char", "intl", "zh")
    parser.add_argument("--bleu-tokenize", choices=choices, default="13a", help=tokenize)
    parser.add_argument("--lowercase", action="store_true", help="Ignore case in BLEU and chrF.")


def run(options: argparse.Namespace) -> None:
    from pathlib import Path

    from seqwright.config import parse
    from seqwright.evaluation.evaluate import evaluate_files
    from seqwright.files import check_place, write_text
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import Run, check_order

    check_order(options.folder, *options.files)
    if options.output is not None:
        read = options.files
        if not read:  # the test split comes from the data files of the run
            data = parse(Run.open(options.folder).config).data
            read = [*data.train, *data.test]
        check_place(Path(options.output), read)
    reading, judging = reading_options(options), metric_options(options)
    predictor = load(options.folder, threads=options.threads)
    evaluation = evaluate_files(predictor, options.files, **reading, judging=judging)
    if options.output is not None:
        write_text(Path(options.output), "".join(f"{text}\n" for text in evaluation.outputs), follow=True)
    print_result(evaluation, options)


def print_result(found: Any, options: argparse.Namespace) -> None:
    print(json.dumps(found.to_json(), ensure_ascii=False, allow_nan=False) if options.json else found)


def reading_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `evaluate_files` that control reading; refuse a wrong number of threads."""
    from seqwright.errors import ConfigError

    if options.threads is not None and options.threads < 1:
        raise ConfigError(f"--threads is {options.threads}; it must be at least 1")
    return {name: getattr(options, name) for name in ("beam", "columns", "encoding", "syntax")}


def metric_options(options: argparse.Namespace) -> Any:
    from seqwright.evaluation.evaluate import Judging

    names = tuple(name.strip() for name in options.metrics.split(",")) if options.metrics else ()
    return Judging(metrics=names, tokenize=options.bleu_tokenize, lowercase=options.lowercase)

"""`seqwright evaluate`: how good a model is on pairs whose targets are known."""

from __future__ import annotations

import argparse
import json
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="files of pairs, or a source and a target file; none: what the training put aside for a test",
    )
    reading_arguments(parser)
    judging_arguments(parser)
    parser.add_argument("--output", metavar="F", help="write the outputs there, one line for each pair")


def reading_arguments(parser: argparse.ArgumentParser) -> None:
    """How pairs are read and decoded; what is not said is as the training has it."""
    parser.add_argument(
        "--beam", type=int, metavar="N", help="width of the beam (default: the run's); 1 is greedy"
    )
    parser.add_argument(
        "--columns", metavar="1,3:2", help="columns of the source, a colon, that of the target"
    )
    parser.add_argument("--encoding", metavar="E", help="of the files")
    parser.add_argument("--threads", type=int, metavar="N", help="of the CPU")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a panel")


def judging_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics", metavar="A,B", help="instead of those that fit the targets: bleu, chrf, ter, …"
    )
    parser.add_argument(
        "--bleu-tokenize",
        choices=("13a", "none", "char", "intl", "zh"),
        default="13a",
        help="how BLEU cuts words; none for text whose words and signs stand between spaces already",
    )
    parser.add_argument("--lowercase", action="store_true", help="for BLEU and chrF")


def run(options: argparse.Namespace) -> None:
    from pathlib import Path

    from seqwright.evaluation.evaluate import evaluate_files
    from seqwright.files import check_place, write_text
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import check_order

    check_order(options.folder, *options.files)
    if options.output is not None:
        check_place(Path(options.output), options.files or _put_aside(options.folder))
    evaluation = evaluate_files(
        load(options.folder), options.files, **reading(options), judging=judging(options)
    )
    if options.output is not None:
        write_text(Path(options.output), "".join(f"{text}\n" for text in evaluation.outputs))
    print(
        json.dumps(evaluation.to_json(), ensure_ascii=False, allow_nan=False) if options.json else evaluation
    )


def _put_aside(folder: str) -> list[str]:
    """The files that hold what the training put aside for a test."""
    from seqwright.config import parse
    from seqwright.runs.folder import Run

    data = parse(Run.open(folder).config).data
    return [*data.train, *data.test]


def reading(options: argparse.Namespace) -> dict[str, Any]:
    """Options of `evaluate_files`; torch is set up on the way."""
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    import torch

    from seqwright.errors import ConfigError

    if options.threads is not None:
        if options.threads < 1:
            raise ConfigError(f"--threads is {options.threads}; it must be at least 1")
        torch.set_num_threads(options.threads)
    return {"beam": options.beam, "columns": options.columns, "encoding": options.encoding}


def judging(options: argparse.Namespace) -> Any:
    from seqwright.evaluation.evaluate import Judging

    named = tuple(name.strip() for name in options.metrics.split(",")) if options.metrics else ()
    return Judging(metrics=named, tokenize=options.bleu_tokenize, lowercase=options.lowercase)

"""`seqwright score`: how surprising a text is to a language model, token by token."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="Run folder of a language model.")
    parser.add_argument("input", metavar="TEXT", help="A text, or the name of a file or a folder of texts.")
    parser.add_argument("-o", "--output", metavar="F", help="Write a page with the text, shaded by surprise.")
    parser.add_argument("--json", action="store_true", help="Print one JSON document with all tokens.")
    parser.add_argument("--threads", type=int, metavar="N", help="Number of CPU threads.")


def run(options: argparse.Namespace) -> None:
    from seqwright.errors import ConfigError
    from seqwright.files import write_text
    from seqwright.prediction.predictor import load
    from seqwright.prediction.surprise import surprise
    from seqwright.runs.folder import check_order
    from seqwright.tasks.language_modeling import LanguageModeling

    check_order(options.folder, options.input)
    predictor = load(options.folder, threads=options.threads)
    if not isinstance(predictor.task, LanguageModeling):
        raise ConfigError(f"{options.folder} is not a language model; score it with seqwright evaluate")
    found = surprise(predictor, options.input)
    if options.output is not None:
        write_text(Path(options.output), found.page(options.folder), follow=True)
        print(f"seqwright: {options.output} has the page", file=sys.stderr)
    if options.json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    elif options.output is None:
        print(found)
    if unknown := list(predictor.task.unknown_symbols(found.scored.text)):
        listed = " ".join(map(repr, unknown[:8]))
        print(f"seqwright: the text has symbols that are unknown to the model: {listed}", file=sys.stderr)

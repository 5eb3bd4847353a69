"""The command line: verbs to functions. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from seqwright import __version__
from seqwright.errors import SeqwrightError
from seqwright.registry import unknown

VERBS = {
    "train": "train a model from a file of pairs; run again, it goes on where it stopped",
    "predict": "outputs for inputs: one line in, one line out",
    "evaluate": "scores on pairs, with intervals; where it fails, and how fast it is",
    "compare": "two models on the same pairs, or several families trained on them",
    "demo": "the whole way on data that need not be brought: train, test, predict",
    "doctor": "what is wrong with files of pairs, and a copy that is mended",
    "look": "what happens inside for one text: as a page, as JSON, or in the terminal",
    "heads": "what every attention head does, how much it matters, and a model without the others",
    "report": "the page of a run anew: scores, curves, data, errors, examples",
    "verify": "is a run folder whole, and does its model say what it said when it was new?",
    "describe": "what can be configured, with types, defaults and ranges",
    "presets": "the models that have a name, and where they come from",
}
EPILOG = (
    "Exit codes: 0 fine, 1 a bug, 2 input or configuration, 3 no usable model, 4 cannot write, "
    "5 training diverged, 130 and 143 signals."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a verb. An error that a user can cause is one line and an exit code; anything else is a bug."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without a character shows its number
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        return options.run(options) or 0
    except SeqwrightError as error:
        print(f"seqwright: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output left: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception:
        traceback.print_exc()
        print("seqwright: this is a bug; please report it with the lines above", file=sys.stderr)
        return 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the verb that is named first; only its file is imported."""
    verb = arguments[0] if arguments else ""
    if verb in VERBS:
        command = importlib.import_module(f"seqwright.commands.{verb}")
        described = VERBS[verb][0].upper() + VERBS[verb][1:] + "."
        parser = Parser(prog=f"seqwright {verb}", description=described, epilog=EPILOG)
        command.arguments(parser)
        parser.set_defaults(run=command.run)
        return parser.parse_intermixed_args(arguments[1:])  # key=value may stand anywhere
    if verb and not verb.startswith("-"):
        _overview().error(unknown("verb", verb, list(VERBS)))
    return _overview().parse_args(arguments)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"seqwright: {message}; see {self.prog} --help\n")


def _overview() -> argparse.ArgumentParser:
    """What there is without a verb: help and version."""
    parser = Parser(
        prog="seqwright",
        description="Attention models from a file of pairs: train, resume, predict, look inside.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"seqwright {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, summary in VERBS.items():
        verbs.add_parser(name, help=summary)
    return parser


if __name__ == "__main__":
    sys.exit(main())
